"""Scores of predicted queries: Spider's exact match, execution accuracy, and kinds of errors."""
