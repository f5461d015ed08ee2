"""Questions with their queries become templates: the names and values of their database become slots.

In: a question and its query over one database. Out: a `Template`, which contains nothing of that database. Most
questions give none: with a column that is not named, or a word that only this database uses, the new question would not
ask for what its query gives.
"""

import itertools
from collections.abc import Sequence

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Literal, Node, nodes
from dtfixup.sql.language.quantities import numbers_in
from dtfixup.sql.language.words import begins_sentence, name_lemmas
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.columns import Trait, is_plural, referred_tables, short_lemmas, title_of, traits_of
from dtfixup.sql.synthesis.templates.template import (
    BOUNDS,
    PATTERNS,
    ColumnNeed,
    Form,
    Link,
    SlotKind,
    Template,
    TemplateSlot,
    ValueNeed,
    columns_in,
    grouping_columns,
    join_shapes,
    literal_uses,
    literals_in,
    replace_leaves,
    shape_of,
    shown_columns,
)
from dtfixup.sql.synthesis.templates.wording import (
    CALLS,
    KINDS_OF_ANSWERS,
    NUMBER_WORDS,
    PATTERN_WORDS,
    PLAIN_WORDS,
    PREPOSITIONS,
    UNITS,
    Span,
    UnusableError,
    Wording,
    value_spans,
)


def make_template(
    example: Example,
    source: int,
    database: DatabaseInputs,
    reader: SqlReader,
    maker: type["TemplateMaker"] | None = None,
) -> Template:
    """Make the template of one example, or raise `UnusableError`; `source` is the example's index."""
    try:
        tree = reader.read(example.query)
        return (maker or TemplateMaker)(example, source, database, reader.joiner, tree).template()
    except SqlError:
        raise UnusableError("query outside the grammar") from None


class TemplateMaker:
    """Makes the template of one example."""

    def __init__(self, example: Example, source: int, database: DatabaseInputs, joiner: Joiner, tree: Node) -> None:
        self.source = source
        self.wording = Wording(example.question)
        self.schema = database.schema
        self.database = database
        self.tree = tree
        self.joins = join_shapes(tree, self.schema, joiner)
        self.tables = list(dict.fromkeys(join.table for clause in self.joins for join in clause))
        self.columns = list(dict.fromkeys(columns_in(tree)))
        self.compared: list[int | None] = []  # per literal, the column it is compared with
        self.kept: tuple[str, ...] = ()

    def template(self) -> Template:
        number = {table: index for index, table in enumerate(self.tables)}
        links = self.links(number)
        self.check_measures()
        values = self.place_values()
        self.replace_calls()
        self.place_columns()
        named_tables = self.place_tables(links)
        self.check_rest(values)
        place = {column: index for index, column in enumerate(self.columns)}
        return Template(
            self.source,
            self.wording.pieces(),
            replace_leaves(self.tree, place, literals_in(self.tree)),
            named_tables,
            links,
            tuple(self.need(column, number) for column in self.columns),
            tuple(values),
            tuple(shape_of(clause, self.schema, number) for clause in self.joins),
            self.kept,
        )

    def links(self, number: dict[int, int]) -> tuple[Link, ...]:
        """The foreign keys that the query joins over."""
        links: dict[Link, None] = {}
        declared = set(self.schema.foreign_pairs)
        for clause in self.joins:
            if len(clause) > 1 and not all(join.conditions for join in clause[1:]):
                raise UnusableError("tables side by side")
            for join in clause:
                for group in join.conditions:
                    for (left, _), (right, _) in group:
                        pair = (left, right) if (left, right) in declared else (right, left)
                        if pair not in declared:
                            raise UnusableError("join without a foreign key")
                        child, parent = (number[self.schema.columns[column].table] for column in pair)
                        links[child, parent] = None
        return tuple(links)

    def check_measures(self) -> None:
        """Refuse sums of texts: these texts are numbers, but those of another column may not be."""
        for node in nodes(self.tree):
            column = node.children[0] if node.rule in ("Sum", "Avg") else None
            if isinstance(column, int) and Trait.TEXT in traits_of(column, self.database):
                raise UnusableError("a sum of texts")

    def need(self, column: int, number: dict[int, int]) -> ColumnNeed:
        own = self.schema.columns[column]
        is_named = column in self.named_columns()
        return ColumnNeed(
            table=number[own.table],
            traits=traits_of(column, self.database),
            refers=next((number[table] for table in referred_tables(column, self.schema) if table in number), None),
            is_named=is_named,
            shares_name=any(
                self.schema.columns[other].natural.lower() == own.natural.lower()
                for table in self.tables
                if table != own.table
                for other in self.schema.columns_of[table][1:]
            ),
            groups_rows=column in grouping_columns(self.tree),
            stands_for_row=not is_named and title_of(own.table, self.schema) == column,
        )

    def names_table(self, column: int) -> bool:
        """Whether the name of a column begins with words of its table's name."""
        own = self.schema.columns[column]
        return bool(short_lemmas(own.natural, self.schema.tables[own.table].natural))

    # Spans

    def slot(self, span: Span, part: SlotKind, index: int, *, is_whole: bool = True) -> TemplateSlot:
        last = self.wording.words[span[1] - 1]
        is_first = begins_sentence(self.wording.words, span[0])
        return TemplateSlot(part, index, is_plural(last.text), is_whole, is_first, last.text.lower() in NUMBER_WORDS)

    def table_spans(self, table: int) -> list[Span]:
        return self.wording.spans_of(name_lemmas(self.schema.tables[table].natural))

    # Values

    def place_values(self) -> list[ValueNeed]:
        values: list[ValueNeed] = []
        for index, (literal, parent, column) in enumerate(literal_uses(self.tree)):
            if any(value.literal.text == literal.text for value in values):
                raise UnusableError("one value twice")
            self.compared.append(column)
            span, form = self.find_value(literal, parent, column)
            if span is not None:
                self.wording.take(span, self.slot(span, SlotKind.VALUE, index))
            place = None if column is None else self.columns.index(column)
            is_ceiling = parent.rule == "Between" and parent.children[2] == Node("Value", (literal,))
            is_ceiling = is_ceiling and index > 0 and values[-1].column == place
            values.append(ValueNeed(literal, form, place, index - 1 if is_ceiling else None))
        return values

    def find_value(self, literal: Literal, parent: Node, column: int | None) -> tuple[Span | None, Form]:
        if column is None:
            return self.find_count(literal)
        if parent.rule == "Matches":
            raise UnusableError("a pattern")
        form = PATTERNS.get(parent.rule, Form.BOUND if parent.rule in BOUNDS else Form.WHOLE)
        spans = value_spans(literal.text, self.wording.words)
        if not spans:
            return self.leave_value(column, form)
        if len(spans) > 1:
            raise UnusableError("value repeated")
        if form in PATTERNS.values() and not self.mentions(column):
            raise UnusableError("pattern of a column that is not named")
        return spans[0], form

    def leave_value(self, column: int, form: Form) -> tuple[None, Form]:
        """Refuse a value that the question has in other words."""
        raise UnusableError("value not in the question")

    def find_count(self, literal: Literal) -> tuple[Span | None, Form]:
        """Find a number of rows or groups; it becomes a slot if it is written in figures or a plain number word."""
        spans = [(number.start, number.end) for number in numbers_in(self.wording.words) if number.text == literal.text]
        free = [span for span in spans if self.wording.taken.keys().isdisjoint(range(*span))]
        if len(free) == 1 and literal.text not in ("0", "1"):
            text = self.wording.words[free[0][0]].text.lower()
            if free[0][1] - free[0][0] == 1 and (text.isdecimal() or text in NUMBER_WORDS):
                return free[0], Form.COUNT
        if free or literal.text in ("0", "1"):
            return None, Form.CONSTANT
        raise UnusableError("count not in the question")

    # Columns

    def place_columns(self) -> None:
        wanted: dict[Span, list[tuple[int, bool]]] = {}
        for column in self.columns:
            if self.schema.is_star(column):
                continue
            for span, is_whole in self.mentions(column):
                wanted.setdefault(span, []).append((column, is_whole))
        for span in sorted(wanted, key=lambda span: (span[0] - span[1], span)):
            if self.wording.taken.keys().isdisjoint(range(*span)):
                column, is_whole = self.owner(span, wanted[span])
                self.wording.take(span, self.slot(span, SlotKind.COLUMN, self.columns.index(column), is_whole=is_whole))
        self.name_compared_columns()
        shown = set(shown_columns(self.tree))
        named = self.named_columns()
        self.leave_columns(
            [
                column
                for column in self.columns
                if column not in named
                and not self.schema.is_star(column)
                and not self.is_title(column)
                and (column in shown or not self.is_key(column))
            ]
        )

    def named_columns(self) -> set[int]:
        return {self.columns[slot.index] for slot in self.wording.all_slots() if slot.kind is SlotKind.COLUMN}

    def leave_columns(self, silent: Sequence[int]) -> None:
        """Refuse columns that the question does not name."""
        if silent:
            raise UnusableError("column not named")

    def is_title(self, column: int) -> bool:
        """Whether a column holds the names of a table's rows, and the question names the table but asks for no name."""
        table = self.schema.columns[column].table
        asks_for_name = not {"name", "title"}.isdisjoint(self.wording.lemmas)
        return bool(self.table_spans(table)) and not asks_for_name and title_of(table, self.schema) == column

    def name_compared_columns(self) -> None:
        """Name the column of a value: `artists from France` and `French artists` become `artists with country …`."""
        named = {slot.index for slot in self.wording.slots.values() if slot.kind is SlotKind.COLUMN}
        silent: list[int] = []
        for span, slot in sorted(self.wording.slots.items()):
            column = self.compared[slot.index] if slot.kind is SlotKind.VALUE else None
            if column is None or self.columns.index(column) in named or self.is_key(column):
                continue
            starts = dict(self.table_spans(self.schema.columns[column].table))
            name = TemplateSlot(SlotKind.COLUMN, self.columns.index(column), lead="with ")
            before = self.wording.skip_marks_before(span[0])
            if before > 1 and self.wording.lemmas[before - 1] in PREPOSITIONS and before - 1 in starts.values():
                self.wording.take((before - 1, before), name)
            elif before in starts.values():
                self.wording.inserted[before] = name
            elif before == span[0] and span[1] in starts:
                self.wording.inserted[span[0]] = name
                self.wording.turned[span[0]] = (span[1], starts[span[1]])
            else:
                continue
            silent.append(column)
        if any(silent.count(column) < self.compared.count(column) for column in silent):
            raise UnusableError("column named for one value of two")

    def replace_calls(self) -> None:
        """Name the column of a name: `the dog named Rex` becomes `the dog with name Rex`."""
        for span, slot in list(self.wording.slots.items()):
            before = self.wording.skip_marks_before(span[0]) - 1
            column = self.compared[slot.index]
            if column is None or before < 1 or self.wording.words[before].text.lower() not in CALLS:
                continue
            if name_lemmas(self.schema.columns[column].natural)[-1:] in (("name",), ("title",)):
                name = TemplateSlot(SlotKind.COLUMN, self.columns.index(column), is_whole=False, lead="with ")
                self.wording.take((before, before + 1), name)

    def mentions(self, column: int) -> list[tuple[Span, bool]]:
        """Where the question names a column, and whether with the words that the name shares with its table's."""
        natural = self.schema.columns[column].natural
        whole = [(span, True) for span in self.wording.spans_of(name_lemmas(natural))]
        if whole:
            return whole
        own = self.schema.columns[column].table
        # the `account id` of a payment is the id of an account as well
        referred = [
            table for table in referred_tables(column, self.schema) if table in self.tables and self.table_spans(table)
        ]
        names = dict.fromkeys(short_lemmas(natural, self.schema.tables[table].natural) for table in (own, *referred))
        return [(span, False) for name in names for span in self.wording.spans_of(name)]

    def is_key(self, column: int) -> bool:
        return not traits_of(column, self.database).isdisjoint([Trait.PRIMARY, Trait.FOREIGN])

    def owner(self, span: Span, wanting: list[tuple[int, bool]]) -> tuple[int, bool]:
        """Choose among columns of one name: the table after `of` decides, or else the last table before the name."""
        if len(wanting) == 1:
            return wanting[0]
        plain = [entry for entry in wanting if not self.is_key(entry[0])]
        if not plain:  # keys that a join makes equal
            return wanting[0]
        table = self.table_beside(span)
        owners = [entry for entry in plain if self.schema.columns[entry[0]].table == table]
        if len(owners) != 1:
            raise UnusableError("two columns of one name")
        return owners[0]

    def table_beside(self, span: Span) -> int | None:
        tables = {table_span: table for table in self.tables for table_span in self.table_spans(table)}
        if self.wording.lemmas[span[1] : span[1] + 1] == ["of"]:
            position = self.wording.skip_articles(span[1] + 1)
            after = [table for (start, _), table in tables.items() if start == position]
            if after:
                return after[0]
        before = [(end, table) for (_, end), table in tables.items() if end <= span[0]]
        return max(before)[1] if before else None

    # Tables and the other words

    def place_tables(self, links: Sequence[Link]) -> tuple[bool, ...]:
        named = []
        for index, table in enumerate(self.tables):
            spans = self.table_spans(table)
            for span in spans:
                self.wording.take(span, self.slot(span, SlotKind.TABLE, index))
            named.append(bool(spans))
        if not any(named) and (len(named) > 1 or any(map(self.schema.is_star, self.columns))):
            raise UnusableError("no table named")
        for index, is_named in enumerate(named):
            ends = sum(index in link for link in links)
            has_column = any(self.schema.columns[column].table == self.tables[index] for column in self.named_columns())
            if len(named) > 1 and not (is_named or has_column or ends > 1):
                raise UnusableError("table not named")
        for slot in self.wording.all_slots():
            if slot.kind is SlotKind.COLUMN:
                column = self.columns[slot.index]
                table = self.tables.index(self.schema.columns[column].table)
                is_clear = slot.is_whole and (self.names_table(column) or self.is_referred(table, named, links))
                if len(named) > 1 and not named[table] and not is_clear:
                    raise UnusableError("column of a table that is not named")
        return tuple(named)

    def is_referred(self, table: int, named: Sequence[bool], links: Sequence[Link]) -> bool:
        """Whether a named table refers to this one, whose columns then belong to it too: the hometowns of gymnasts."""
        return any(target == table and named[source] for source, target in links)

    def check_rest(self, values: Sequence[ValueNeed]) -> None:
        for first, second in itertools.pairwise(sorted(self.wording.slots)):
            slot = self.wording.slots[first]
            is_value = slot.kind is SlotKind.VALUE and values[slot.index].form is not Form.COUNT
            if is_value and first[1] == second[0] and not self.may_precede(first, second):
                raise UnusableError("value before a name")  # `Statistics courses`: few values can be put so
        numbers = {
            position
            for number in numbers_in(self.wording.words)
            if not number.is_ordinal
            for position in range(number.start, number.end)
        }
        tables = {name_lemmas(table.natural) for table in self.schema.tables}
        has_pattern = any(value.form in PATTERNS.values() for value in values)
        foreign = []
        for position, word in enumerate(self.wording.words):
            text = word.text.lower()
            if text in UNITS:
                raise UnusableError("a unit")
            if position in self.wording.taken or word.is_mark or position in numbers:
                continue
            is_plain = text in PLAIN_WORDS and (has_pattern or text not in PATTERN_WORDS)
            asks_for_kind = text in KINDS_OF_ANSWERS and begins_sentence(self.wording.words, position)
            if not is_plain or (text,) in tables or (word.lemma,) in tables or asks_for_kind:
                foreign.append(position)
        if foreign:
            self.leave_words(foreign)

    def may_precede(self, value: Span, name: Span) -> bool:
        """Whether a value may come right before a name."""
        return value[0] in self.wording.turned

    def leave_words(self, foreign: Sequence[int]) -> None:
        """Refuse words that are neither slots nor plain, except one verb between tables."""
        if len(foreign) > 1 or len(self.tables) == 1 or not self.wording.reword(foreign[0]):
            raise UnusableError(f"word left: {self.wording.words[foreign[0]].text.lower()}")
