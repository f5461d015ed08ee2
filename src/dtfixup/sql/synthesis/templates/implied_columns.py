"""Templates of questions that imply a column and do not name it: `How old is the youngest dog?` asks for an age.

In: a question and its query over one database. Out: a `Template` whose words stay as they are around the implied
column, whose place only a column of the same name can take. Words that nobody uses so of another database are found
when the templates of all databases are there: `evoked` leaves out what holds them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.language.world import world
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.linking.links import Item, MatchKind, link
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.synthesis.templates.columns import bare_lemmas
from dtfixup.sql.synthesis.templates.making import Making, Unusable, made_by
from dtfixup.sql.synthesis.templates.template import ColumnNeed, Form, Part, Template, ValueNeed, literals_in
from dtfixup.sql.synthesis.templates.wording import CALLS, DEGREES, NAMING, Span, UnusableError

_NAMES = (("name",), ("title",))
_MOST_IMPLIED = 2
_MOST_KEPT = 2
"""Words that may stay; the more there are, the more they tell of the source's world."""
_FEWEST_HOLDING = 2
"""Databases that must have a column of an implied one's name."""
_FEWEST_SAYING = 4
"""Databases that must say a word of columns of one name, so that it can be said of all of them."""


def make_implying_template(
    example: Example, source: int, database: DatabaseInputs, reader: SqlReader
) -> Template | Unusable:
    """The template of one example that implies a column, `source` being its index."""
    return made_by(_ImplyingMaking, example, source, database, reader)


def evoked(
    templates: Sequence[Sequence[Template]], names: Iterable[frozenset[tuple[str, ...]]], things: frozenset[str]
) -> list[Template]:
    """The templates whose implied columns other databases have, and whose words that stay are said of such columns.

    `templates` and `names`, those of columns, are given per database; `things` are the lemmas of all tables.
    """
    spread = Counter(name for part in names for name in part)
    said = Counter(
        pair
        for part in templates
        for pair in {
            (word, _alike(name)) for template in part for word in template.kept for name in template.implied_names
        }
    )

    def evokes(word: str, name: tuple[str, ...]) -> bool:
        is_usual = word not in things and said[word, _alike(name)] >= _FEWEST_SAYING
        if name[-1] in ("name", "title"):
            is_usual = is_usual and word in NAMING  # anything is said of what has a name
        return is_usual or is_part(word, name)

    return [
        template
        for part in templates
        for template in part
        if all(spread[name] >= _FEWEST_HOLDING for name in template.implied_names)
        and all(any(evokes(word, name) for name in template.implied_names) for word in template.kept)
        and all(any(evokes(word, name) for word in template.kept) for name in template.unsaid_names)
    ]


_PLACES = frozenset(["city", "country", "county", "state", "location", "town", "region", "district", "address"])


def _alike(name: tuple[str, ...]) -> tuple[str, ...]:
    """A name by which columns of which the same is said are one: places."""
    return ("place",) if not _PLACES.isdisjoint(name) else name


def is_part(word: str, name: tuple[str, ...]) -> bool:
    """Whether a word is one of a name, or asks for what the name measures."""
    return word in name or not set(name).isdisjoint(world().asked.get(word, ()))


class _ImplyingMaking(Making):
    """An example whose words stay as they are where they imply a column."""

    implied: tuple[int, ...] = ()

    def need(self, column: int, number: dict[int, int]) -> ColumnNeed:
        need = super().need(column, number)
        name = bare_lemmas(column, self.schema)
        if column in self.implied:
            shares_name = self.columns_called(name) > 1
            return replace(need, stands_for_row=False, same_name=name, shares_name=shares_name)
        # `first and last names`: what is left of `first name` hangs on the name beside it
        heads = [bare_lemmas(other, self.schema)[-1] for other in self.implied]
        is_shared = need.is_named and len(name) > 1 and name[-1] in heads
        return replace(need, same_name=name) if is_shared else need

    def place_calls(self) -> None:
        """`named` stays: it implies a name."""

    def place_silent(self) -> None:
        """`from France` stays: it implies a country."""

    def say_value(self, literal: Literal, parent: Node, column: int | None) -> tuple[Span | None, Form]:
        is_name = column is not None and bare_lemmas(column, self.schema) in _NAMES
        if column is not None and is_name and parent.rule == "NotEqual" and not self.mentions(column):
            raise UnusableError("all but one name")  # `not part of Rex` is said of few things
        return super().say_value(literal, parent, column)

    def leave_value(self, column: int, form: Form) -> tuple[None, Form]:
        """`female` stays, and 'F' with it."""
        if form is not Form.WHOLE or self.mentions(column) or self.is_key(column):
            return super().leave_value(column, form)
        return None, Form.CONSTANT

    def leave_columns(self, silent: Sequence[int]) -> None:
        if any(map(self.is_key, silent)):
            super().leave_columns(silent)
        if not 0 < len(silent) <= _MOST_IMPLIED:
            raise UnusableError("many columns implied" if silent else "no column implied")
        for column in silent:
            if self.columns_called(bare_lemmas(column, self.schema)) > 1 and not self.follows_table(column):
                raise UnusableError("two columns of one name")
        self.implied = tuple(silent)

    def columns_called(self, name: tuple[str, ...]) -> int:
        """How many columns of the tables asked for have a name."""
        columns = [column for table in self.tables for column in self.schema.columns_of[table][1:]]
        return sum(bare_lemmas(column, self.schema) == name for column in columns)

    def follows_table(self, column: int) -> bool:
        """Whether each value of a column stands right after its table: `the dog Rex`, `the dog named Rex`."""
        words = self.wording.words
        ends = {end for _, end in self.table_spans(self.schema.columns[column].table)}
        starts = [
            span[0]
            for span, slot in self.wording.slots.items()
            if slot.part is Part.VALUE and self.compared[slot.index] == column
        ]

        def follows(position: int) -> bool:
            while position > 0 and (words[position - 1].is_mark or words[position - 1].text.lower() in CALLS):
                position -= 1
            return position in ends

        return bool(starts) and all(map(follows, starts))

    def may_precede(self, value: Span, name: Span) -> bool:
        """`French artists`: other artists of a nationality are spoken of in the same way."""
        is_implied = self.compared[self.wording.slots[value].index] in self.implied
        return is_implied and self.wording.slots[name].part is Part.TABLE

    def leave_words(self, foreign: Sequence[int]) -> None:
        words = self.wording.words
        links = link(words, self.schema, self.database.content)
        asked = {(Item.COLUMN, column) for column in self.columns} | {(Item.TABLE, table) for table in self.tables}
        literals = {literal.text for literal in literals_in(self.tree)}
        kept: dict[str, None] = {}
        for position in foreign:
            text = words[position].text.lower()
            if text in CALLS or (len(self.tables) > 1 and self.wording.reword(position)):
                continue
            names = [name for name in links.names if name.start <= position < name.end]
            others = [name for name in names if (name.item, name.index) not in asked]
            if others and (len(others) == len(names) or any(name.kind is MatchKind.EXACT for name in others)):
                raise UnusableError(f"word of another name: {text}")
            values = [value for value in links.values if value.start <= position < value.end]
            if any(value.column in self.implied and value.value in literals for value in values):
                self.saying.append(position)
            elif any(value.strength >= STRONG for value in values):
                raise UnusableError(f"a value left: {text}")
            else:
                kept[words[position].lemma] = None
        self.kept = tuple(kept)

    def check_rest(self, values: Sequence[ValueNeed]) -> None:
        self.saying: list[int] = []  # words that say a value in other words
        super().check_rest(values)
        if not self.saying and any(value.form is Form.CONSTANT and value.column is not None for value in values):
            raise UnusableError("value not said")
        slots = list(self.wording.all_slots())
        if all(slot.part is Part.VALUE and values[slot.index].form is Form.COUNT for slot in slots):
            raise UnusableError("nothing that changes")
        named = {self.tables[slot.index] for slot in slots if slot.part is Part.TABLE}
        names = [bare_lemmas(column, self.schema) for column in self.implied]
        if len(self.tables) > 1 and not named.issuperset(self.schema.columns[column].table for column in self.implied):
            raise UnusableError("implied column of a table that is not named")
        own = [word for word in self.kept if not any(is_part(word, name) for name in names)]
        if len(own) > _MOST_KEPT or (own and not named):
            raise UnusableError("words left")  # without a table, they would be said of a column
        if not self.kept and not set(self.implied) <= set(self.compared):
            self.kept = tuple(word.lemma for word in self.wording.words if word.text.lower() in DEGREES)
            if not self.kept:
                raise UnusableError("column not implied")
