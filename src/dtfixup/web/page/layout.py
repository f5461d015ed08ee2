"""The layout of the page, and which button does what.

In: `PageActions`. Out: Gradio's `Blocks`, for `server.py` to mount. Nothing is fetched from elsewhere: fonts are those
of the visitor's machine, and pictures are our own.
"""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from dtfixup.sql.ask.parser import MOST_CHARACTERS
from dtfixup.web.page.answer_view import COLOURS, break_lines
from dtfixup.web.page.ask import AnswerView, PageActions, RowsView, add_to_history, view_percentage, visitor_of
from dtfixup.web.page.pictures import notice
from dtfixup.web.store.catalogue import Catalogue
from dtfixup.web.store.uploads import UploadStore

TITLE = "Ask your database"
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "concurrency_limit": None}
"""Options of every event of the page: programs use the API, and the service limits how many run at once."""
_EXAMPLES = 4
_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Ubuntu", "Cantarell", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
_HEADER = (
    f'<header class="masthead"><h1>{TITLE}</h1>'
    "<p>In English. The answer is SQL, the model runs on this machine, and nothing leaves it.</p></header>"
)


def theme() -> gr.themes.Base:
    """One accent colour, generous spacing, the fonts of the visitor's machine."""
    return gr.themes.Base(
        primary_hue="teal",
        secondary_hue="teal",
        neutral_hue="slate",
        radius_size="lg",
        spacing_size="md",
        font=_FONTS,
        font_mono=_MONO,
    ).set(
        body_background_fill="#f7f8f9",
        body_background_fill_dark="#0e1318",
        block_background_fill="#ffffff",
        block_background_fill_dark="#161c23",
        block_border_width="1px",
        input_background_fill="#ffffff",
        input_background_fill_dark="#161c23",
        input_border_width="1px",
        input_border_color="#dfe4e8",
        input_border_color_dark="#2a343f",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_label_border_width="0px",
        block_label_text_color="*neutral_500",
        block_shadow="none",
        button_primary_background_fill="#0f766e",
        button_primary_background_fill_dark="#0d9488",
        button_primary_background_fill_hover="#115e59",
        button_primary_background_fill_hover_dark="#0f766e",
        button_primary_text_color="#ffffff",
    )


HEAD = """<script>
document.addEventListener("keydown", (event) => {
  if (!event.target.closest("#sql .cm-content")) return;
  // The editor would keep the Tab key to itself, and keyboard users could not leave it.
  if (event.key === "Tab") event.stopImmediatePropagation();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.stopImmediatePropagation();
    event.preventDefault();
    if (!event.repeat) document.querySelector("#run").click();
  }
}, true);
</script>"""

_EMPTY = f"() => {json.dumps(['', '', gr.update(visible=False)])}"
"""Empty question and notice, and the answer hidden until the next one replaces it."""


def style() -> str:
    """The style sheet."""
    return (files("dtfixup.web.page") / "style.css").read_text(encoding="utf-8")


def build_page(actions: PageActions) -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
        gr.HTML(_HEADER, padding=False)
        AskPage(actions).build(page)

        def leave(request: gr.Request) -> None:
            actions.leave(visitor_of(request))

        page.unload(leave)
    page.queue(max_size=64, default_concurrency_limit=None, api_open=False)
    restrict_files(page, actions.uploads)
    return page


def restrict_files(page: gr.Blocks, uploads: UploadStore) -> None:
    """Let requests name only files that the upload route received.

    Gradio would copy any file of this machine, or of a URL, for its handlers to read.
    """

    async def received(url_or_file_path: str | Path | None) -> str | None:
        return None if url_or_file_path is None else str(uploads.received(url_or_file_path))

    for block in page.blocks.values():
        block.async_move_resource_to_block_cache = received  # type: ignore[method-assign]


@dataclass
class AskPage:
    """The parts of the page and what they do."""

    actions: PageActions

    def build(self, page: gr.Blocks) -> None:
        self.history = gr.State([])
        self.percentages = gr.State({})
        with gr.Row(elem_classes="controls"):
            self.database = gr.Dropdown(
                _choices(self.actions.catalogue),
                value=next(iter(self.actions.catalogue.entries)),
                label="Database",
                elem_id="database",
                filterable=False,
                scale=4,
            )
            self.upload = gr.UploadButton("Upload a SQLite file", elem_id="upload", file_count="single", scale=1)
        with gr.Row(elem_classes="question-row"):
            self.question = gr.Textbox(
                label="Question",
                placeholder="How many …? Which …? What is the average …?",
                elem_id="question",
                lines=1,
                max_lines=4,
                max_length=MOST_CHARACTERS,
                autofocus=True,
                scale=6,
            )
            self.ask = gr.Button("Ask", variant="primary", elem_id="ask", scale=1)
        with gr.Row(elem_classes="examples"):
            self.examples = [gr.Button("", size="sm", visible=False, elem_classes="chip") for _ in range(_EXAMPLES)]
        self.notice = gr.HTML(elem_id="notice", padding=False)
        with gr.Column(visible=False, elem_id="answer") as self.answer:
            self.pieces = gr.HighlightedText(
                color_map={mark.value: colour for mark, colour in COLOURS.items()},
                show_label=False,
                container=False,
                show_inline_category=False,
                elem_id="pieces",
                interactive=False,
            )
            self.links = gr.HTML(elem_id="links", padding=False)
            self.sql = gr.Code(
                language="sql",
                label="SQL, yours to change",
                interactive=True,
                wrap_lines=True,
                show_line_numbers=False,
                lines=2,
                elem_id="sql",
                buttons=["copy"],
            )
            with gr.Row(elem_classes="run-row"):
                self.run = gr.Button("Run", variant="primary", elem_id="run", scale=0)
                self.share = gr.HTML(elem_id="share", padding=False)
            with gr.Accordion("Alternatives", open=False, visible=False, elem_id="alternatives") as self.more:
                self.alternatives = gr.Radio([], show_label=False, container=False, elem_id="choices")
            self.ran = gr.HTML(elem_id="ran", padding=False)
            self.rows = gr.Dataframe(
                visible=False, interactive=False, show_label=False, elem_id="rows", max_height=420, buttons=["copy"]
            )
            self.chart = gr.HTML(elem_id="chart", padding=False)
        with gr.Accordion("What the database holds", open=True, elem_id="schema"):
            self.schema = gr.HTML(padding=False)
        with gr.Accordion("History", open=False, visible=False, elem_id="history") as self.past:
            self.recalled = gr.Radio([], show_label=False, container=False, elem_id="recall")
        self._connect(page)

    def _connect(self, page: gr.Blocks) -> None:
        chosen = [self.schema, *self.examples]
        asked = [
            self.notice, self.answer, self.pieces, self.links, self.sql, self.share, self.percentages, self.more,
            self.alternatives, self.ran, self.rows, self.chart,
        ]  # fmt: skip
        remembers = [self.history, self.past, self.recalled]
        ran = [self.ran, self.rows, self.chart]
        page.load(self._choose, [self.database], chosen, **PRIVATE)
        self.database.change(self._choose, [self.database], chosen, **PRIVATE)
        inputs = [self.database, self.question, self.history]
        # Of several questions or runs, the last one counts.
        last = {**PRIVATE, "trigger_mode": "always_last"}
        run = self.run.click(self._run, [self.database, self.sql], [*ran, self.more], **last)
        begun: list[dict[str, Any]] = [
            trigger(self._ask, inputs, [*asked, *remembers], cancels=[run], **last)
            for trigger in (self.ask.click, self.question.submit)
        ]
        begun += [
            example.click(None, [example], [self.question], js="(text) => text", **PRIVATE).then(
                self._ask, inputs, [*asked, *remembers], cancels=[run], **last
            )
            for example in self.examples
        ]
        begun.append(run)  # last: Gradio cancels one after the other, and would cancel a question asked meanwhile
        # Not on every change: history chooses a database too, and shows an answer of it. In the browser, at once: an
        # answer of the server would arrive when the next question is half typed, or asked.
        emptied = [self.question, self.notice, self.answer]
        self.database.input(None, None, emptied, js=_EMPTY, cancels=begun, **PRIVATE)
        self.upload.upload(
            self._upload, [self.upload], [self.database, self.question, *asked], cancels=begun, **PRIVATE
        )
        self.sql.input(None, None, [self.share, self.alternatives], js="() => ['', null]", **PRIVATE)
        picked = [self.sql, self.share, *ran]
        self.alternatives.input(self._pick, [self.alternatives, self.percentages], picked, cancels=begun, **PRIVATE)
        self.recalled.input(
            self._recall,
            [self.recalled, self.history],
            [self.question, self.database, *asked, self.recalled],
            cancels=begun,
            **PRIVATE,
        )

    async def _choose(self, name: str, request: gr.Request) -> list[Any]:
        entry = self.actions.catalogue.entries.get(name)
        examples = entry.examples if entry is not None else ()
        shown = [gr.update(value=text, visible=True) for text in examples[:_EXAMPLES]]
        hidden = [gr.update(value="", visible=False) for _ in range(_EXAMPLES - len(shown))]
        return [await self.actions.schema(name, visitor_of(request)), *shown, *hidden]

    async def _upload(self, received: str | None, request: gr.Request) -> Any:
        if received is None:
            return gr.skip()
        path, visitor = Path(received), visitor_of(request)
        taken = await self.actions.upload(path, path.name, visitor)
        if isinstance(taken, str):
            return {self.notice: taken}  # all else on the page stays as it is
        self.actions.begin_turn(visitor)
        choices = [(f"{taken.label} (uploaded)", taken.name), *_choices(self.actions.catalogue)]
        return [gr.update(choices=choices, value=taken.name), "", *_view(AnswerView("", ""))]

    async def _ask(self, name: str, question: str, history: list[AnswerView], request: gr.Request) -> list[Any]:
        view = await self.actions.ask(name, question or "", visitor_of(request))
        self.actions.begin_turn(visitor_of(request))
        if not view.pieces:
            return [*_view(view), history, gr.skip(), gr.skip()]
        history = add_to_history(history, view)
        past = [(f"{old.question}  ·  {old.label}", str(number)) for number, old in enumerate(history)]
        return [*_view(view), history, gr.update(visible=True), gr.update(choices=past, value=None)]

    async def _run(self, name: str, sql: str, request: gr.Request) -> AsyncIterator[list[Any]]:
        """Remove the former rows at once, then show the new ones, unless another answer has begun meanwhile.

        Gradio cancels a run only when the other answer is shown.
        """
        visitor = visitor_of(request)
        turn = self.actions.turn_of(visitor)
        yield [*_rows(RowsView()), gr.update(open=False)]
        rows = await self.actions.run(name, sql or "", visitor)
        if self.actions.turn_of(visitor) == turn:
            yield [*_rows(rows), gr.skip()]

    def _pick(self, sql: str, percentages: dict[str, str], request: gr.Request) -> list[Any]:
        self.actions.begin_turn(visitor_of(request))
        return [break_lines(sql), view_percentage(percentages.get(sql, "")), *_rows(RowsView())]

    def _recall(self, number: str, history: list[AnswerView], request: gr.Request) -> list[Any]:
        """Show an answer of the history; nothing stays chosen, so it can be recalled again."""
        view = history[int(number)]
        self.actions.begin_turn(visitor_of(request))
        if self.actions.is_there(view.database, visitor_of(request)):
            return [view.question, view.database, *_view(view), None]
        gone = notice("error", f"{view.label} is no longer here: upload the file again to ask it.")
        return [view.question, gr.skip(), *_view(AnswerView("", "", notice=gone)), None]


def _choices(catalogue: Catalogue) -> list[tuple[str, str]]:
    return [
        (f"{entry.label} (sample)" if entry.is_sample else entry.label, name)
        for name, entry in catalogue.entries.items()
    ]


def _view(view: AnswerView) -> Sequence[Any]:
    """The notice, the answer and an empty place for rows."""
    queries = [query for _, query in view.alternatives] if view.sql else []
    return [
        view.notice,
        gr.update(visible=bool(view.pieces)),
        list(view.pieces),
        view.links,
        gr.update(value=view.sql, visible=True),
        view_percentage(view.percentages.get(queries[0], "") if queries else ""),
        dict(view.percentages),
        gr.update(visible=len(view.alternatives) > 1, open=view.opens_alternatives),
        gr.update(choices=list(view.alternatives), value=queries[0] if queries else None),
        *_rows(RowsView()),
    ]


def _rows(view: RowsView) -> list[Any]:
    has_rows = bool(view.columns)
    value = {"headers": list(view.columns), "data": [list(row) for row in view.rows]} if has_rows else None
    return [
        view.notice,
        gr.update(value=value, visible=has_rows, datatype=list(view.kinds) or "str"),
        view.chart,
    ]
