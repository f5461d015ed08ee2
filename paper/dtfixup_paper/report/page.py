"""Everything that was measured, on one page: the paper's tables and figures beside ours, and our own measurements.

In: a folder of result files; for the text of errors also the dataset and the runs' beams. Out: `report.md` with its
figures as SVG files, and `index.html`, made from it, which needs no other file. Every number on the page is computed
from the files or printed in the paper.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib as mpl

from dtfixup.files import write_atomically
from dtfixup.provenance import commit
from dtfixup.sql.database.dataset import Dataset
from dtfixup_paper.report.cells import progress, results_of
from dtfixup_paper.report.errors import EXAMPLES, analysed, error_blocks, examples_page
from dtfixup_paper.report.experiments import experiment_section
from dtfixup_paper.report.figures import STYLE, write_svg
from dtfixup_paper.report.html import html_of
from dtfixup_paper.report.markdown import FIGURES, Picture, Section, escape
from dtfixup_paper.report.measured import cost_section, parser_section, speed_section, stability_section, tried_section
from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.tables.cells import Budget, Experiment, Setup
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.settings import Settings, published_settings
from dtfixup_paper.tables.spider_tables import ERRORS

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
"""The paper's, in its order, then ours; others come last."""
_LEAD = """\
*Optimizing Deeper Transformers on Small Datasets* (ACL 2021) puts new transformer layers on a pre-trained encoder and
trains them without layer normalisation and warm-up. This page has its tables and figures beside our runs of the same
experiments. Bold numbers are ours; the others are the paper's, as printed."""
_LEADS = {
    Budget.SMOKE: "**Our runs only show that everything runs: no number of ours means anything.**",
    Budget.GPU: "The paper's encoder is RoBERTa-large (355M parameters); **ours is a small one that pip brings "
    "(MiniLM, 22.7M), trained for fewer epochs**. So compare which strategy trains at which depth and by how much it "
    "wins, and not the level.",
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
    settings: Settings | None = None,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
) -> tuple[Path, Path]:
    """Write the page and the Markdown file, and return their paths.

    Args:
        results: folder of result files.
        out: folder to write to.
        dataset: Spider, for a second page with the text of errors, which is not to be published.
        beams: folder in which the runs' `beams.jsonl` are looked for, at any depth; needed for the text of errors.
        agreement: Markdown file that says where our results agree with the paper; left out by default.
        budget: whose runs are shown.
        encoder: of the runs, if it is not the budget's own.
        settings: that the runs were trained with; those of the published tables by default.
        experiments: those of `reproduce.py` by default.
    """
    out, files = Path(out), read_results(results)
    encoder = None if Setup(budget, encoder).has_usual_encoder else encoder
    setup = Setup(budget, encoder, settings or published_settings())
    shown = {ERRORS.name: ERRORS, **experiments}
    cells = {name: results_of(shown[name].cells(setup), files) for name in sorted(shown, key=_position)}
    own = {name: cells[name] for name in cells if name in experiments}
    errors, models = analysed(files), cells[ERRORS.name]
    sections = [] if agreement is None else [_agreement(Path(agreement))]
    with mpl.rc_context(STYLE):
        for name, results_of_cells in cells.items():
            if name == ERRORS.name:
                blocks, there = error_blocks(errors, models, budget, has_examples=dataset is not None)
                section = experiment_section(shown[name], models, budget, encoder, blocks)
                sections.append(replace(section, there=there, planned=len(models)))
            else:
                sections.append(experiment_section(shown[name], results_of_cells, budget, encoder))
        for picture in (block for section in sections for block in section.blocks if isinstance(block, Picture)):
            write_svg(picture.figure, out / FIGURES / f"{picture.name}.svg")
    sections += [parser_section(files), stability_section(files), speed_section(files)]
    sections += [*tried_section(files), cost_section(own)]
    there, planned = progress(result for results_of_cells in own.values() for result in results_of_cells)
    parts = [
        f"# {escape(_TITLE)}",
        " ".join(filter(None, (_LEAD, _lead(budget, encoder), setup.settings_note))),
        f"{there} of {planned} runs are there.",
        "\n".join(section.link for section in sections),
        *map(str, sections),
        escape(f"Made by dtfixup report from {len(files.files)} result files; code {commit()}."),
    ]
    if dataset is not None:
        _write(out, EXAMPLES, "Errors", examples_page(errors, models, dataset, None if beams is None else Path(beams)))
    return _write(out, "index", _TITLE, "\n\n".join(parts) + "\n", markdown="report")


def _position(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _lead(budget: Budget, encoder: str | None) -> str:
    """What the reader must know of our runs before any number."""
    if encoder is None or budget is Budget.SMOKE:
        return _LEADS[budget]
    return (
        f"The paper's encoder is RoBERTa-large (355M parameters); **ours is {escape(Path(encoder).name)}, trained with "
        f"the budget {budget}**."
    )


def _agreement(file: Path) -> Section:
    """What a person wrote, without its title and its comments, its headings one level lower."""
    text = re.sub("<!--.*?-->", "", file.read_text(encoding="utf-8"), flags=re.DOTALL).strip()
    text = re.sub("^#", "##", re.sub("^# .*", "", text), flags=re.MULTILINE)
    return Section("agreement", "Where we agree with the paper, and where not", "ours", (text.strip(),))


def _write(out: Path, name: str, title: str, text: str, markdown: str = "") -> tuple[Path, Path]:
    """Write a page as HTML and as Markdown."""
    page, file = out / f"{name}.html", out / f"{markdown or name}.md"
    for path, content in ((page, html_of(title, text, out)), (file, text)):
        write_atomically(path, partial(Path.write_text, data=content, encoding="utf-8"))
    return page, file
