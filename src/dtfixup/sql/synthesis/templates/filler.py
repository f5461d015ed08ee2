"""Fill templates with the tables, columns and values of a database.

In: `Template`s and a database with its content. Out: questions with queries over that database. Tables have the foreign
keys that the template's tables have, columns the same traits; values come from the rows. An example is dropped if the
reader, the links or the candidates of the new question do not find everything in it.
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
    inflect,
    is_plain_name,
    referred_tables,
    short_name,
    title_of,
    traits_of,
)
from dtfixup.sql.synthesis.templates.template import (
    ColumnNeed,
    SlotKind,
    Template,
    TemplateSlot,
    join_shapes,
    replace_leaves,
    shape_of,
)
from dtfixup.sql.synthesis.templates.value_choice import choose_value
from dtfixup.sql.synthesis.templates.wording import NUMBER_WORDS, PERSONAL

_DISTINCT = 0.8
"""Distinct values per row, up to which it makes sense to group by a column."""

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
"""Columns of tables of people; `PERSONAL` words ask for their rows."""

_OF_ONE = frozenset(["name", "title", "type", "description", "detail", "note"])
"""Last words of columns whose table a question has to name."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The tables, columns and values of a database for a template's slots."""

    tables: tuple[int, ...]
    columns: tuple[int, ...]
    values: tuple[Literal, ...]


class Filler:
    """Fills templates over one database; `nameable_tables` are those that people call by their names."""

    def __init__(self, database: DatabaseInputs, nameable_tables: frozenset[int]) -> None:
        schema = database.schema
        self.database = database
        self.schema = schema
        self.nameable_tables = nameable_tables
        self.traits = [traits_of(column, database) for column in range(len(schema.columns))]
        self.has_plain_name = [is_plain_name(column.natural) for column in schema.columns]
        self.links = [
            (schema.columns[source].table, schema.columns[target].table) for source, target in schema.foreign_pairs
        ]
        self.names = [bare_lemmas(column, schema) for column in range(len(schema.columns))]
        self.names_of = [frozenset(self.names[column] for column in columns) for columns in schema.columns_of]
        self.titles = [title_of(table, schema) for table in range(len(schema.tables))]
        self.joiner = Joiner(schema)
        self.writer = SqlWriter(schema, self.joiner)
        self.reader = SqlReader(schema, joiner=self.joiner)

    def can_fill(self, template: Template) -> bool:
        """Whether some table has the column names that must stay."""
        return all(
            any(names.issuperset(template.names_in(number)) for names in self.names_of)
            for number in range(len(template.named_tables))
        )

    def fill(self, template: Template, chance: random.Random) -> Example | None:
        """A new example, or None if this attempt failed."""
        choice = self.choose(template, chance)
        if choice is None:
            return None
        tree = replace_leaves(template.tree, dict(enumerate(choice.columns)), iter(choice.values))
        number = {table: index for index, table in enumerate(choice.tables)}
        clauses = join_shapes(tree, self.schema, self.joiner)
        if any(join.table not in number for clause in clauses for join in clause):
            return None
        if tuple(shape_of(clause, self.schema, number) for clause in clauses) != template.joins:
            return None
        question = self.write_question(template, choice, chance)
        if question is None:
            return None
        try:
            query = self.writer.write(tree)
            if self.reader.read(query) != tree:
                return None
        except SqlError:
            return None
        return Example(self.schema.database, question, query) if self.is_clear(template, choice, question) else None

    def choose(self, template: Template, chance: random.Random) -> _Choice | None:
        tables = self.choose_tables(template, chance)
        columns = self.choose_columns(template, tables, chance) if tables is not None else None
        values = self.choose_values(template, columns, chance) if columns is not None else None
        return None if tables is None or columns is None or values is None else _Choice(tables, columns, values)

    def choose_tables(self, template: Template, chance: random.Random) -> tuple[int, ...] | None:
        """Tables with the foreign keys of the template's tables, each pair with one key only."""
        chosen: list[int] = []
        for number, is_named in enumerate(template.named_tables):
            fitting = [
                table
                for table in range(len(self.schema.tables))
                if table not in chosen
                and not self.schema.tables[table].name.lower().startswith("sqlite_")  # SQLite's own
                and (not is_named or table in self.nameable_tables)
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
                and (need.refers is None or tables[need.refers] in referred_tables(column, self.schema))
                and (not need.stands_for_row or self.titles[tables[need.table]] == column)
                and (not need.same_name or self.is_implied(column, need, template, tables))
                and (not need.is_named or self.is_unambiguous(column, need, template, tables))
                and (index not in compared or self.values(column))
                and (not need.groups_rows or need.is_key or self.repeats_values(column))
            ]
            if not fitting:
                return None
            chosen.append(chance.choice(fitting))
        return tuple(chosen)

    def is_unambiguous(self, column: int, need: ColumnNeed, template: Template, tables: tuple[int, ...]) -> bool:
        """Whether the words of the question leave no doubt which column is meant."""
        if not self.has_plain_name[column]:
            return False
        own = self.schema.columns[column]
        lemmas = name_lemmas(own.natural)
        is_table_named = template.named_tables[need.table]
        if not is_table_named and len(tables) > 1:
            names_table = short_name(own.natural, self.schema.tables[own.table].natural)
            if not names_table and not (template.is_referred(need.table) and self.is_inherited(column, tables)):
                return False
        if not need.is_key and not (need.shares_name and is_table_named):
            around = tables if is_table_named else range(len(self.schema.tables))
            others = [other for table in around if table != own.table for other in self.schema.columns_of[table][1:]]
            if any(name_lemmas(self.schema.columns[other].natural) == lemmas for other in others):
                return False
        return all(name_lemmas(table.natural) != lemmas for table in self.schema.tables)

    def is_inherited(self, column: int, tables: tuple[int, ...]) -> bool:
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
        """Whether a column is the only one of its name in the tables that the words can mean."""
        is_of_people = not PERSONAL.isdisjoint(template.kept)
        if self.names[column] != need.same_name or (is_of_people and not self.holds_people(tables[need.table])):
            return False
        around = tables if template.named_tables[need.table] else range(len(self.schema.tables))
        names = [self.names[other] for table in around for other in self.schema.columns_of[table][1:]]
        return names.count(need.same_name) == 1 or need.shares_name

    def holds_people(self, table: int) -> bool:
        return any(self.names[column] in _OF_PEOPLE for column in self.schema.columns_of[table][1:])

    def repeats_values(self, column: int) -> bool:
        """Whether the column's values repeat, so that it makes sense to group by it."""
        if self.database.content is None:
            return False
        stored = self.database.content.columns[column]
        return stored.distinct is not None and 0 < stored.distinct <= _DISTINCT * stored.rows

    def values(self, column: int) -> tuple[str, ...]:
        """The stored values of a column."""
        content = self.database.content
        return () if content is None else content.columns[column].values

    def choose_values(
        self, template: Template, columns: tuple[int, ...], chance: random.Random
    ) -> tuple[Literal, ...] | None:
        chosen: list[Literal] = []
        for need in template.values:
            stored = () if need.column is None else self.values(columns[need.column])
            literal = choose_value(need, stored, chance)
            if literal is None or literal.text in [other.text for other in chosen]:
                return None
            chosen.append(literal)
        for index, need in enumerate(template.values):
            if need.ceiling_of is not None:
                low, high = chosen[need.ceiling_of], chosen[index]
                numbers = plain_number(low.text), plain_number(high.text)
                if numbers[0] is not None and numbers[1] is not None:
                    is_reversed = float(numbers[0]) > float(numbers[1])
                else:
                    is_reversed = low.text > high.text
                if is_reversed:
                    chosen[need.ceiling_of], chosen[index] = high, low
        return tuple(chosen)

    def write_question(self, template: Template, choice: _Choice, chance: random.Random) -> str | None:
        """The template's question with names and values in its slots, or None if a name is empty."""
        text, end = "", 0
        before: TemplateSlot | None = None
        short = [chance.random() < 0.7 for _ in template.columns]
        for piece in template.question:
            if isinstance(piece, str):
                text += piece
                continue
            is_after_table = before is not None and before.kind is SlotKind.TABLE
            is_after_table = is_after_table and text.endswith((" ", "'s ")) and len(text) - end <= 3
            words = self.write_slot(piece, template, choice, short, is_after_table)
            if not words:
                return None
            text = _with_article(text, words)
            before = piece
            text += words[0].upper() + words[1:] if piece.begins_sentence else words
            end = len(text)
        return text

    def write_slot(
        self, slot: TemplateSlot, template: Template, choice: _Choice, short: Sequence[bool], is_short: bool
    ) -> str:
        match slot.kind:
            case SlotKind.TABLE:
                name = self.schema.tables[choice.tables[slot.index]].natural
                return inflect(name, is_plural=slot.is_plural)
            case SlotKind.COLUMN:
                column = self.schema.columns[choice.columns[slot.index]]
                name = column.natural
                is_named = template.named_tables[template.columns[slot.index].table]
                if is_named and (is_short or short[slot.index] or not slot.is_whole):
                    name = short_name(name, self.schema.tables[column.table].natural) or name
                is_measure = Trait.NUMBER in self.traits[choice.columns[slot.index]]
                return slot.lead + inflect(name, is_plural=slot.is_plural, is_measure=is_measure)
            case SlotKind.VALUE:
                text = choice.values[slot.index].text
                if slot.is_spelled and text.isdecimal():
                    return NUMBER_WORDS[int(text) - 2]
                return text

    def is_clear(self, template: Template, choice: _Choice, question: str) -> bool:
        """Whether linking finds the chosen names and no other, and the literals are among the candidates."""
        described = describe_question(question, self.database)
        needs = list(zip(template.columns, choice.columns, strict=True))
        named = {(Item.COLUMN, column) for need, column in needs if need.is_named}
        named |= {
            (Item.TABLE, table)
            for table, is_named in zip(choice.tables, template.named_tables, strict=True)
            if is_named
        }
        if not named <= {(link.item, link.index) for link in described.links.names}:
            return False
        named |= {(Item.COLUMN, column) for need, column in needs if need.same_name}
        if _names_more(named, described.links) or _keeps_name(template, named, described):
            return False
        return all(
            any(covers(candidate, literal.text) for candidate in described.candidates) for literal in choice.values
        )


def _keeps_name(template: Template, chosen: set[tuple[Item, int]], question: QuestionInputs) -> bool:
    """Whether a word that stays belongs to a name of this database, and to none that was chosen."""
    for position, word in enumerate(question.words):
        names = [link for link in question.links.names if link.start <= position < link.end]
        if word.lemma in template.kept and names and chosen.isdisjoint((link.item, link.index) for link in names):
            return True
    return False


def _names_more(chosen: set[tuple[Item, int]], links: Links) -> bool:
    """Whether words outside the chosen names are the whole name of something else."""
    meant: set[int] = set()
    for link in links.names:
        if (link.item, link.index) in chosen:
            meant.update(range(link.start, link.end))
    return any(link.kind is MatchKind.EXACT and meant.isdisjoint(range(link.start, link.end)) for link in links.names)


def _with_article(text: str, words: str) -> str:
    """Adapt a final `a` or `an` to the words that follow: by their first letter, with the usual exceptions."""
    article = re.search(r"(?:^|\s)(a|an|A|An)\s+[\"'\u201c\u2018]?$", text)
    if article is None:
        return text
    begins_vowel = words[0].lower() in "aeiou" and not re.match(r"(?:uni|use|usa|eu|one|u\.)", words.lower())
    adapted = article[1][0] + ("n" if begins_vowel else "")
    return text[: article.start(1)] + adapted + text[article.end(1) :]
