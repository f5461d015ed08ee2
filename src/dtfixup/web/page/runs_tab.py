"""The page's second tab: training runs from a folder, looked at anew whenever it is opened or something is chosen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from dtfixup.errors import DtFixupError
from dtfixup.web.api.desk import Desk
from dtfixup.web.api.refusals import refusal_of, sentence_of
from dtfixup.web.page.line_chart import draw_lines
from dtfixup.web.page.parts import PRIVATE, notice
from dtfixup.web.page.pictures import escaped, short_number
from dtfixup.web.page.run_lines import Run, Runs, curve_lines, depth_lines, finite
from dtfixup.web.page.runs import RunFolder

_FIRST = 6
_WATCHED = {
    "highest_input_norm_over_mu": "highest input norm / μ",
    "highest_growth": "highest growth",
    "highest_gradient_norm": "highest gradient norm",
    "steps_watched": "steps watched",
    "steps_not_finite": "steps not finite",
    "alerts": "alerts",
}
"""What the monitor of a run saw; docs/explain/method.md says what it means."""
_NONE = "-"
_MOST_ALERTS = 5
_EMPTY = (
    "There are no runs in this folder yet. Looked for are folders that a training run logs to, result files with a "
    "curve, the demo.json of dtfixup demo, and depth checks of dtfixup check --json."
)


def build_runs_tab(desk: Desk, folder: Path, tab: gr.Tab) -> None:
    """Fill the tab. `folder` is the one that the command line named: no request names another."""
    runs = RunFolder(folder)
    gr.HTML(
        '<p class="lead">Curves, depth comparisons and what the monitor of DT-Fixup saw, as the runs log it.</p>',
        padding=False,
    )
    with gr.Row(elem_classes="controls"):
        chosen = gr.Dropdown([], label="Runs", multiselect=True, scale=3, elem_id="runs")
        measure = gr.Dropdown([], label="Measure", scale=1, elem_id="measure", filterable=False)
    problems = gr.HTML(elem_id="run-problems", padding=False)
    curves = gr.HTML(elem_id="curves", padding=False)
    depths = gr.HTML(elem_id="depths", padding=False)
    report = gr.HTML(elem_id="fixup-report", padding=False)
    checks = gr.HTML(elem_id="depth-checks", padding=False)
    drawn = [curves, depths, report]

    has_opened = gr.State(False)

    async def look(names: list[str] | None, title: str | None, was_opened: bool) -> list[Any]:
        try:
            return await desk.do(lambda: _shown(runs.read(), names or (), title, was_opened=was_opened))
        except DtFixupError as error:
            return [gr.skip(), gr.skip(), _refused(error, runs), *[gr.skip()] * (len(drawn) + 2)]

    # One listener for all, so that the drawing of what was chosen last comes last. The cross that takes all runs away
    # is no input to Gradio, but a change.
    gr.on(
        [tab.select, chosen.change, measure.input],
        look,
        [chosen, measure, has_opened],
        [chosen, measure, problems, *drawn, checks, has_opened],
        trigger_mode="always_last",
        **PRIVATE,
    )


def _refused(error: DtFixupError, runs: RunFolder) -> str:
    return notice("error", sentence_of(refusal_of(error, dict([runs.place]))))


def _shown(runs: Runs, names: Sequence[str] = (), measure: str | None = None, *, was_opened: bool = False) -> list[Any]:
    """The chosen runs, or the first ones when the tab is opened, and what could not be read.

    Only what some chosen run has can be chosen to draw. What can stay as it was chosen is not set again: the visitor
    may have chosen something else meanwhile.
    """
    known = [run.name for run in runs.runs if run.name in names]
    if not known and not was_opened:
        first = next(iter(runs.measures()), None)
        known = [run.name for run in runs.runs if first is not None and run.points(first)][:_FIRST]
    chosen: dict[str, Any] = {"choices": [(run.title, run.name) for run in runs.runs]}
    if set(known) != set(names):
        chosen["value"] = known
    measures = runs.measures(known)
    measured: dict[str, Any] = {"choices": measures}
    if measures and measure not in measures:
        measure = measured["value"] = measures[0]
    return [
        gr.update(**chosen),
        gr.update(**measured) if measures else gr.skip(),
        _problems(runs),
        *draw(runs, known, measure),
        _checks(runs),
        bool(runs.runs),
    ]


def _problems(runs: Runs) -> str:
    said = [notice("warn", problem) for problem in runs.problems]
    if not runs.runs and not runs.depth_checks:
        said.append(notice("warn", _EMPTY))
    return "".join(said)


def draw(runs: Runs, names: Sequence[str] | None, measure: str | None) -> list[str]:
    """Curves, depth comparison and report of the chosen runs."""
    chosen = [run for run in runs.runs if run.name in (names or ())]
    if not chosen or measure is None:
        return ["", "", ""]
    curves = draw_lines(curve_lines(chosen, measure), across="epoch", up=measure)
    lines = depth_lines(chosen, measure)
    depths = ""
    if len({depth for line in lines for depth, _ in line.points}) > 1:
        picture = draw_lines(lines, across="new layers", up=f"last {measure}", is_doubling=True)
        depths = f"<h3>Depth comparison</h3>{picture}"
    return [f"<h3>{escaped(measure.capitalize())}</h3>{curves}", depths, _report(chosen)]


def _report(runs: Sequence[Run]) -> str:
    """What the monitor saw, run by run, and its alerts."""
    watched = [run for run in runs if any(name in run.metrics for name in _WATCHED) or run.alerts]
    if not watched:
        return ""
    figures = {name: [_figure(run, name) for run in watched] for name in _WATCHED}
    figures = {name: found for name, found in figures.items() if set(found) != {_NONE}}
    head = "".join(f"<th>{_WATCHED[name]}</th>" for name in figures)
    rows = "".join(
        f"<tr><th>{escaped(run.name)}</th>"
        + "".join(f"<td>{found[place]}</td>" for found in figures.values())
        + "</tr>"
        for place, run in enumerate(watched)
    )
    alerts = "".join(
        f"<li>{escaped(_place(run, alert))}: {escaped(str(alert.get('message', '')))}</li>"
        for run in watched
        for alert in run.alerts[:_MOST_ALERTS]
    )
    told = f'<ul class="alerts">{alerts}</ul>' if alerts else ""
    table = f'<div class="scroll" tabindex="0"><table><tr><th>run</th>{head}</tr>{rows}</table></div>'
    return f"<h3>DT-Fixup report</h3>{table}{told}"


def _place(run: Run, alert: Mapping[str, Any]) -> str:
    """Where an alert came up; the demo does not tell the step."""
    return f"{run.name}, step {alert['step']}" if "step" in alert else run.name


def _figure(run: Run, name: str) -> str:
    if name == "alerts" and name not in run.metrics:
        return short_number(run.alert_count)
    value = finite(run.metrics.get(name))
    return _NONE if value is None else short_number(value)


def _checks(runs: Runs) -> str:
    """Update size against depth: the line of a method that works is flat."""
    parts = []
    for name, stacks in runs.depth_checks.items():
        for stack, lines in stacks.items():
            picture = draw_lines(lines, across="new layers", up="powers of 10", is_doubling=True)
            title = f"{escaped(name)}, {escaped(stack)} layers: the update of one Adam step"
            parts.append(f"<h3>Depth check {title}</h3>{picture}")
    return "".join(parts)
