"""Exact match as the official script has it, execution accuracy, and kinds of errors."""
