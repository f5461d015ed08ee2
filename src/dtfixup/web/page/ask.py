"""The page: a database, a question, its SQL and its rows.

`layout.py` lays it out; `Counter` is what it does. Every database and query of a request goes the way of the API: names
out of the catalogue or the visitor's own upload, and queries through the guard.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gradio as gr

from dtfixup.errors import DtFixupError, UploadError
from dtfixup.sql.ask.answers import Answer, Verdict
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.view import remark, rows_content, rows_csv
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.linking.view import Mark
from dtfixup.web.api.desk import Desk
from dtfixup.web.api.refusals import refusal_of, sentence_of
from dtfixup.web.page.answer_marks import choices, laid_out, notes, pieces, shares
from dtfixup.web.page.charts import draw_chart, suggest_chart
from dtfixup.web.page.diagram import draw_schema
from dtfixup.web.page.pictures import escaped, notice
from dtfixup.web.store.catalogue import Catalogue, places_of
from dtfixup.web.store.uploads import UploadStore

MOST_HISTORY = 20
_DECIMALS = 6
_EXACT = 2**53
"""Whole numbers up to this one are shown as they are; a browser knows those beyond it by their first figures."""


@dataclass(frozen=True)
class Shown:
    """What the page shows of one question."""

    question: str
    database: str
    label: str = ""
    """What the database is called."""
    pieces: tuple[tuple[str, str | None], ...] = ()
    links: str = ""
    """What the words were linked to, as HTML."""
    notice: str = ""
    sql: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Alternatives: what is read, and the query."""
    shares: Mapping[str, str] = field(default_factory=dict)
    """Of each alternative's query, how likely it is."""
    share: str = ""
    """How likely the shown query is, as HTML."""
    opens_choices: bool = False


@dataclass(frozen=True)
class Ran:
    """What the page shows of one run of a query."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    kinds: tuple[str, ...] = ()
    chart: str = ""
    notice: str = ""


@dataclass(frozen=True)
class Counter:
    """Answers the page; never raises what a visitor can cause, but says it."""

    desk: Desk
    catalogue: Catalogue
    uploads: UploadStore
    turns: dict[str, int] = field(default_factory=dict)
    """How often what is answered was replaced on a visitor's page."""

    def turn_of(self, visitor: str) -> int:
        """Tells whether the page still answers what it did."""
        return self.turns.get(visitor, 0)

    def begin_turn(self, visitor: str) -> None:
        """Something else is answered on the visitor's page from now on."""
        self.turns[visitor] = self.turn_of(visitor) + 1

    def leave(self, visitor: str) -> None:
        """The visitor has closed the page."""
        self.turns.pop(visitor, None)
        self.uploads.forget(visitor)

    def find(self, name: str, visitor: str) -> tuple[OpenedDatabase, str]:
        """A database of the catalogue or an upload of this visitor, with its label."""
        if name in self.catalogue.entries:
            entry = self.catalogue.entries[name]
            return entry.database, entry.label
        if name.startswith("upload-"):
            upload = self.uploads.find(name, visitor)
            return upload.database, upload.label
        entry = self.catalogue.find(name)
        return entry.database, entry.label

    async def schema(self, name: str, visitor: str) -> str:
        """The picture of a database, or why there is none."""
        places: dict[str, str] = {}
        try:
            database, label = self.find(name, visitor)
            places = places_of(database, label)
            reading = await self.desk.read(database)
        except DtFixupError as error:
            return notice("error", sentence_of(refusal_of(error, places)))
        told = "".join(notice("warn", sentence, "Left out:") for sentence in reading.left_out)
        return f'<div class="scroll" tabindex="0">{draw_schema(reading.schema)}</div>{_KEY}{told}'

    async def ask(self, name: str, question: str, visitor: str) -> Shown:
        """A question answered as far as it can be."""
        shown = Shown(question.strip(), name)
        places: dict[str, str] = {}
        try:
            database, label = self.find(name, visitor)
            places = places_of(database, label)
            answer = await self.desk.ask(database, question)
        except DtFixupError as error:
            return replace(shown, notice=notice("error", sentence_of(refusal_of(error, places))))
        return replace(_shown(answer, name, self.desk.parser.sure_above), label=label)

    async def run(self, name: str, sql: str, visitor: str) -> Ran:
        """Rows, and a chart where they suggest one."""
        places: dict[str, str] = {}
        try:
            database, label = self.find(name, visitor)
            places = places_of(database, label)
            if not sql.strip():
                return Ran(notice=notice("error", "There is no query to run yet: ask something, or write one."))
            rows = await self.desk.run(database, sql)
        except DtFixupError as error:
            return Ran(notice=notice("error", sentence_of(refusal_of(error, places))))
        return _ran(rows)

    def is_there(self, name: str, visitor: str) -> bool:
        """Whether a database can still be asked: uploads go."""
        try:
            self.find(name, visitor)
        except DtFixupError:
            return False
        return True

    async def upload(self, received: Path, file_name: str, visitor: str) -> tuple[str, str] | str:
        """Name and label of the stored file, or why it was not taken."""
        try:
            stored = await self.desk.do(lambda: self.uploads.take(received, file_name, visitor))
        except DtFixupError as error:
            return notice("error", sentence_of(refusal_of(error)))
        except OSError as error:
            refusal = refusal_of(UploadError(f"the file cannot be kept: {error.strerror}"))
            return notice("error", sentence_of(refusal))
        return stored.name, stored.label


_KEY = (
    '<p class="key-line"><span><i class="key"></i>primary key</span><span><i class="pointer"></i>foreign key</span></p>'
)


def _shown(answer: Answer, name: str, sure_above: float) -> Shown:
    links = "".join(
        f'<li class="{_CLASSES[mark]}"><b>{escaped(words)}</b> → {escaped(target)}</li>'
        for words, target, mark in notes(answer)
    )
    is_guess = answer.verdict is Verdict.NO_LINK
    known = {} if is_guess else shares(answer, sure_above)
    return Shown(
        question=answer.question,
        database=name,
        pieces=tuple(pieces(answer)),
        links=f'<ul class="links">{links}</ul>' if links else "",
        notice=_verdict(answer, sure_above),
        sql="" if answer.sql is None else laid_out(answer.sql),
        choices=() if is_guess else tuple(choices(answer, sure_above)),
        shares=known,
        share="" if answer.sql is None else share_line(known[answer.sql]),
        opens_choices=answer.verdict is Verdict.UNSURE,
    )


def share_line(share: str) -> str:
    """How likely the model finds the shown query."""
    return f'<p class="share"><b>{escaped(share)}</b> likely, says the model</p>' if share else ""


def _verdict(answer: Answer, sure_above: float) -> str:
    """What has to be said of an answer that is not sure."""
    said = remark(answer, sure_above)
    if said is None:
        return ""
    title = "No link to this database." if answer.verdict is Verdict.NO_LINK else "Not sure."
    end = " one of the queries below" if answer.verdict is Verdict.UNSURE and answer.alternatives else ""
    return notice("warn", f"{said[:1].upper()}{said[1:]}{end}.", title)


_CLASSES = {Mark.VALUE: "value", Mark.COLUMN: "column", Mark.TABLE: "table", Mark.PART: "part"}


def _ran(rows: Rows) -> Ran:
    content = rows_content(rows)
    numbers = [
        all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in column)
        for column in zip(*content["rows"], strict=True)
    ] or [False for _ in rows.columns]
    count = f"{len(rows.rows):,} row{'' if len(rows.rows) == 1 else 's'}"
    told = f"The first {count}; there are more." if rows.truncated else f"{count}."
    if not rows.rows:
        told = "No rows: nothing in the database fits."
    kinds = tuple("number" if is_number else "str" for is_number in numbers)
    chart = suggest_chart(rows)
    return Ran(
        rows.columns,
        tuple(tuple(_cell(value) for value in row) for row in content["rows"]),
        kinds,
        "" if chart is None else draw_chart(chart),
        f'<p class="count"><span role="status">{told}</span>{_download(rows)}</p>{_to_the_right(kinds)}',
    )


def _download(rows: Rows) -> str:
    """A link that holds the rows itself: no file of the server is opened for it."""
    if not rows.rows:
        return ""
    text = b64encode(rows_csv(rows).encode("utf-8-sig")).decode()  # the mark tells spreadsheets that it is UTF-8
    return f' <a href="data:text/csv;base64,{text}" download="rows.csv">Save as CSV</a>'


def _cell(value: Any) -> Any:
    """A value as the table shows it: a fraction with at most six decimals, counted from its first figure below 1."""
    if value is None:
        return "NULL"
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    if isinstance(value, float):
        return round(value, _DECIMALS) if abs(value) >= 1 else float(f"{value:.{_DECIMALS}g}")
    return value


def _to_the_right(kinds: Sequence[str]) -> str:
    """The style of columns of numbers, heads included: Gradio knows no alignment."""
    columns = [f'#rows [aria-colindex="{place}"]' for place, kind in enumerate(kinds, 1) if kind == "number"]
    parts = ",".join(f"{column} .cell-wrap,{column} .header-content" for column in columns)
    return f"<style>{parts}{{justify-content:flex-end;text-align:right}}</style>" if columns else ""


def remembered(history: list[Shown], shown: Shown) -> list[Shown]:
    """The history with one more, the latest first, each question of a database once."""
    others = [old for old in history if (old.question, old.database) != (shown.question, shown.database)]
    return [shown, *others][:MOST_HISTORY]


def visitor_of(request: gr.Request) -> str:
    """Who asks: the page makes up a long random name when it is opened."""
    return str(request.session_hash or "")
