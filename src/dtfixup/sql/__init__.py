"""Text to SQL: schemas, linking, grammar, values, evaluation, execution; the parser is built on these."""
