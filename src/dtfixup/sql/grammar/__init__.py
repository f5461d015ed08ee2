"""Queries as trees: the rules, SQL to tree and back, and the actions that build a tree."""
