"""Tables as entities with attributes, as far as they have everyday names.

In: a described database. Out: an `Entity` for each table with a plain noun, and an `Attribute` for each such column.
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
from dtfixup.sql.synthesis.phrases.lexicon import Quantity, TimeVerb, lexicon
from dtfixup.sql.synthesis.phrases.nouns import Measured, Noun, attribute_noun, entity_noun
from dtfixup.sql.synthesis.templates.columns import bare_lemmas, singular


class Kind(StrEnum):
    """What questions can do with a column."""

    TEXT = "text"
    NUMBER = "number"
    COUNTED = "counted"
    """How many of something an entity has."""
    YEAR = "year"
    DATE = "date"
    FLAG = "flag"
    LABEL = "label"
    """An identifying number or code: it is shown and never compared."""


@dataclass(frozen=True)
class Attribute:
    """A column with an everyday name."""

    column: int
    kind: Kind
    noun: Noun
    content: ColumnContent
    unit: str | None = None
    counted: str | None = None
    quantity: Quantity | None = None
    has_adjective: bool = False
    """Whether the quantity's adjectives fit the entity; a ticket price does not make a museum cheap."""
    time_verb: TimeVerb | None = None
    flag: tuple[str, str] | None = None
    """The stored yes and no."""
    has_null: bool = False

    @property
    def has_repeats(self) -> bool:
        """Whether values repeat, so that rows can be grouped by them."""
        return 1 < len(self.content.values) <= _GROUPED * self.content.rows

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
        """The stored numbers in ascending order."""
        numbers = (plain_number(value) for value in self.content.values)
        return sorted(float(number) for number in numbers if number is not None)

    @property
    def is_rank(self) -> bool:
        return self.quantity is not None and self.quantity.is_order

    @property
    def worded_quantity(self) -> Quantity | None:
        """The quantity, if its adjectives fit the entity."""
        return self.quantity if self.has_adjective else None

    @property
    def has_sortable_dates(self) -> bool:
        """Whether the text order of the stored dates is their order in time."""
        return self.content.date_form in _SORTED_FORMS


@dataclass(frozen=True)
class Entity:
    """A table whose rows have an everyday name."""

    table: int
    noun: Noun
    attributes: tuple[Attribute, ...]
    titles: tuple[Attribute, ...]
    """The columns that name a row: one name, or first and last name; empty where nothing names it."""
    key: Attribute | None
    is_person: bool
    is_owned: bool
    is_event: bool
    rows: int

    def of_kind(self, *kinds: Kind) -> list[Attribute]:
        return [attribute for attribute in self.attributes if attribute.kind in kinds]

    @property
    def measures(self) -> list[Attribute]:
        """Numbers that can be averaged."""
        return [attribute for attribute in self.of_kind(Kind.NUMBER, Kind.COUNTED) if not attribute.is_rank]


_GROUPED = 0.7
"""The most distinct values per row of a column to group by."""
_NAMING = 0.5
"""The fewest distinct values per row of a column that names rows."""
_SORTED_FORMS = ("YYYY-MM-DD", "YYYY/MM/DD", "YYYY.MM.DD")
_LABELS = frozenset(["id", "ssn", "code", "number", "phone", "zip", "key", "postcode", "zipcode", "fax", "telephone"])
_SECRETS = frozenset(["password", "url", "detail", "line", "latitude", "longitude"])
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:\.0)?")
_YES, _NO = frozenset(["y", "yes", "t", "true", "1"]), frozenset(["n", "no", "f", "false", "0"])
_NO_FLAGS = frozenset(["sex", "gender", "mf", "date", "number", "count", "id", "value", "amount"])
_FLAG_WORDS = frozenset(["is", "if", "yn", "yes", "or", "no", "flag"])
_NO_PLACES = frozenset(["headquarters", "headquarter", "area", "residence", "hometown"])
_NAME_HEADS = ("name", "title")
_PLAIN_NAMES = frozenset(["official", "common", "full", "network", "display", "public", "proper", "english"])
_NAME_PAIRS = (
    (("first", "name"), ("last", "name")),
    (("forename",), ("surname",)),
    (("personal", "name"), ("family", "name")),
)


def read_entity(table: int, database: DatabaseInputs, stored: Mapping[int, frozenset[str]]) -> Entity | None:
    """A table as an entity; None where it has no everyday name or fewer than two rows.

    `stored` maps columns to SQLite's types of their values, including `null`.
    """
    schema, content = database.schema, database.content
    noun = entity_noun(schema.tables[table].natural)
    columns = schema.columns_of[table][1:]
    if noun is None or content is None or not columns:
        return None
    rows = max(content.columns[column].rows for column in columns)
    if rows < 2:
        return None
    is_person = noun.head in lexicon().people
    read = [_read_attribute(column, database, stored.get(column, frozenset())) for column in columns]
    attributes = _distinguish_names([attribute for attribute in read if attribute is not None])
    titles = _titles(attributes, noun, database, rows, is_person)
    foreign = {source for source, _ in schema.foreign_pairs}
    own = tuple(
        attribute
        for attribute in attributes
        if attribute.column not in foreign and (attribute in titles or attribute.noun.one != noun.one)
    )
    if not titles and _is_bridge(table, noun, own, database):
        return None
    key = schema.primary_keys[table]
    return Entity(
        table,
        noun,
        own,
        titles,
        next((attribute for attribute in attributes if key == (attribute.column,)), None),
        is_person,
        noun.head in lexicon().owned,
        noun.head in lexicon().events | lexicon().held,
        rows,
    )


def _distinguish_names(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Add units to attributes of the same name, or drop them; keep an adjective such as `shortest` for one of them."""
    kept = []
    for attribute in attributes:
        others = [other for other in attributes if other is not attribute]
        if any(other.noun.one == attribute.noun.one for other in others):
            if attribute.unit is None:
                continue
            one, many = (f"{name} in {attribute.unit}" for name in (attribute.noun.one, attribute.noun.many))
            noun = replace(attribute.noun, one=one, many=many)
            attribute = replace(attribute, noun=noun, unit=None, has_adjective=False)
        least = [other.worded_quantity.least for other in others if other.worded_quantity is not None]
        if attribute.quantity is not None and attribute.quantity.least in least:
            attribute = replace(
                attribute, has_adjective=False, counted=None if attribute.kind is Kind.NUMBER else attribute.counted
            )
        kept.append(attribute)
    return kept


def _is_bridge(table: int, noun: Noun, own: Sequence[Attribute], database: DatabaseInputs) -> bool:
    """Whether a table only links others, so that nobody asks for its rows."""
    schema = database.schema
    pointing = {source for source, _ in schema.foreign_pairs if schema.columns[source].table == table}
    is_known = noun.head in lexicon().owned | lexicon().events | lexicon().held | lexicon().people
    has_own = any(attribute.kind is not Kind.LABEL for attribute in own)
    referred = {schema.columns[target].table for source, target in schema.foreign_pairs if source in pointing}
    heads = {name_lemmas(schema.tables[other].natural)[-1:] for other in referred}
    own_words = name_lemmas(schema.tables[table].natural)
    is_named_after_both = sum((word,) in heads for word in own_words) > 1
    return len(pointing) > 1 and (is_named_after_both or not (is_known and has_own))


def _read_attribute(column: int, database: DatabaseInputs, types: frozenset[str]) -> Attribute | None:
    schema = database.schema
    assert database.content is not None
    own, content = schema.columns[column], database.content.columns[column]
    lemmas = name_lemmas(own.natural)
    if not lemmas or not _SECRETS.isdisjoint(lemmas) or content.looks is Looks.NOTHING:
        return None
    flag = _flag_values(content.values, lemmas)
    if flag is not None:
        return _flag_attribute(column, own.natural, content, flag)
    table = schema.tables[own.table].natural
    measured = attribute_noun(own.natural, table, holds_words=_are_words(content.values))
    kind = _kind_of(column, measured, database, types) if measured is not None else None
    if measured is None or kind is None:
        return None
    noun, counted = measured.noun, measured.counted
    quantity, has_adjective = _quantity_of(noun) if kind is Kind.NUMBER else (None, False)
    if kind is Kind.NUMBER and quantity is None and (noun.is_plural or _is_no_measure(noun)):
        return None
    if kind is Kind.COUNTED and counted is None:
        counted = noun.many
    if quantity is not None and quantity.counted and has_adjective:
        counted = quantity.counted
    return Attribute(
        column,
        kind,
        noun,
        content,
        measured.unit or (quantity.unit if quantity is not None and has_adjective else None),
        counted,
        quantity,
        has_adjective,
        _time_verb_of(noun, kind),
        has_null="null" in types,
    )


def _is_no_measure(noun: Noun) -> bool:
    """Whether numbers of this name measure nothing: a room, a customer."""
    return noun.head in lexicon().no_measures | lexicon().people or noun.one.split()[-1] in lexicon().no_measures


def _kind_of(column: int, measured: Measured, database: DatabaseInputs, types: frozenset[str]) -> Kind | None:
    schema = database.schema
    assert database.content is not None
    own, content = schema.columns[column], database.content.columns[column]
    lemmas = name_lemmas(own.natural)
    is_key = column in schema.primary_keys[own.table] or any(column in pair for pair in schema.foreign_pairs)
    counted = measured.counted
    # Numbers stored as text sort as numbers only if all have the same length.
    has_one_length = len({len(value) for value in content.values}) == 1
    is_numeric = content.looks is Looks.NUMBER and (types - {"null"} <= {"integer", "real"} or has_one_length)
    if content.date_form is not None:
        return Kind.DATE
    if content.looks is Looks.TIME:
        return None  # clock times are compared as texts, which few questions mean
    tells_time = not {"year", "season"}.isdisjoint(lemmas) or _time_verb_of(measured.noun, Kind.YEAR) is not None
    if is_numeric and tells_time and all(map(_YEAR.fullmatch, content.values)):
        return Kind.YEAR
    if is_key and content.looks is Looks.NUMBER:
        return Kind.LABEL
    if lemmas[-1] in _LABELS and counted is None:
        return Kind.TEXT if lemmas[-1] == "code" and _are_words(content.values) else Kind.LABEL
    if is_numeric and database.kinds[column] is ColumnKind.NUMBER:
        is_counted = counted is not None or (measured.unit is None and _is_count(own.natural, content.values))
        return Kind.COUNTED if is_counted else Kind.NUMBER
    return Kind.TEXT if content.looks is Looks.TEXT else None


_NO_COUNTS = frozenset(["sale", "profit", "asset", "saving", "earning", "rate", "unit", "score", "gross", "dollar"])


def _is_count(natural: str, values: Sequence[str]) -> bool:
    """Whether a number column is named after what it counts: wins, seats, kids."""
    last = natural.lower().split()[-1]
    lemmas = name_lemmas(natural)
    are_whole = lemmas[-1] == "point" or all(value.removesuffix(".0").isdigit() for value in values)
    return are_whole and last.endswith("s") and lemmas[-1] != last and lemmas[-1] not in _NO_COUNTS


def _are_words(values: Sequence[str]) -> bool:
    """Whether most values are words rather than codes."""
    letters = [value for value in values if len(value) > 3 and value.replace(" ", "").isalpha()]
    return len(letters) >= 0.8 * len(values) and not all(map(str.isupper, values))


def _flag_values(values: Sequence[str], lemmas: Sequence[str]) -> tuple[str, str] | None:
    """The stored yes and no of a column that holds nothing else."""
    yes = [value for value in values if value.lower() in _YES]
    no = [value for value in values if value.lower() in _NO]
    if len(values) != 2 or len(yes) != 1 or len(no) != 1 or not _NO_FLAGS.isdisjoint(lemmas):
        return None
    return yes[0], no[0]


def _flag_attribute(column: int, natural: str, content: ColumnContent, flag: tuple[str, str]) -> Attribute | None:
    words = [word for word in natural.lower().split() if word not in _FLAG_WORDS]
    if not words or not all(word.isalpha() and (is_english(word) or len(word) == 3) for word in words):
        return None
    name = " ".join(word if is_english(word) else word.upper() for word in words)
    return Attribute(column, Kind.FLAG, Noun(name, name, words[-1]), content, flag=flag)


def _quantity_of(noun: Noun) -> tuple[Quantity | None, bool]:
    """What a number of this name measures, and whether its adjectives fit the entity."""
    words = name_lemmas(noun.one)
    for quantity in lexicon().quantities:
        if noun.head in quantity.words or (words and words[-1] in quantity.words):
            others = [word for word in words if word not in quantity.words]
            return quantity, lexicon().neutral.issuperset(others)
    return None, False


def _time_verb_of(noun: Noun, kind: Kind) -> TimeVerb | None:
    """The verb of a time whose name holds nothing else: `date of birth`, `open year`."""
    if kind not in (Kind.YEAR, Kind.DATE):
        return None
    words = [word for word in noun.one.lower().split() if word not in ("date", "year", "of", "time", "the", "month")]
    name = " ".join(words)
    names = {name, name_lemmas(name)[0]} if len(words) == 1 else {name}
    return next((verb for verb in lexicon().time_verbs if not names.isdisjoint(verb.words)), None)


def _titles(
    attributes: Sequence[Attribute], noun: Noun, database: DatabaseInputs, rows: int, is_person: bool
) -> tuple[Attribute, ...]:
    """The columns that name a row: one name, or first and last name."""
    texts = [attribute for attribute in attributes if attribute.kind is Kind.TEXT]
    named = {bare_lemmas(text.column, database.schema): text for text in texts}
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
    own = [attribute for attribute in own if len(attribute.content.values) >= _NAMING * rows]
    return (own[0],) if len(own) == 1 else ()


def is_place(attribute: Attribute) -> bool:
    """Whether entities are in the places that a column holds."""
    return attribute.noun.head in lexicon().text_forms["in"] - _NO_PLACES
