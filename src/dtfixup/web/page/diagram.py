"""A schema as a picture: tables with their columns and keys, and lines for foreign keys.

In: a `Schema`. Out: SVG, three tables across for a screen and one for a phone. Tables that point at each other are put
close to each other. Of a large schema a part is drawn, and a note says what is left out.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dtfixup.sql.database.schema import Schema
from dtfixup.web.page.pictures import NARROW, WIDE, clip, draw_both_widths, escape

_MOST_TABLES = 40
_MOST_COLUMNS = 14
_HEADER, _ROW, _FOOT = 34, 23, 8
_GAP = 26
"""Between tables above each other."""
_ASIDE = 110
"""Cost of a line between stacks that are not neighbours, in height."""
_LOOP = 26
"""How far a line between tables of one stack bends out."""


@dataclass(frozen=True)
class _Measures:
    across: int
    box: int
    between: int
    margin: int
    characters: int


_MEASURES = {WIDE: _Measures(3, 236, 76, 44, 22), NARROW: _Measures(1, 252, 0, 44, 23)}


@dataclass(frozen=True)
class _Box:
    table: int
    x: float
    y: float
    columns: tuple[int, ...]
    hidden: int

    @property
    def height(self) -> float:
        return _HEADER + _ROW * (len(self.columns) + bool(self.hidden)) + _FOOT

    def line_of(self, column: int) -> float:
        """The y of a column's middle, or of the header for a column that is not shown."""
        if column not in self.columns:
            return self.y + _HEADER / 2
        return self.y + _HEADER + _ROW * (self.columns.index(column) + 0.5)


def draw_schema(schema: Schema) -> str:
    """The picture for both widths of screen."""
    order = neighbours_first(schema)[:_MOST_TABLES]
    return draw_both_widths(lambda width: _draw(schema, order, _MEASURES[width]))


def neighbours_first(schema: Schema) -> list[int]:
    """Tables in an order in which those that point at each other follow each other; the best connected begins."""
    near = _near(schema)
    order: list[int] = []
    seen: set[int] = set()
    for start in sorted(range(len(near)), key=lambda table: -len(near[table])):
        waiting = deque([start])
        while waiting:
            table = waiting.popleft()
            if table not in seen:
                seen.add(table)
                order.append(table)
                waiting.extend(sorted(near[table] - seen, key=lambda other: -len(near[other])))
    return order


def _near(schema: Schema) -> list[set[int]]:
    """Per table, those that it points at or that point at it."""
    near: list[set[int]] = [set() for _ in schema.tables]
    for source, target in schema.foreign_pairs:
        ends = schema.columns[source].table, schema.columns[target].table
        if ends[0] != ends[1]:
            near[ends[0]].add(ends[1])
            near[ends[1]].add(ends[0])
    return near


def _draw(schema: Schema, order: Sequence[int], measures: _Measures) -> str:
    boxes = _place_tables(schema, order, measures)
    height = max(box.y + box.height for box in boxes.values()) + _GAP
    across = min(measures.across, len(boxes))
    width = 2 * measures.margin + across * measures.box + (across - 1) * measures.between
    lines = [_line(schema, boxes, pair, measures, number) for number, pair in enumerate(schema.foreign_pairs)]
    drawn = [_table(schema, box, measures) for box in boxes.values()]
    left_out = len(schema.tables) - len(boxes)
    note = f'<p class="note">{left_out:,} more tables are not drawn.</p>' if left_out else ""
    label = f"{len(schema.tables)} tables: {', '.join(table.name for table in schema.tables[:_MOST_TABLES])}"
    return (
        f'<svg class="schema" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" role="img" '
        f'aria-label="{escape(label)}">{"".join(lines)}{"".join(drawn)}</svg>{note}'
    )


def _place_tables(schema: Schema, order: Sequence[int], measures: _Measures) -> dict[int, _Box]:
    """Put each table on a stack that is still low and beside the stacks of its neighbours."""
    depths = [float(_GAP)] * min(measures.across, len(order))
    boxes: dict[int, _Box] = {}
    near = _near(schema)
    stacks: dict[int, int] = {}
    for table in order:
        others = [stacks[other] for other in near[table] if other in stacks]

        def cost(stack: int, others: Sequence[int] = others) -> float:
            return depths[stack] + _ASIDE * sum(abs(abs(stack - other) - 1) for other in others)

        stack = stacks[table] = min(range(len(depths)), key=cost)
        shown = _shown_columns(schema, table)
        hidden = len(schema.columns_of[table]) - 1 - len(shown)
        x = measures.margin + stack * (measures.box + measures.between)
        boxes[table] = _Box(table, x, depths[stack], shown, hidden)
        depths[stack] += boxes[table].height + _GAP
    return boxes


def _shown_columns(schema: Schema, table: int) -> tuple[int, ...]:
    """The columns in their order; of many, those of keys before others."""
    columns = schema.columns_of[table][1:]
    if len(columns) <= _MOST_COLUMNS:
        return columns
    keys = {column for pair in schema.foreign_pairs for column in pair} | set(schema.primary_keys[table])
    chosen = sorted(columns, key=lambda column: column not in keys)[:_MOST_COLUMNS]
    return tuple(sorted(chosen))


def _table(schema: Schema, box: _Box, measures: _Measures) -> str:
    table = schema.tables[box.table]
    kind = "view" if table.is_view else "table"
    corner = 10
    parts = [
        f'<g class="{kind}"><rect class="box" x="{box.x:g}" y="{box.y:g}" width="{measures.box}" '
        f'height="{box.height:g}" rx="{corner}"/>',
        f'<text class="name" x="{box.x + 16:g}" y="{box.y + 23:g}">{escape(clip(table.name, measures.characters))}'
        f"<title>{escape(table.name)}</title></text>",
    ]
    if table.is_view:
        parts.append(f'<text class="type" x="{box.x + measures.box - 14:g}" y="{box.y + 23:g}">view</text>')
    pointing = {source for source, _ in schema.foreign_pairs}
    parts += [_column(schema, column, box, measures, pointing) for column in box.columns]
    if box.hidden:
        y = box.y + _HEADER + _ROW * (len(box.columns) + 0.5) + 4
        parts.append(f'<text class="type start" x="{box.x + 30:g}" y="{y:g}">and {box.hidden:,} more</text>')
    return "".join([*parts, "</g>"])


def _column(schema: Schema, column: int, box: _Box, measures: _Measures, pointing: set[int]) -> str:
    own, y = schema.columns[column], box.line_of(column)
    mark = ""
    if column in schema.primary_keys[box.table]:
        mark = f'<circle class="key" cx="{box.x + 18:g}" cy="{y:g}" r="4"><title>primary key</title></circle>'
    elif column in pointing:
        mark = f'<circle class="pointer" cx="{box.x + 18:g}" cy="{y:g}" r="3.5"><title>foreign key</title></circle>'
    return (
        f'{mark}<text class="column" x="{box.x + 30:g}" y="{y + 4:g}">'
        f"{escape(clip(own.name, measures.characters))}<title>{escape(own.name)}</title></text>"
        f'<text class="type" x="{box.x + measures.box - 14:g}" y="{y + 4:g}">{own.type.value}</text>'
    )


def _line(schema: Schema, boxes: dict[int, _Box], pair: tuple[int, int], measures: _Measures, number: int) -> str:
    """From a column to the one it points at, around the tables of one stack and between those of two."""
    tables = [schema.columns[column].table for column in pair]
    if not all(table in boxes for table in tables):
        return ""
    source, target = (boxes[table] for table in tables)
    ys, yt = source.line_of(pair[0]), target.line_of(pair[1])
    title = f"<title>{escape(schema.qualified(pair[0]))} → {escape(schema.qualified(pair[1]))}</title>"
    if source.x == target.x:
        is_right = number % 2 == 0
        swing = (_LOOP + 7 * (number // 2 % 3)) * (1 if is_right else -1)
        x = source.x + (measures.box if is_right else 0)
        path = f"M{x:g},{ys:g} C{x + swing:g},{ys:g} {x + swing:g},{yt:g} {x:g},{yt:g}"
        end = x
    else:
        is_right = source.x < target.x
        x = source.x + (measures.box if is_right else 0)
        end = target.x + (0 if is_right else measures.box)
        bend = measures.between * 0.6 * (1 if is_right else -1)
        path = f"M{x:g},{ys:g}"
        if passed := [box for box in boxes.values() if min(x, end) < box.x < max(x, end)]:
            way = _way_through(passed, ys, yt) + 5 * (number % 3 - 1)  # lines through one gap lie side by side
            near, far = (passed[0].x + (measures.box if is_far is is_right else 0) for is_far in (False, True))
            path += f" C{x + bend:g},{ys:g} {near - bend:g},{way:g} {near:g},{way:g} L{far:g},{way:g}"
            x, ys = far, way
        path += f" C{x + bend:g},{ys:g} {end - bend:g},{yt:g} {end:g},{yt:g}"
    return f'<g class="reference"><path d="{path}">{title}</path><circle cx="{end:g}" cy="{yt:g}" r="3.5"/></g>'


def _way_through(stack: Sequence[_Box], ys: float, yt: float) -> float:
    """The y at which a line passes a stack of tables, above, between or below them, by the shortest way."""
    ways = [box.y - _GAP / 2 for box in stack] + [max(box.y + box.height for box in stack) + _GAP / 2]
    return min(ways, key=lambda way: abs(ys - way) + abs(way - yt))
