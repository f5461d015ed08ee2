"""Answers to questions about a database."""
