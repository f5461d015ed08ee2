"""Traits of columns, and the names of columns and tables as questions write them.

In: a database. Out: `Trait`s, which decide whether a column can replace another, and names in singular and plural.
"""

import re
from enum import StrEnum

from dtfixup.sql.database.content import Looks
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import ColumnKind
from dtfixup.sql.language.words import STOP_WORDS, is_english, lemma, name_lemmas
from dtfixup.sql.linking.inputs import DatabaseInputs


class Trait(StrEnum):
    """What two columns must have in common for one to replace the other."""

    STAR = "star"
    PRIMARY = "primary"
    FOREIGN = "foreign"
    LABEL = "label"
    """A number that identifies things, such as an id: nobody adds it up."""
    NUMBER = "number"
    YEAR = "year"
    TEXT = "text"
    FIGURES = "figures"
    """Numbers stored as text."""
    TIME = "time"
    BOOLEAN = "boolean"
    OTHERS = "others"


_LABELS = frozenset(["id", "code", "number", "phone", "zip", "key", "postcode", "zipcode", "fax", "telephone"])
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:\.0)?")
_KINDS = {
    ColumnKind.STAR: Trait.STAR,
    ColumnKind.TEXT: Trait.TEXT,
    ColumnKind.WORDS: Trait.TEXT,
    ColumnKind.TIME: Trait.TIME,
    ColumnKind.BOOLEAN: Trait.BOOLEAN,
    ColumnKind.OTHERS: Trait.OTHERS,
}


def traits_of(column: int, database: DatabaseInputs) -> frozenset[Trait]:
    """The traits of a column: its kind, and whether it is a key."""
    schema = database.schema
    traits = {_kind_of(column, database)}
    if column in schema.primary_keys[schema.columns[column].table]:
        traits.add(Trait.PRIMARY)
    if any(column == source for source, _ in schema.foreign_pairs):
        traits.add(Trait.FOREIGN)
    return frozenset(traits)


def _kind_of(column: int, database: DatabaseInputs) -> Trait:
    kind = database.kinds[column]
    stored = None if database.content is None else database.content.columns[column]
    if kind is ColumnKind.NUMBER:
        values = stored.values if stored is not None else ()
        lemmas = name_lemmas(database.schema.columns[column].natural)
        if values and all(map(_YEAR.fullmatch, values)):
            return Trait.YEAR
        return Trait.LABEL if lemmas and lemmas[-1] in _LABELS else Trait.NUMBER
    if kind is ColumnKind.TEXT and stored is not None and stored.looks is Looks.NUMBER:
        return Trait.FIGURES
    if kind in (ColumnKind.TEXT, ColumnKind.WORDS) and stored is not None and stored.looks is Looks.TIME:
        return Trait.TIME
    return _KINDS[kind]


def referred_tables(column: int, schema: Schema) -> list[int]:
    """The tables that a foreign key refers to."""
    return [schema.columns[target].table for source, target in schema.foreign_pairs if source == column]


def short_lemmas(column: str, table: str) -> tuple[str, ...]:
    """A column's name without the first words that its table's name has too; empty if none is cut, or all are.

    >>> short_lemmas("document type code", "document types"), short_lemmas("name", "documents")
    (('code',), ())
    """
    lemmas = name_lemmas(column)
    shared = frozenset(name_lemmas(table))
    start = 0
    while start < len(lemmas) and lemmas[start] in shared:
        start += 1
    return lemmas[start:] if 0 < start < len(lemmas) else ()


def bare_lemmas(column: int, schema: Schema) -> tuple[str, ...]:
    """The short name of a column if it has one, else its whole name; columns with equal ones mean the same."""
    own = schema.columns[column]
    return short_lemmas(own.natural, schema.tables[own.table].natural) or name_lemmas(own.natural)


def title_of(table: int, schema: Schema) -> int | None:
    """The column with the names of a table's rows: its only `name` or `title`."""
    names = [
        column for column in schema.columns_of[table][1:] if bare_lemmas(column, schema) in (("name",), ("title",))
    ]
    return names[0] if len(names) == 1 else None


def short_name(column: str, table: str) -> str:
    """`short_lemmas` as the words of the name, not their lemmas."""
    return " ".join(column.split()[-len(short) :]) if (short := short_lemmas(column, table)) else ""


def is_plain_name(name: str) -> bool:
    """Whether a name is a few English words, so that a question can contain it."""
    words = name.split()
    if not words or words[-1].lower() in _SMALL or (len(words) == 1 and words[0].lower().endswith("ed")):
        return False  # `organized by` and `opened` are no nouns
    if STOP_WORDS.issuperset(map(str.lower, words)):
        return False
    return 0 < len(words) <= 4 and all(
        word.lower() in _SMALL or word.lower() == "id" or (len(word) > 2 and word.isalpha() and is_english(word))
        for word in words
    )


_SMALL = frozenset(["of", "in", "for", "per", "to", "by", "on", "at"])
_AFTER_HEAD = _SMALL | {"from", "with"}
_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women", "foot": "feet"}
_IRREGULAR_BACK = {plural: singular for singular, plural in _IRREGULAR.items()}


def is_plural(word: str) -> bool:
    """Whether a noun is in the plural.

    >>> [is_plural(word) for word in ("cities", "status", "people", "names", "class")]
    [True, False, True, True, False]
    """
    lowered = word.lower()
    return lowered in _IRREGULAR_BACK or (lowered.endswith("s") and lemma(lowered) != lowered)


def plural(word: str) -> str:
    """The plural of a noun, by the rules of English spelling.

    >>> [plural(word) for word in ("city", "day", "branch", "person", "sales")]
    ['cities', 'days', 'branches', 'people', 'sales']
    """
    if is_plural(word):
        return word
    if re.search(r"[^aius]s$", word):  # headquarters
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def singular(word: str) -> str:
    """The singular of a noun that is in the plural.

    >>> singular("cities"), singular("status")
    ('city', 'status')
    """
    return _IRREGULAR_BACK.get(word) or (lemma(word) if is_plural(word) else word)


def inflect(name: str, *, is_plural: bool, is_measure: bool = False) -> str:
    """Put the head of a name, which is before `of`, in the plural or the singular; a measure stays `total points`.

    >>> inflect("date of birth", is_plural=True), inflect("students", is_plural=False)
    ('dates of birth', 'student')
    """
    words = name.lower().split()
    head = next((index for index, word in enumerate(words) if index and word in _AFTER_HEAD), len(words)) - 1
    if is_plural:
        words[head] = plural(words[head])
    elif not is_measure:
        words[head] = singular(words[head])
    return " ".join(words)
