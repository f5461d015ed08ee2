"""Databases that visitors choose from or bring along."""
