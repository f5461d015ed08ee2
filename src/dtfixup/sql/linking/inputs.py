"""The inputs of the model for a database and for a question over it, before subwords are split off.

In: a schema, the content of its database, a question. Out: `DatabaseInputs` and `QuestionInputs`. Preparation makes
them for a whole dataset and the parser for one question, by the same code.
"""

from dataclasses import dataclass

from dtfixup.sql.database.content import ContentIndex, Looks
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.grammar.rules import ColumnKind
from dtfixup.sql.grammar.transitions import column_kinds
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import Word, split_words
from dtfixup.sql.linking.candidates import Candidate, candidates
from dtfixup.sql.linking.links import Links, link
from dtfixup.sql.linking.relations import Codes, schema_relations


@dataclass(frozen=True)
class DatabaseInputs:
    """A database as the model sees it; items are its columns, each table's `*` first, then its tables."""

    schema: Schema
    content: ContentIndex | None
    item_words: tuple[tuple[str, ...], ...]
    kinds: tuple[ColumnKind, ...]
    relations: Codes


@dataclass(frozen=True)
class QuestionInputs:
    """A question as the model sees it."""

    words: tuple[Word, ...]
    links: Links
    codes: Codes
    """[words, items]: which word matches which item."""
    candidates: tuple[Candidate, ...]


def describe_database(schema: Schema, content: ContentIndex | None) -> DatabaseInputs:
    """A database's items, their kinds and relations."""
    columns = [
        ("*", *_words(schema.tables[column.table].natural))
        if column.type is ColumnType.STAR
        else _words(column.natural)
        for column in schema.columns
    ]
    tables = [_words(table.natural) for table in schema.tables]
    kinds = column_kinds(schema, words=_columns_of_words(schema, content))
    return DatabaseInputs(schema, content, (*columns, *tables), kinds, schema_relations(schema))


def describe_question(question: str, database: DatabaseInputs) -> QuestionInputs:
    """A question's words, links and literal candidates."""
    words = split_words(question)
    links = link(words, database.schema, database.content)
    codes = links.codes(len(words), database.schema)
    literals = candidates(words, question, database.schema, database.content, links)
    return QuestionInputs(words, links, codes, literals)


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.text for word in split_words(name)) or (name,)


def _columns_of_words(schema: Schema, content: ContentIndex | None) -> list[int]:
    """Text columns whose values are neither numbers nor times, so that no sum or average is offered."""
    if content is None:
        return []
    columns = []
    for index, (column, stored) in enumerate(zip(schema.columns, content.columns, strict=True)):
        is_text = column.type is ColumnType.TEXT and stored.looks is Looks.TEXT
        if is_text and all(plain_number(value) is None for value in stored.values):
            columns.append(index)
    return columns
