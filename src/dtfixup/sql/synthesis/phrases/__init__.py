"""A phrase book: many ways in which English asks for each construct of the grammar, over any database with content.

In: the databases of a split. Out: `Phrased` examples. `book.txt` holds the ways of saying things and `lexicon.yaml`
what words of schemas mean; `things.py` and `domain.py` see a database as things that people name, the modules
`asking_*` choose what is asked and build question and query side by side, and `making_phrases.py` keeps what can be
checked.
"""

from dtfixup.sql.synthesis.phrases.making_phrases import Phrased, Phrases, make_phrases, write_phrases

__all__ = ["Phrased", "Phrases", "make_phrases", "write_phrases"]
