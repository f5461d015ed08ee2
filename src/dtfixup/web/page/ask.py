"""The page: a database, a question, its SQL and its rows.

`layout.py` lays it out; `PageActions` is what it does. As in the API, a request names a database of the catalogue or
the visitor's own upload, and queries pass the guard.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr

from dtfixup.errors import DtFixupError, UploadError
from dtfixup.sql.ask.answers import Answer, Verdict
from dtfixup.sql.ask.view import remark, rows_content, rows_csv
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.linking.view import Mark
from dtfixup.web.api.refusals import refusal_of, sentence_of
from dtfixup.web.api.service import AnswerService
from dtfixup.web.page.answer_view import break_lines, highlight, list_alternatives, list_links, percentages
from dtfixup.web.page.charts import draw_chart, suggest_chart
from dtfixup.web.page.diagram import draw_schema
from dtfixup.web.page.pictures import escape, notice
from dtfixup.web.store.catalogue import Catalogue, Entry
from dtfixup.web.store.uploads import UploadStore

MOST_HISTORY = 20
_DECIMALS = 6
_EXACT = 2**53
"""The largest whole number that a browser shows exactly."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class AnswerView:
    """What the page shows of one question."""

    question: str
    database: str
    label: str = ""
    """The database's label."""
    pieces: tuple[tuple[str, str | None], ...] = ()
    links: str = ""
    """What the words were linked to, as HTML."""
    notice: str = ""
    sql: str = ""
    alternatives: tuple[tuple[str, str], ...] = ()
    """The text shown for each query, and the query."""
    percentages: Mapping[str, str] = field(default_factory=dict)
    """The probability of each alternative query."""
    opens_alternatives: bool = False


@dataclass(frozen=True)
class RowsView:
    """What the page shows of one run of a query."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    kinds: tuple[str, ...] = ()
    chart: str = ""
    notice: str = ""


@dataclass(frozen=True)
class PageActions:
    """Answers the page. Errors that a visitor can cause become notices."""

    service: AnswerService
    catalogue: Catalogue
    uploads: UploadStore
    turns: dict[str, int] = field(default_factory=dict)
    """By visitor, how often the answer on the page was replaced."""

    def turn_of(self, visitor: str) -> int:
        """A number that changes when another answer is shown on the visitor's page."""
        return self.turns.get(visitor, 0)

    def begin_turn(self, visitor: str) -> None:
        """Another answer is shown on the visitor's page from now on."""
        self.turns[visitor] = self.turn_of(visitor) + 1

    def leave(self, visitor: str) -> None:
        """The visitor has closed the page."""
        self.turns.pop(visitor, None)
        self.uploads.forget(visitor)

    def find(self, name: str, visitor: str) -> Entry:
        """A database of the catalogue, or an upload of this visitor."""
        if name.startswith("upload-") and name not in self.catalogue.entries:
            return self.uploads.find(name, visitor).entry
        return self.catalogue.find(name)

    async def schema(self, name: str, visitor: str) -> str:
        """The picture of a database, or why there is none."""

        async def draw(entry: Entry) -> str:
            reading = await self.service.read(entry.database)
            left_out = "".join(notice("warn", sentence, "Left out:") for sentence in reading.left_out)
            return f'<div class="scroll" tabindex="0">{draw_schema(reading.schema)}</div>{_KEY}{left_out}'

        return await self._attempt(name, visitor, draw, lambda error: error)

    async def ask(self, name: str, question: str, visitor: str) -> AnswerView:
        """The answer to a question, or why there is none."""

        async def answer(entry: Entry) -> AnswerView:
            return _view_answer(await self.service.ask(entry.database, question), entry, self.service.parser.sure_above)

        return await self._attempt(
            name, visitor, answer, lambda error: AnswerView(question.strip(), name, notice=error)
        )

    async def run(self, name: str, sql: str, visitor: str) -> RowsView:
        """Rows, and a chart where they suggest one."""

        async def run(entry: Entry) -> RowsView:
            if not sql.strip():
                return RowsView(notice=notice("error", "There is no query to run yet: ask something, or write one."))
            return view_rows(await self.service.run(entry.database, sql))

        return await self._attempt(name, visitor, run, lambda error: RowsView(notice=error))

    async def _attempt(
        self,
        name: str,
        visitor: str,
        work: Callable[[Entry], Awaitable[Result]],
        show: Callable[[str], Result],
    ) -> Result:
        """The work's result, or a notice of its error, without paths of this machine."""
        masks: dict[str, str] = {}
        try:
            entry = self.find(name, visitor)
            masks = entry.masks
            return await work(entry)
        except DtFixupError as error:
            return show(notice("error", sentence_of(refusal_of(error, masks))))

    def is_there(self, name: str, visitor: str) -> bool:
        """Whether a database can still be asked: uploads are removed."""
        try:
            self.find(name, visitor)
        except DtFixupError:
            return False
        return True

    async def upload(self, received: Path, file_name: str, visitor: str) -> Entry | str:
        """The stored file, or a notice of why it was refused."""
        try:
            return (await self.service.do(lambda: self.uploads.take(received, file_name, visitor))).entry
        except DtFixupError as error:
            refusal = refusal_of(error)
        except OSError as error:
            refusal = refusal_of(UploadError(f"the file cannot be stored: {error.strerror}"))
        return notice("error", sentence_of(refusal))


_KEY = (
    '<p class="key-line"><span><i class="key"></i>primary key</span><span><i class="pointer"></i>foreign key</span></p>'
)


def _view_answer(answer: Answer, entry: Entry, sure_above: float) -> AnswerView:
    links = "".join(
        f'<li class="{_CLASSES[mark]}"><b>{escape(words)}</b> → {escape(target)}</li>'
        for words, target, mark in list_links(answer)
    )
    is_guess = answer.verdict is Verdict.NO_LINK
    return AnswerView(
        question=answer.question,
        database=entry.name,
        label=entry.label,
        pieces=tuple(highlight(answer)),
        links=f'<ul class="links">{links}</ul>' if links else "",
        notice=_view_verdict(answer, sure_above),
        sql="" if answer.sql is None else break_lines(answer.sql),
        alternatives=() if is_guess else tuple(list_alternatives(answer, sure_above)),
        percentages={} if is_guess else percentages(answer, sure_above),
        opens_alternatives=answer.verdict is Verdict.UNSURE,
    )


def view_percentage(percentage: str) -> str:
    """How likely the model finds the shown query."""
    return f'<p class="share"><b>{escape(percentage)}</b> likely, says the model</p>' if percentage else ""


def _view_verdict(answer: Answer, sure_above: float) -> str:
    """A notice for an answer that is not sure."""
    text = remark(answer, sure_above)
    if text is None:
        return ""
    title = "No link to this database." if answer.verdict is Verdict.NO_LINK else "Not sure."
    end = " one of the queries below" if answer.verdict is Verdict.UNSURE and answer.alternatives else ""
    return notice("warn", f"{text[:1].upper()}{text[1:]}{end}.", title)


_CLASSES = {Mark.VALUE: "value", Mark.COLUMN: "column", Mark.TABLE: "table", Mark.PART: "part"}


def view_rows(rows: Rows) -> RowsView:
    """The table of rows, its notice, and a chart where the rows suggest one."""
    content = rows_content(rows)
    numbers = [
        all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in column)
        for column in zip(*content["rows"], strict=True)
    ] or [False for _ in rows.columns]
    count = f"{len(rows.rows):,} row{'' if len(rows.rows) == 1 else 's'}"
    text = f"The first {count}; there are more." if rows.truncated else f"{count}."
    if not rows.rows:
        text = "No rows: nothing in the database fits."
    kinds = tuple("number" if is_number else "str" for is_number in numbers)
    chart = suggest_chart(rows)
    return RowsView(
        rows.columns,
        tuple(tuple(_cell(value) for value in row) for row in content["rows"]),
        kinds,
        "" if chart is None else draw_chart(chart),
        f'<p class="count"><span role="status">{text}</span>{_download(rows)}</p>{_align_numbers(kinds)}',
    )


def _download(rows: Rows) -> str:
    """A link that contains the rows, so that no file of the server is opened for it."""
    if not rows.rows:
        return ""
    text = b64encode(rows_csv(rows).encode("utf-8-sig")).decode()  # the mark tells spreadsheets that it is UTF-8
    return f' <a href="data:text/csv;base64,{text}" download="rows.csv">Save as CSV</a>'


def _cell(value: Any) -> Any:
    """A value as the table shows it: at most six decimals, or six significant figures below 1."""
    if value is None:
        return "NULL"
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    if isinstance(value, float):
        return round(value, _DECIMALS) if abs(value) >= 1 else float(f"{value:.{_DECIMALS}g}")
    return value


def _align_numbers(kinds: Sequence[str]) -> str:
    """A style that aligns columns of numbers and their heads to the right, which Gradio has no option for."""
    columns = [f'#rows [aria-colindex="{number}"]' for number, kind in enumerate(kinds, 1) if kind == "number"]
    parts = ",".join(f"{column} .cell-wrap,{column} .header-content" for column in columns)
    return f"<style>{parts}{{justify-content:flex-end;text-align:right}}</style>" if columns else ""


def add_to_history(history: list[AnswerView], view: AnswerView) -> list[AnswerView]:
    """The history with one more answer, the latest first, each question of a database once."""
    others = [old for old in history if (old.question, old.database) != (view.question, view.database)]
    return [view, *others][:MOST_HISTORY]


def visitor_of(request: gr.Request) -> str:
    """The visitor's name: long and random, made by the page when it is opened."""
    return str(request.session_hash or "")
