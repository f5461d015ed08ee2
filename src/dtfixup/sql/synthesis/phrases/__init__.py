"""Made-up questions in everyday English, with their SQL, over any database with content.

In: the databases of a split. Out: `PhrasedExample`s. `book.txt` holds the wordings, `lexicon.yaml` the everyday meaning
of words in schemas. `entities` and `domain` read a database as entities and relationships, the modules `*_questions`
choose what to ask and write question and query together, and `phrased_examples` keeps the pairs that pass all checks.
"""

from dtfixup.sql.synthesis.phrases.phrased_examples import PhrasedExample, PhrasingResult, make_phrases, write_phrases

__all__ = ["PhrasedExample", "PhrasingResult", "make_phrases", "write_phrases"]
