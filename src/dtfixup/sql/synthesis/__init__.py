"""More training examples from those there are: questions asked anew over other databases.

In: a split of a dataset. Out: `Synthetic` examples. `template_making.py` takes the database out of a question and its
query, `template_filling.py` puts another one in; `templates.py` is what goes between them.
"""

from dtfixup.sql.synthesis.making_examples import Synthetic, synthesise, write_examples

__all__ = ["Synthetic", "synthesise", "write_examples"]
