"""Templates of questions that imply a column without naming it: `How old is the youngest dog?` asks for an age.

In: a question and its query over one database. Out: a `Template` that keeps the words that imply the column; only a
column of the same name can replace it. Once the templates of all databases are there, `select_evoking` drops those
whose words imply the column in their own database only.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.language.world import world
from dtfixup.sql.linking.links import Item, MatchKind, link
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.synthesis.templates.columns import bare_lemmas
from dtfixup.sql.synthesis.templates.maker import TemplateMaker
from dtfixup.sql.synthesis.templates.template import ColumnNeed, Form, SlotKind, Template, ValueNeed, literals_in
from dtfixup.sql.synthesis.templates.wording import CALLS, DEGREES, NAMING, Span, UnusableError

_NAMES = (("name",), ("title",))
_MOST_IMPLIED = 2
_MOST_KEPT = 2
"""Words that may stay; the more there are, the more they belong to the source's database."""
_FEWEST_HOLDING = 2
"""Databases that must have a column of an implied one's name."""
_FEWEST_SAYING = 4
"""Databases that must use a word for columns of one name, so that it can be used for all of them."""


def select_evoking(
    templates: Sequence[Sequence[Template]], names: Iterable[frozenset[tuple[str, ...]]], things: frozenset[str]
) -> list[Template]:
    """The templates whose implied columns other databases have too, and whose words imply such columns there.

    `templates` and the `names` of columns are given per database; `things` are the lemmas of all tables.
    """
    spread = Counter(name for part in names for name in part)
    uses = Counter(
        pair
        for part in templates
        for pair in {
            (word, _alike(name)) for template in part for word in template.kept for name in template.implied_names
        }
    )

    def evokes(word: str, name: tuple[str, ...]) -> bool:
        is_usual = word not in things and uses[word, _alike(name)] >= _FEWEST_SAYING
        if name[-1] in ("name", "title"):
            is_usual = is_usual and word in NAMING  # any word can come with something that has a name
        return is_usual or is_part(word, name)

    return [
        template
        for part in templates
        for template in part
        if all(spread[name] >= _FEWEST_HOLDING for name in template.implied_names)
        and all(any(evokes(word, name) for name in template.implied_names) for word in template.kept)
        and all(any(evokes(word, name) for word in template.kept) for name in template.valueless_names)
    ]


_PLACES = frozenset(["city", "country", "county", "state", "location", "town", "region", "district", "address"])


def _alike(name: tuple[str, ...]) -> tuple[str, ...]:
    """One name for columns that the same words imply, such as places."""
    return ("place",) if not _PLACES.isdisjoint(name) else name


def is_part(word: str, name: tuple[str, ...]) -> bool:
    """Whether a word belongs to a name, or asks for what the name measures."""
    return word in name or not set(name).isdisjoint(world().asked.get(word, ()))


class ImplyingMaker(TemplateMaker):
    """Makes a template that keeps the words that imply a column."""

    implied: tuple[int, ...] = ()

    def need(self, column: int, number: dict[int, int]) -> ColumnNeed:
        need = super().need(column, number)
        name = bare_lemmas(column, self.schema)
        if column in self.implied:
            shares_name = self.columns_called(name) > 1
            return replace(need, stands_for_row=False, same_name=name, shares_name=shares_name)
        # `first and last names`: `first` needs the name beside it
        heads = [bare_lemmas(other, self.schema)[-1] for other in self.implied]
        is_shared = need.is_named and len(name) > 1 and name[-1] in heads
        return replace(need, same_name=name) if is_shared else need

    def replace_calls(self) -> None:
        """Keep `named`: it implies a name."""

    def name_compared_columns(self) -> None:
        """Keep `from France`: it implies a country."""

    def find_value(self, literal: Literal, parent: Node, column: int | None) -> tuple[Span | None, Form]:
        is_name = column is not None and bare_lemmas(column, self.schema) in _NAMES
        if column is not None and is_name and parent.rule == "NotEqual" and not self.mentions(column):
            raise UnusableError("all but one name")  # `not part of Rex` fits few things
        return super().find_value(literal, parent, column)

    def leave_value(self, column: int, form: Form) -> tuple[None, Form]:
        """Keep `female`, and the value 'F' with it."""
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
        """The number of columns in the query's tables that have a name."""
        columns = [column for table in self.tables for column in self.schema.columns_of[table][1:]]
        return sum(bare_lemmas(column, self.schema) == name for column in columns)

    def follows_table(self, column: int) -> bool:
        """Whether each value of a column comes right after its table: `the dog Rex`, `the dog named Rex`."""
        words = self.wording.words
        ends = {end for _, end in self.table_spans(self.schema.columns[column].table)}
        starts = [
            span[0]
            for span, slot in self.wording.slots.items()
            if slot.kind is SlotKind.VALUE and self.compared[slot.index] == column
        ]

        def follows(position: int) -> bool:
            while position > 0 and (words[position - 1].is_mark or words[position - 1].text.lower() in CALLS):
                position -= 1
            return position in ends

        return bool(starts) and all(map(follows, starts))

    def may_precede(self, value: Span, name: Span) -> bool:
        """Allow `French artists`: any nationality can be put so."""
        is_implied = self.compared[self.wording.slots[value].index] in self.implied
        return is_implied and self.wording.slots[name].kind is SlotKind.TABLE

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
                self.paraphrases.append(position)
            elif any(value.strength >= STRONG for value in values):
                raise UnusableError(f"a value left: {text}")
            else:
                kept[words[position].lemma] = None
        self.kept = tuple(kept)

    def check_rest(self, values: Sequence[ValueNeed]) -> None:
        self.paraphrases: list[int] = []  # words that express a value without containing it
        super().check_rest(values)
        if not self.paraphrases and any(value.form is Form.CONSTANT and value.column is not None for value in values):
            raise UnusableError("value not in the question")
        slots = list(self.wording.all_slots())
        if all(slot.kind is SlotKind.VALUE and values[slot.index].form is Form.COUNT for slot in slots):
            raise UnusableError("nothing that changes")
        named = {self.tables[slot.index] for slot in slots if slot.kind is SlotKind.TABLE}
        names = [bare_lemmas(column, self.schema) for column in self.implied]
        if len(self.tables) > 1 and not named.issuperset(self.schema.columns[column].table for column in self.implied):
            raise UnusableError("implied column of a table that is not named")
        own = [word for word in self.kept if not any(is_part(word, name) for name in names)]
        if len(own) > _MOST_KEPT or (own and not named):
            raise UnusableError("words left")  # without a table, they would describe a column
        if not self.kept and not set(self.implied) <= set(self.compared):
            self.kept = tuple(word.lemma for word in self.wording.words if word.text.lower() in DEGREES)
            if not self.kept:
                raise UnusableError("column not implied")
