"""More training examples from those there are: questions asked anew over other databases.

In: a split of a dataset. Out: `Synthetic` examples. `templates/making.py` takes the database out of a question and its
query, `implied_columns.py` does so where the question implies a column and does not name it, and `templates/filling.py`
puts another database in; `templates.py` is what goes between them. The phrase book makes its examples by
`made_examples.py` too.
"""

from dtfixup.sql.synthesis.templates.making_examples import Synthetic, synthesise, write_examples

__all__ = ["Synthetic", "synthesise", "write_examples"]
