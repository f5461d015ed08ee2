"""More training examples: questions of a dataset, asked over other databases.

In: a split of a dataset. Out: `Synthetic` examples. `maker.py` takes the database out of a question and its query,
`implied_columns.py` does so if the question implies a column without naming it, and `filler.py` puts another database
in. A `Template` goes between them.
"""

from dtfixup.sql.synthesis.templates.examples import Synthetic, synthesise, write_examples

__all__ = ["Synthetic", "synthesise", "write_examples"]
