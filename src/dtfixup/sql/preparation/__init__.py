"""Questions and databases as the arrays that the model reads."""
