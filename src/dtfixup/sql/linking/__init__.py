"""Which words of a question mean which tables, columns and values."""
