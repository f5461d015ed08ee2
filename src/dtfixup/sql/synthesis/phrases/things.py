"""What there is to ask about in one table: its rows as things, its columns as what things have.

In: a described database. Out: a `Thing` per table that people can name, with the `Attribute`s that they can.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dtfixup.sql.database.content import ColumnContent, Looks
from dtfixup.sql.grammar.rules import ColumnKind
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import is_english, name_lemmas
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.phrases.lexicon import Happening, Quantity, lexicon
from dtfixup.sql.synthesis.phrases.nouns import Measured, Noun, attribute_noun, thing_noun
from dtfixup.sql.synthesis.templates.columns import bare_lemmas, singular


class Kind(StrEnum):
    """What can be said of a column."""

    TEXT = "text"
    NUMBER = "number"
    COUNTED = "counted"
    """How many of something a thing has."""
    YEAR = "year"
    DATE = "date"
    FLAG = "flag"
    LABEL = "label"
    """A number or code that tells things apart: it is shown, and never compared."""


@dataclass(frozen=True)
class Attribute:
    """A column that people can name."""

    column: int
    kind: Kind
    noun: Noun
    held: ColumnContent
    unit: str | None = None
    counted: str | None = None
    quantity: Quantity | None = None
    has_adjective: bool = False
    """Whether the quantity's adjectives can be said of the thing: what a ticket costs does not make a museum cheap."""
    happening: Happening | None = None
    flag: tuple[str, str] | None = None
    """The stored yes and no."""
    has_null: bool = False
    is_foreign: bool = False

    @property
    def comes_again(self) -> bool:
        """Whether values come more than once, so that rows fall into groups by them."""
        return 1 < len(self.held.values) <= _GROUPED * self.held.rows

    @property
    def counted_one(self) -> str | None:
        """One of what a column counts: an employee, an inhabitant."""
        if self.counted is None:
            return None
        known = dict(lexicon().numbers.values())
        if self.counted in known:
            return known[self.counted]
        *before, last = self.counted.split()
        return " ".join([*before, known.get(last) or singular(last)])

    @property
    def numbers(self) -> list[float]:
        found = (plain_number(value) for value in self.held.values)
        return sorted(float(number) for number in found if number is not None)


@dataclass(frozen=True)
class Thing:
    """A table whose rows people can name."""

    table: int
    noun: Noun
    attributes: tuple[Attribute, ...]
    titles: tuple[Attribute, ...]
    """What a row is called by: its name, or its first and last name; empty where nothing names it."""
    key: Attribute | None
    is_person: bool
    is_owned: bool
    is_event: bool
    rows: int

    def of_kind(self, *kinds: Kind) -> list[Attribute]:
        return [attribute for attribute in self.attributes if attribute.kind in kinds]


_GROUPED = 0.7
_LABELS = frozenset(["id", "ssn", "code", "number", "phone", "zip", "key", "postcode", "zipcode", "fax", "telephone"])
_SECRETS = frozenset(["password", "url", "detail", "line", "latitude", "longitude"])
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:\.0)?")
_YES, _NO = frozenset(["y", "yes", "t", "true", "1"]), frozenset(["n", "no", "f", "false", "0"])
_NO_FLAGS = frozenset(["sex", "gender", "mf", "date", "number", "count", "id", "value", "amount"])
_FLAG_WORDS = frozenset(["is", "if", "yn", "yes", "or", "no", "flag"])
_NAME_HEADS = ("name", "title")
_PLAIN_NAMES = frozenset(["official", "common", "full", "network", "display", "public", "proper", "english"])
_NAME_PAIRS = (
    (("first", "name"), ("last", "name")),
    (("forename",), ("surname",)),
    (("personal", "name"), ("family", "name")),
)


def read_thing(table: int, database: DatabaseInputs, stored: Mapping[int, frozenset[str]]) -> Thing | None:
    """A table as a thing; None where its name cannot be said or nothing is stored.

    `stored` are SQLite's types of the values of columns, `null` among them.
    """
    schema, content = database.schema, database.content
    noun = thing_noun(schema.tables[table].natural)
    columns = schema.columns_of[table][1:]
    if noun is None or content is None or not columns:
        return None
    rows = max(content.columns[column].rows for column in columns)
    if rows < 2:
        return None
    is_person = noun.head in lexicon().people
    found = [
        attribute
        for column in columns
        if (attribute := _read_attribute(column, noun, database, stored.get(column, frozenset()))) is not None
    ]
    found = _told_apart(found)
    titles = _titles(found, noun, database, rows, is_person)
    own = tuple(
        attribute
        for attribute in found
        if not attribute.is_foreign and (attribute in titles or attribute.noun.one != noun.one)
    )
    if not titles and _is_bridge(table, noun, own, database):
        return None
    key = schema.primary_keys[table]
    return Thing(
        table,
        noun,
        own,
        titles,
        next((attribute for attribute in found if key == (attribute.column,)), None),
        is_person,
        noun.head in lexicon().owned,
        noun.head in lexicon().events | lexicon().held,
        rows,
    )


def _told_apart(found: Sequence[Attribute]) -> list[Attribute]:
    """Attributes of one name are told apart by their units, or left out; `shortest` says one thing only."""
    kept = []
    for attribute in found:
        others = [other for other in found if other is not attribute]
        if any(other.noun.one == attribute.noun.one for other in others):
            if attribute.unit is None:
                continue
            one, many = (f"{name} in {attribute.unit}" for name in (attribute.noun.one, attribute.noun.many))
            noun = replace(attribute.noun, one=one, many=many)
            attribute = replace(attribute, noun=noun, unit=None, has_adjective=False)
        least = [other.quantity.least for other in others if other.quantity is not None and other.has_adjective]
        if attribute.quantity is not None and attribute.quantity.least in least:
            attribute = replace(
                attribute, has_adjective=False, counted=None if attribute.kind is Kind.NUMBER else attribute.counted
            )
        kept.append(attribute)
    return kept


def _is_bridge(table: int, noun: Noun, own: Sequence[Attribute], database: DatabaseInputs) -> bool:
    """Whether a table only ties others together, so that nobody asks for its rows."""
    schema = database.schema
    pointing = {source for source, _ in schema.foreign_pairs if schema.columns[source].table == table}
    is_known = noun.head in lexicon().owned | lexicon().events | lexicon().held | lexicon().people
    has_own = any(attribute.kind is not Kind.LABEL for attribute in own)
    referred = {schema.columns[target].table for source, target in schema.foreign_pairs if source in pointing}
    heads = {name_lemmas(schema.tables[other].natural)[-1:] for other in referred}
    own_words = name_lemmas(schema.tables[table].natural)
    is_named_after_both = sum((word,) in heads for word in own_words) > 1
    return len(pointing) > 1 and (is_named_after_both or not (is_known and has_own))


def _read_attribute(column: int, thing: Noun, database: DatabaseInputs, types: frozenset[str]) -> Attribute | None:
    schema, content = database.schema, database.content
    assert content is not None
    own, held = schema.columns[column], content.columns[column]
    lemmas = name_lemmas(own.natural)
    if not lemmas or not _SECRETS.isdisjoint(lemmas) or held.looks is Looks.NOTHING:
        return None
    flag = _flag_of(held.values, lemmas)
    natural = own.natural
    if flag is not None:
        natural = " ".join(word for word in natural.lower().split() if word not in _FLAG_WORDS)
        return _flag_attribute(column, natural, held, flag)
    measured = attribute_noun(natural, schema.tables[own.table].natural, holds_words=_are_words(held.values))
    if measured is None:
        return None
    is_foreign = any(column == source for source, _ in schema.foreign_pairs)
    kind = _kind_of(column, measured, database, types)
    quantity, has_adjective = _quantity_of(measured.noun) if kind is Kind.NUMBER else (None, False)
    is_odd = quantity is None and (measured.noun.is_plural or _is_no_measure(measured.noun))
    if kind is None or (kind is Kind.NUMBER and is_odd):
        return None
    counted = measured.counted
    if kind is Kind.COUNTED and counted is None:
        counted = measured.noun.many
    if quantity is not None and quantity.counted and kind is Kind.NUMBER and has_adjective:
        counted = quantity.counted
    return Attribute(
        column,
        kind,
        measured.noun,
        held,
        measured.unit or (quantity.unit if quantity is not None and has_adjective else None),
        counted,
        quantity,
        has_adjective,
        _happening_of(measured.noun, kind),
        has_null="null" in types,
        is_foreign=is_foreign,
    )


def _is_no_measure(noun: Noun) -> bool:
    return noun.head in lexicon().no_measures | lexicon().people or noun.one.split()[-1] in lexicon().no_measures


def _kind_of(column: int, measured: Measured, database: DatabaseInputs, types: frozenset[str]) -> Kind | None:
    schema, content = database.schema, database.content
    assert content is not None
    own, held = schema.columns[column], content.columns[column]
    lemmas = name_lemmas(own.natural)
    is_key = column in schema.primary_keys[own.table] or any(column in pair for pair in schema.foreign_pairs)
    counted = measured.counted
    has_one_length = len({len(value) for value in held.values}) == 1  # then texts are ordered as numbers are
    is_numeric = held.looks is Looks.NUMBER and (types - {"null"} <= {"integer", "real"} or has_one_length)
    if held.date_form is not None:
        return Kind.DATE
    if held.looks is Looks.TIME:
        return None  # clocks are compared as texts, which few questions mean
    tells_time = not {"year", "season"}.isdisjoint(lemmas) or _happening_of(measured.noun, Kind.YEAR) is not None
    if is_numeric and tells_time and all(map(_YEAR.fullmatch, held.values)):
        return Kind.YEAR
    if is_key and held.looks is Looks.NUMBER:
        return Kind.LABEL
    if lemmas[-1] in _LABELS and counted is None:
        return Kind.TEXT if lemmas[-1] == "code" and _are_words(held.values) else Kind.LABEL
    if is_numeric and database.kinds[column] is ColumnKind.NUMBER:
        is_counted = counted is not None or (measured.unit is None and _counts(own.natural, held.values))
        return Kind.COUNTED if is_counted else Kind.NUMBER
    if held.looks is Looks.TEXT:
        return Kind.TEXT
    return None


_NO_COUNTS = frozenset(["sale", "profit", "asset", "saving", "earning", "rate", "unit", "score", "gross", "dollar"])


def _counts(natural: str, values: Sequence[str]) -> bool:
    """Whether a number column is called by what it counts: wins, seats, kids."""
    last = natural.lower().split()[-1]
    lemmas = name_lemmas(natural)
    are_whole = lemmas[-1] == "point" or all(value.removesuffix(".0").isdigit() for value in values)
    return are_whole and last.endswith("s") and lemmas[-1] != last and lemmas[-1] not in _NO_COUNTS


def _are_words(values: Sequence[str]) -> bool:
    letters = [value for value in values if len(value) > 3 and value.replace(" ", "").isalpha()]
    return len(letters) >= 0.8 * len(values) and not all(map(str.isupper, values))


def _flag_of(values: Sequence[str], lemmas: Sequence[str]) -> tuple[str, str] | None:
    yes = [value for value in values if value.lower() in _YES]
    no = [value for value in values if value.lower() in _NO]
    if len(values) != 2 or len(yes) != 1 or len(no) != 1 or not _NO_FLAGS.isdisjoint(lemmas):
        return None
    return yes[0], no[0]


def _flag_attribute(column: int, natural: str, held: ColumnContent, flag: tuple[str, str]) -> Attribute | None:
    words = natural.split()
    if not words or not all(word.isalpha() and (is_english(word) or len(word) == 3) for word in words):
        return None
    said = " ".join(word.upper() if not is_english(word) else word for word in words)
    return Attribute(column, Kind.FLAG, Noun(said, said, words[-1]), held, flag=flag)


def _quantity_of(noun: Noun) -> tuple[Quantity | None, bool]:
    words = name_lemmas(noun.one)
    for quantity in lexicon().quantities:
        if noun.head in quantity.words or (words and words[-1] in quantity.words):
            others = [word for word in words if word not in quantity.words]
            return quantity, lexicon().neutral.issuperset(others)
    return None, False


def _happening_of(noun: Noun, kind: Kind) -> Happening | None:
    """What a time says of the thing, where its name says nothing else: `date of birth`, `open year`."""
    if kind not in (Kind.YEAR, Kind.DATE):
        return None
    words = [word for word in noun.one.lower().split() if word not in ("date", "year", "of", "time", "the", "month")]
    said = " ".join(words)
    for happening in lexicon().happenings:
        if said in happening.words or (words and len(words) == 1 and name_lemmas(said)[0] in happening.words):
            return happening
    return None


def _titles(
    found: Sequence[Attribute], noun: Noun, database: DatabaseInputs, rows: int, is_person: bool
) -> tuple[Attribute, ...]:
    """What rows are called by: one column that names them, or first and last name."""
    schema = database.schema
    named = {bare_lemmas(attribute.column, schema): attribute for attribute in found if attribute.kind is Kind.TEXT}
    for pair in _NAME_PAIRS:
        if is_person and all(name in named for name in pair):
            return named[pair[0]], named[pair[1]]
    own = [attribute for name, attribute in named.items() if name in (("name",), ("title",))]
    if not own:
        own = [attribute for name, attribute in named.items() if name == name_lemmas(noun.one)]
    if not own:
        own = [
            attribute
            for name, attribute in named.items()
            if name[-1] in _NAME_HEADS and len(name) == 2 and (is_person or name[0] in _PLAIN_NAMES)
        ]
    own = [attribute for attribute in own if len(attribute.held.values) >= _TELLING * rows]
    return (own[0],) if len(own) == 1 else ()


_TELLING = 0.5  # distinct names per row from which on a name tells things apart


def is_place(attribute: Attribute) -> bool:
    """Whether things are in what a column holds."""
    return attribute.noun.head in lexicon().said_of["in"] - {
        "headquarters",
        "headquarter",
        "area",
        "residence",
        "hometown",
    }
