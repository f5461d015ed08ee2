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
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import name_lemmas
from dtfixup.sql.linking.candidates import covers
from dtfixup.sql.linking.inputs import DatabaseInputs, QuestionInputs, describe_question
from dtfixup.sql.linking.links import Item, Links, MatchKind
from dtfixup.sql.synthesis.templates.columns import (
    Trait,
    bare_lemmas,
    inflected,
    is_plain_name,
    short_name,
    title_of,
    traits_of,
)
from dtfixup.sql.synthesis.templates.template import (
    ColumnNeed,
    Part,
    Slot,
    Template,
    ValueNeed,
    join_shapes,
    replace_leaves,
    shape_of,
)
from dtfixup.sql.synthesis.templates.value_choice import choose_value
from dtfixup.sql.synthesis.templates.wording import NUMBER_WORDS, PERSONAL

_DISTINCT = 0.8  # distinct values per row up to which a column tells groups of rows apart


_OF_PEOPLE = frozenset(
    [
        ("age",),
        ("sex",),
        ("gender",),
        ("first", "name"),
        ("last", "name"),
        ("nationality",),
        ("birth", "date"),
        ("date", "of", "birth"),
        ("salary",),
        ("email",),
        ("email", "address"),
        ("phone",),
        ("phone", "number"),
        ("hometown",),
    ]
)
"""Columns of tables whose rows are asked for with `PERSONAL` words."""


_OF_ONE = frozenset(["name", "title", "type", "description", "detail", "note"])
"""Last words of columns that are asked for with the table that they belong to."""


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
        self.names = [bare_lemmas(column, schema) for column in range(len(schema.columns))]
        self.names_of = [frozenset(self.names[column] for column in columns) for columns in schema.columns_of]
        self.titles = [title_of(table, schema) for table in range(len(schema.tables))]
        joiner = Joiner(schema)
        self.joiner = joiner
        self.writer = SqlWriter(schema, joiner)
        self.reader = SqlReader(schema, joiner=joiner)

    def can_fill(self, template: Template) -> bool:
        """Whether there are columns for those whose names must stay."""
        return all(
            any(names.issuperset(template.names_in(number)) for names in self.names_of)
            for number in range(len(template.named_tables))
        )

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
                and self.names_of[table].issuperset(template.names_in(number))
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
                and (not need.same_name or self.is_implied(column, need, template, tables))
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
        is_told_by = tells_table or (template.is_referred(need.table) and self.is_said_of_others(column, tables))
        if not is_told and len(tables) > 1 and not is_told_by:
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

    def is_said_of_others(self, column: int, tables: tuple[int, ...]) -> bool:
        """Whether rows that refer to a column's table have it too: the city of a shop, but not its owner's name."""
        name = self.names[column]
        if name[-1] not in _OF_ONE and name not in _OF_PEOPLE:
            return True
        own = self.schema.columns[column].table
        return all(
            self.schema.primary_keys[self.schema.columns[source].table] == (source,)
            for source, target in self.schema.foreign_pairs
            if self.schema.columns[target].table == own and self.schema.columns[source].table in tables
        )

    def is_implied(self, column: int, need: ColumnNeed, template: Template, tables: tuple[int, ...]) -> bool:
        """Whether a column is the only one of its name where the words look for it."""
        is_of_people = not PERSONAL.isdisjoint(template.kept)
        if self.names[column] != need.same_name or (is_of_people and not self.holds_people(tables[need.table])):
            return False
        around = tables if template.named_tables[need.table] else range(len(self.schema.tables))
        names = [self.names[other] for table in around for other in self.schema.columns_of[table][1:]]
        return names.count(need.same_name) == 1 or need.shares_name

    def holds_people(self, table: int) -> bool:
        return any(self.names[column] in _OF_PEOPLE for column in self.schema.columns_of[table][1:])

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
            literal = choose_value(need, self.held(columns, need), chance)
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

    def held(self, columns: tuple[int, ...], need: ValueNeed) -> tuple[str, ...]:
        content = self.database.content
        return () if content is None or need.column is None else content.columns[columns[need.column]].values

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
        if not wanted <= linked:
            return False
        wanted |= {
            (Item.COLUMN, filled.columns[index]) for index, need in enumerate(template.columns) if need.same_name
        }
        if self.names_more(wanted, described.links) or self.keeps_name(template, wanted, described):
            return False
        return all(
            any(covers(candidate, literal.text) for candidate in described.candidates) for literal in filled.values
        )

    def keeps_name(self, template: Template, wanted: set[tuple[Item, int]], question: QuestionInputs) -> bool:
        """Whether a word that stays is part of a name here, and of none that was filled in."""
        for position, word in enumerate(question.words):
            names = [link for link in question.links.names if link.start <= position < link.end]
            if word.lemma in template.kept and names and wanted.isdisjoint((link.item, link.index) for link in names):
                return True
        return False

    def names_more(self, wanted: set[tuple[Item, int]], links: Links) -> bool:
        """Whether words that name nothing that was filled in are the whole name of something else."""
        meant: set[int] = set()
        for link in links.names:
            if (link.item, link.index) in wanted:
                meant.update(range(link.start, link.end))
        return any(
            link.kind is MatchKind.EXACT and meant.isdisjoint(range(link.start, link.end)) for link in links.names
        )


def _with_article(text: str, said: str) -> str:
    """`a` or `an` before a word, by its first letter; of letters that sound otherwise, the usual ones."""
    found = re.search(r"(?:^|\s)(a|an|A|An)\s+[\"'\u201c\u2018]?$", text)
    if found is None:
        return text
    begins_vowel = said[0].lower() in "aeiou" and not re.match(r"(?:uni|use|usa|eu|one|u\.)", said.lower())
    article = ("A" if found[1][0] == "A" else "a") + ("n" if begins_vowel else "")
    return text[: found.start(1)] + article + text[found.end(1) :]
