"""Templates filled with the tables, columns and values of a database.

In: `Template`s and a database with its content. Out: questions with queries over that database. Tables take the places
of tables that hang together by the same foreign keys, columns those of columns with the same traits; values come from
the rows. What the reader, the links or the candidates of the new question do not find again is given up.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dtfixup.errors import SqlError
from dtfixup.sql.dataset import Example
from dtfixup.sql.grammar import ValueKind
from dtfixup.sql.inputs import DatabaseInputs, describe_question
from dtfixup.sql.joins import Joiner
from dtfixup.sql.linking import Item, Links, MatchKind
from dtfixup.sql.quantities import plain_number
from dtfixup.sql.sql_reader import SqlReader
from dtfixup.sql.sql_writer import SqlWriter
from dtfixup.sql.synthesis.columns import Trait, inflected, is_plain_name, short_name, title_of, traits_of
from dtfixup.sql.synthesis.templates import (
    ColumnNeed,
    Form,
    Part,
    Slot,
    Template,
    ValueNeed,
    join_shapes,
    replace_leaves,
    shape_of,
)
from dtfixup.sql.synthesis.wording import NUMBER_WORDS
from dtfixup.sql.tree import Literal
from dtfixup.sql.values import covers
from dtfixup.sql.words import name_lemmas, split_words

_VALUE = re.compile(r"[^\W_][\w .,:/&-]{0,38}[\w.]|[^\W_]")
_MOST_WORDS = 5
_DISTINCT = 0.8  # distinct values per row up to which a column tells groups of rows apart


@dataclass(frozen=True, slots=True)
class _Filled:
    """Which tables, columns and values of a database stand in a template's slots, and how they are said."""

    tables: tuple[int, ...]
    columns: tuple[int, ...]
    values: tuple[Literal, ...]


class Filler:
    """Fills templates over one database; `said_tables` are those that people call by their names."""

    def __init__(self, database: DatabaseInputs, said_tables: frozenset[int]) -> None:
        schema = database.schema
        self.database = database
        self.schema = schema
        self.said_tables = said_tables
        self.traits = [traits_of(column, database) for column in range(len(schema.columns))]
        self.can_say = [is_plain_name(column.natural) for column in schema.columns]
        self.links = [
            (schema.columns[source].table, schema.columns[target].table) for source, target in schema.foreign_pairs
        ]
        self.titles = [title_of(table, schema) for table in range(len(schema.tables))]
        joiner = Joiner(schema)
        self.joiner = joiner
        self.writer = SqlWriter(schema, joiner)
        self.reader = SqlReader(schema, joiner=joiner)

    def fill(self, template: Template, chance: random.Random) -> Example | None:
        """A new example, or None where this attempt came to nothing."""
        tables = self.choose_tables(template, chance)
        columns = None if tables is None else self.choose_columns(template, tables, chance)
        if tables is None or columns is None:
            return None
        values = self.choose_values(template, columns, chance)
        if values is None:
            return None
        filled = _Filled(tables, columns, values)
        tree = replace_leaves(template.tree, dict(enumerate(columns)), iter(values))
        number = {table: index for index, table in enumerate(tables)}
        clauses = join_shapes(tree, self.schema, self.joiner)
        if any(join.table not in number for clause in clauses for join in clause):
            return None
        if tuple(shape_of(clause, self.schema, number) for clause in clauses) != template.joins:
            return None
        question = self.say(template, filled, chance)
        if question is None:
            return None
        try:
            query = self.writer.write(tree)
            if self.reader.read(query) != tree:
                return None
        except SqlError:
            return None
        return Example(self.schema.database, question, query) if self.is_found(template, filled, question) else None

    # Tables

    def choose_tables(self, template: Template, chance: random.Random) -> tuple[int, ...] | None:
        """Tables with the foreign keys that the template's tables have among them, and one key only for each."""
        chosen: list[int] = []
        for number, is_named in enumerate(template.named_tables):
            fitting = [
                table
                for table in range(len(self.schema.tables))
                if table not in chosen
                and not self.schema.tables[table].name.lower().startswith("sqlite_")  # SQLite's own
                and (not is_named or table in self.said_tables)
                and self.links_fit(template, number, [*chosen, table])
            ]
            if not fitting:
                return None
            chosen.append(chance.choice(fitting))
        return tuple(chosen)

    def links_fit(self, template: Template, number: int, chosen: Sequence[int]) -> bool:
        for source, target in template.links:
            if max(source, target) == number:
                if self.links.count((chosen[source], chosen[target])) != 1:
                    return False
                is_one_way = source != target and (target, source) not in template.links
                if is_one_way and (chosen[target], chosen[source]) in self.links:
                    return False
        return True

    # Columns

    def choose_columns(
        self, template: Template, tables: tuple[int, ...], chance: random.Random
    ) -> tuple[int, ...] | None:
        chosen: list[int] = []
        compared = {value.column for value in template.values}
        for index, need in enumerate(template.columns):
            fitting = [
                column
                for column in self.schema.columns_of[tables[need.table]]
                if column not in chosen
                and self.traits[column] == need.traits
                and self.refers(column, need, tables)
                and (not need.stands_for_row or self.titles[tables[need.table]] == column)
                and (not need.is_named or self.can_be_said(column, need, template, tables))
                and (index not in compared or self.holds_values(column))
                and (not need.groups_rows or need.is_key or self.comes_again(column))
            ]
            if not fitting:
                return None
            chosen.append(chance.choice(fitting))
        return tuple(chosen)

    def refers(self, column: int, need: ColumnNeed, tables: tuple[int, ...]) -> bool:
        if need.refers is None:
            return True
        referred = [
            self.schema.columns[target].table for source, target in self.schema.foreign_pairs if source == column
        ]
        return tables[need.refers] in referred

    def can_be_said(self, column: int, need: ColumnNeed, template: Template, tables: tuple[int, ...]) -> bool:
        """Whether the words of the question leave no doubt which column is meant."""
        if not self.can_say[column]:
            return False
        own = self.schema.columns[column]
        lemmas = name_lemmas(own.natural)
        is_told = template.named_tables[need.table]
        tells_table = bool(short_name(own.natural, self.schema.tables[own.table].natural))
        if not is_told and len(tables) > 1 and not tells_table:
            return False
        if not need.is_key:
            around = tables if is_told else range(len(self.schema.tables))
            others = [
                other
                for table in around
                if table != tables[need.table]
                for other in self.schema.columns_of[table][1:]
                if name_lemmas(self.schema.columns[other].natural) == lemmas
            ]
            if others and not (need.shares_name and is_told):
                return False
        return all(name_lemmas(table.natural) != lemmas for table in self.schema.tables)

    def comes_again(self, column: int) -> bool:
        """Whether the column's values come more than once, so that it makes sense to group by it."""
        content = self.database.content
        held = None if content is None else content.columns[column]
        return held is not None and held.distinct is not None and 0 < held.distinct <= _DISTINCT * held.rows

    def holds_values(self, column: int) -> bool:
        return bool(self.database.content and self.database.content.columns[column].values)

    # Values

    def choose_values(
        self, template: Template, columns: tuple[int, ...], chance: random.Random
    ) -> tuple[Literal, ...] | None:
        chosen: list[Literal] = []
        for need in template.values:
            literal = self.choose_value(need, columns, chance)
            if literal is None or literal.text in [other.text for other in chosen]:
                return None
            chosen.append(literal)
        for index, need in enumerate(template.values):
            if need.ceiling_of is not None:
                low, high = chosen[need.ceiling_of], chosen[index]
                figures = [plain_number(literal.text) for literal in (low, high)]
                if figures[0] is not None and figures[1] is not None:
                    is_turned = float(figures[0]) > float(figures[1])
                else:
                    is_turned = low.text > high.text
                if is_turned:
                    chosen[need.ceiling_of], chosen[index] = high, low
        return tuple(chosen)

    def choose_value(self, need: ValueNeed, columns: tuple[int, ...], chance: random.Random) -> Literal | None:
        if need.form is Form.CONSTANT:
            return need.literal
        if need.form is Form.COUNT:
            return Literal(str(chance.randint(2, 10)), need.literal.kind)
        assert need.column is not None  # every other form compares with a column
        assert self.database.content is not None  # or choose_columns had found no column
        held = self.database.content.columns[columns[need.column]].values
        if need.literal.kind is ValueKind.NUMBER:
            return _choose_number(need, held, chance)
        fitting = [value for value in held if _VALUE.fullmatch(value) and len(value.split()) <= _MOST_WORDS]
        if need.form in (Form.WHOLE, Form.BOUND):
            if plain_number(need.literal.text) is None:
                fitting = [value for value in fitting if plain_number(value) is None]
            return Literal(chance.choice(fitting), need.literal.kind) if fitting else None
        text = _part_of(chance.choice(fitting), need, chance) if fitting else None
        return Literal(text, need.literal.kind) if text else None

    # Words

    def say(self, template: Template, filled: _Filled, chance: random.Random) -> str | None:
        text, end = "", 0
        before: Slot | None = None
        short = [chance.random() < 0.7 for _ in template.columns]
        for piece in template.question:
            if isinstance(piece, str):
                text += piece
                continue
            is_after_table = isinstance(before, Slot) and before.part is Part.TABLE and text.endswith((" ", "'s "))
            is_after_table = is_after_table and len(text) - end <= 3
            said = self.say_slot(piece, template, filled, short, is_after_table)
            if not said:
                return None
            text = _with_article(text, said)
            before = piece
            text += said[0].upper() + said[1:] if piece.begins_sentence else said
            end = len(text)
        return text

    def say_slot(self, slot: Slot, template: Template, filled: _Filled, short: Sequence[bool], is_short: bool) -> str:
        match slot.part:
            case Part.TABLE:
                name = self.schema.tables[filled.tables[slot.index]].natural
                return inflected(name, is_plural=slot.is_plural)
            case Part.COLUMN:
                column = self.schema.columns[filled.columns[slot.index]]
                name = column.natural
                is_named = template.named_tables[template.columns[slot.index].table]
                if is_named and (is_short or short[slot.index] or not slot.is_whole):
                    name = short_name(name, self.schema.tables[column.table].natural) or name
                is_measure = Trait.NUMBER in self.traits[filled.columns[slot.index]]
                return slot.lead + inflected(name, is_plural=slot.is_plural, is_measure=is_measure)
            case Part.VALUE:
                text = filled.values[slot.index].text
                if slot.is_spelled and text.isdecimal():
                    return NUMBER_WORDS[int(text) - 2]
                return text

    # Checks

    def is_found(self, template: Template, filled: _Filled, question: str) -> bool:
        """Whether linking finds what was filled in and no other name, and the literals are among the candidates."""
        described = describe_question(question, self.database)
        wanted = {(Item.COLUMN, filled.columns[index]) for index, need in enumerate(template.columns) if need.is_named}
        wanted |= {
            (Item.TABLE, filled.tables[index]) for index, is_named in enumerate(template.named_tables) if is_named
        }
        linked = {(link.item, link.index) for link in described.links.names}
        if not wanted <= linked or self.names_more(wanted, described.links, question):
            return False
        return all(
            any(covers(candidate, literal.text) for candidate in described.candidates) for literal in filled.values
        )

    def names_more(self, wanted: set[tuple[Item, int]], links: Links, question: str) -> bool:
        """Whether words that name nothing that was filled in are the whole name of something else."""
        meant: set[int] = set()
        for link in links.names:
            if (link.item, link.index) in wanted:
                meant.update(range(link.start, link.end))
        return any(
            link.kind is MatchKind.EXACT and meant.isdisjoint(range(link.start, link.end)) for link in links.names
        )


def _choose_number(need: ValueNeed, held: Sequence[str], chance: random.Random) -> Literal | None:
    numbers = [number for value in held if (number := plain_number(value)) is not None and len(number) <= 12]
    if not numbers:
        return None
    text = chance.choice(numbers)
    if need.form is Form.BOUND and "." not in need.literal.text:
        figures = sorted(map(float, numbers))
        low, high = figures[len(figures) // 10], figures[-1 - len(figures) // 10]
        is_years = low >= 1500 and high < 2100
        size = abs(float(text))
        if not is_years and high - low > 20 and size >= 20:
            unit = 10 ** (len(str(int(size))) - chance.choice((1, 2)))
            rounded = round(float(text) / unit) * unit
            if low <= rounded <= high:
                text = str(int(rounded))
    return Literal(text, need.literal.kind)


def _part_of(value: str, need: ValueNeed, chance: random.Random) -> str | None:
    """A letter, a few letters or a word of a stored value, as many as the source's pattern had."""
    words = [word.text for word in split_words(value) if word.text.isalpha()]
    if not words:
        return None
    length = len(need.literal.text)
    match need.form:
        case Form.BEGINS:
            text = value[:length] if length < 3 else words[0]
        case Form.ENDS:
            text = value[-length:] if length < 3 else words[-1]
        case _:
            word = chance.choice(words)
            start = chance.randrange(max(1, len(word) - length + 1))
            text = word[start : start + length] if length < 3 else word
    is_usable = text.isalpha() and (length < 3 or len(text) > 2)
    if need.literal.text.islower() and need.form is Form.CONTAINS:
        text = text.lower()
    return text if is_usable else None


def _with_article(text: str, said: str) -> str:
    """`a` or `an` before a word, by its first letter; of letters that sound otherwise, the usual ones."""
    found = re.search(r"(?:^|\s)(a|an|A|An)\s+[\"'\u201c\u2018]?$", text)
    if found is None:
        return text
    begins_vowel = said[0].lower() in "aeiou" and not re.match(r"(?:uni|use|usa|eu|one|u\.)", said.lower())
    article = ("A" if found[1][0] == "A" else "a") + ("n" if begins_vowel else "")
    return text[: found.start(1)] + article + text[found.end(1) :]
