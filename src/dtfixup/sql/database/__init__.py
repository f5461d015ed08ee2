"""Schemas, datasets and live databases: what is there, under which names, and what its columns hold."""
