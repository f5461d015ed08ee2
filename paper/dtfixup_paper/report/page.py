"""Everything that was measured, on one page: the paper's tables and figures beside ours, and what else there is.

In: a folder of result files; for the text of errors also the dataset and the runs' beams. Out: `index.html`, which
needs nothing else, `report.md`, and the pictures as SVG files. A number on the page is computed from the files, or
printed in the paper.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dtfixup.files import write_atomically
from dtfixup.provenance import commit
from dtfixup.sql.database.dataset import Dataset
from dtfixup_paper.report.cells import progress, results_of
from dtfixup_paper.report.document import (
    Block,
    Command,
    Entry,
    Kind,
    Picture,
    Prose,
    Report,
    Section,
    Table,
    labels,
)
from dtfixup_paper.report.errors import error_blocks
from dtfixup_paper.report.experiments import experiment_section
from dtfixup_paper.report.html import html_of
from dtfixup_paper.report.markdown import FIGURES, markdown_of
from dtfixup_paper.report.measured import cost_section, parser_section, speed_section, stability_section
from dtfixup_paper.tables.cells import Budget, Cell, Experiment
from dtfixup_paper.tables.result_files import Results, read_results
from dtfixup_paper.tables.spider import is_usual
from dtfixup_paper.tables.spider_depth import error_cells
from dtfixup_paper.tables.spider_errors import NAME as ERRORS
from dtfixup_paper.tables.tuning import plan_of, told

_TITLE = "DT-Fixup: the paper's tables and figures, reproduced"
_ORDER = (
    "spider-main",
    "spider-hardness",
    "reclor-main",
    "spider-depth",
    "reclor-depth",
    "spider-curves",
    "spider-batch",
    "spider-errors",
    "init-peers",
    "mu-choice",
    "limits",
    "spider-tune",
    "reclor-tune",
)
"""The paper's, as it has them, then ours."""
_LEAD = """\
*Optimizing Deeper Transformers on Small Datasets* (ACL 2021) puts new transformer layers on a pre-trained encoder and
trains them without layer normalisation and warm-up. Here its tables and figures stand beside our runs of the same
experiments. Numbers in grey are the paper's, as printed. """
_LEADS = {
    Budget.SMOKE: "**Ours are of runs that only show that everything runs: no number of ours means anything.**",
    Budget.GPU: "The paper's encoder is RoBERTa-large (355M parameters); **ours is a small one that pip brings "
    "(MiniLM, 22.7M), trained for fewer epochs**, so what can be compared is which strategy trains at which depth and "
    "by how much it wins, and not the level.",
    Budget.PAPER: "Ours are trained as the paper says, with its encoder and all its epochs.",
}


def build_report(
    results: str | Path,
    out: str | Path,
    *,
    dataset: Dataset | None = None,
    beams: str | Path | None = None,
    agreement: str | Path | None = None,
    budget: Budget = Budget.GPU,
    encoder: str | None = None,
    experiments: Mapping[str, Experiment] | None = None,
) -> tuple[Path, Path]:
    """Write the page and the Markdown file, and return where they are.

    Args:
        results: folder of result files.
        out: folder to write to.
        dataset: Spider, to show the text of errors; such a page is not to be published.
        beams: folder in which the runs' `beams.jsonl` are looked for, at any depth; needed for the text of errors.
        agreement: Markdown file that says where our results agree with the paper; left out if there is none.
        budget: whose runs are shown.
        encoder: of the runs, if it is not the budget's own.
        experiments: those of `reproduce.py` by default.
    """
    report = assemble(
        read_results(results),
        _registered() if experiments is None else experiments,
        budget,
        encoder=encoder,
        dataset=dataset,
        beams=None if beams is None else Path(beams),
        agreement=None if agreement is None else Path(agreement),
    )
    out = Path(out)
    page, text = html_of(report), markdown_of(report)
    for picture in (block for section in report.sections for block in section.blocks if isinstance(block, Picture)):
        _write(out / FIGURES / f"{picture.name}.svg", picture.svg + "\n")
    return _write(out / "index.html", page), _write(out / "report.md", text)


def assemble(
    results: Results,
    experiments: Mapping[str, Experiment],
    budget: Budget,
    *,
    encoder: str | None = None,
    dataset: Dataset | None = None,
    beams: Path | None = None,
    agreement: Path | None = None,
) -> Report:
    """All sections."""
    encoder = None if is_usual(encoder, budget) else encoder
    plan = plan_of(budget, [file.content for file in results.files], encoder)
    found = {
        name: results_of([_on(encoder, cell) for cell in experiments[name].cells(plan)], results)
        for name in sorted(experiments, key=_place)
    }
    sections = []
    if agreement is not None and agreement.exists():
        sections.append(_agreement(agreement))
    models = results_of([_on(encoder, cell) for cell in error_cells(plan)], results)
    blocks, count = error_blocks(results, models, budget, dataset, beams)
    for name in found:
        section = experiment_section(experiments[name], found[name], budget, encoder)
        sections.append(_with_errors(section, blocks, count, len(models)) if name == ERRORS else section)
    if ERRORS not in experiments:
        sections.append(Section(ERRORS, "What is wrong with wrong queries", "Table 7, Figures 3 and 4", tuple(blocks)))
    sections += [parser_section(results), stability_section(results), speed_section(results)]
    sections += [*_tried_section(results), cost_section(found)]
    there, planned = progress(each for cells in found.values() for each in cells)
    origin = f"Made by dtfixup report from {len(results.files)} result files; code {commit()}."
    lead = _LEADS[budget] if encoder is None or budget is Budget.SMOKE else _other_lead(encoder, budget)
    lead = " ".join(filter(None, (_LEAD.strip(), lead, told(plan, encoder))))
    return Report(_TITLE, lead, there, planned, tuple(sections), origin)


def _other_lead(encoder: str, budget: Budget) -> str:
    return (
        f"The paper's encoder is RoBERTa-large (355M parameters); **ours is {Path(encoder).name}, trained with the "
        f"budget {budget}**."
    )


def _on(encoder: str | None, cell: Cell) -> Cell:
    return cell if encoder is None else replace(cell, config=replace(cell.config, encoder=encoder))


def _place(name: str) -> int:
    """Where an experiment stands on the page; those that it does not know come after the others, as they come."""
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _registered() -> Mapping[str, Experiment]:
    from dtfixup_paper.reproduce import EXPERIMENTS

    return EXPERIMENTS


def _agreement(file: Path) -> Section:
    """What a person wrote; its first heading would repeat the section's, the others are below that, and comments say to
    tests where numbers are from."""
    text = re.sub("<!--.*?-->", "", file.read_text(encoding="utf-8"), flags=re.DOTALL).strip()
    first, _, rest = text.partition("\n")
    body = re.sub("^#", "##", rest, flags=re.MULTILINE) if first.startswith("# ") else text
    return Section("agreement", "Where we agree with the paper, and where not", "ours", (Prose(body.strip()),))


def _with_errors(section: Section, blocks: list[Block], count: int, models: int) -> Section:
    """The errors in place of the table of the runs they were found in; notes and command stay. Counted is what was
    analysed."""
    kept = [block for block in section.blocks if not isinstance(block, Table | Picture)]
    return Section(section.name, section.title, section.reference, (*blocks, *kept), count, models)


def _tried_section(results: Results) -> list[Section]:
    """What was tried on held-out databases before the experiments: one run each, by hand."""
    rows, files = [], results.called("sql/held-out")
    for file in files:
        for run in file.content.get("runs", []):
            value = run.get("held_out_exact")
            entry = Entry(f"{value:.1f}" if isinstance(value, int | float) else "", Kind.OURS)
            rows.append((*labels([str(run.get("change", "")), str(run.get("epochs", ""))]), entry))
    if not rows:
        return []
    caption = (
        "Exact match on 20 training databases that were held out, one run each, so about a point either way is chance. "
        f"Files: {', '.join(file.name for file in files)}."
    )
    table = Table(("change", "epochs", "exact match, %"), tuple(rows), caption)
    commands = [Command(str(file.content.get("command", ""))) for file in files]
    return [Section("tried", "What was tried on held-out databases", "ours", (table, *commands))]


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
