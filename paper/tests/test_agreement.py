"""Numbers of our pages that a comment after them says the origin of: they are those of the result files.

`71.1 ± 0.5<!-- spider-main minilm -->`: the experiment and the variant of the runs, and a metric if it is not the
experiment's own, or `epochs_to_60`; with `paper` before it, what the paper has there.
"""

import re
from pathlib import Path
from statistics import fmean

import pytest
from dtfixup_paper.report.cells import CellResult, mean_and_deviation, results_of
from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.spider_tables import epochs_to

from dtfixup.files import read_json

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/results/agreement.md", "docs/results/reclor.md", "docs/results/spider.md")
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
CLAIMS = re.findall(r"([\d.]+(?: ± [\d.]+)?)<!-- (paper )?(\S+) (\S+)(?: (\S+))? -->", TEXT)


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str], CellResult]:
    results = read_results(ROOT / "results")
    return {
        (name, each.cell.path.partition("/")[2]): each
        for name, experiment in EXPERIMENTS.items()
        for each in results_of(experiment.cells(Setup(Budget.GPU)), results)
    }


def test_every_comment_is_understood() -> None:
    assert len(CLAIMS) == TEXT.count("<!--") > 10


@pytest.mark.parametrize(("said", "paper", "name", "variant", "metric"), CLAIMS)
def test_a_number_is_that_of_the_results(
    said: str, paper: str, name: str, variant: str, metric: str, cells: dict[tuple[str, str], CellResult]
) -> None:
    found = cells[name, variant]
    if paper:
        assert found.cell.paper.split()[0] == said
        return
    values: list[float] = list(found.values)
    if metric == "epochs_to_60":
        reached = [epochs_to(file.content["curve"]) for file in found.files]
        values = [epochs for epochs in reached if epochs is not None]
        assert len(values) == len(reached), "not all seeds get there"
    elif metric:
        values = [file.metrics[metric] for file in found.files]
    assert said == (mean_and_deviation(values) if "±" in said else f"{fmean(values):.1f}")


@pytest.mark.parametrize(
    ("files", "metric", "said"),
    [
        ("reclor-by-rate/reclor-depth-standard-n8", "val_accuracy", "44.5 ± 1.5 | 44.7 ± 1.3 | 42.6 ± 2.5 |"),
        ("reclor-by-rate/reclor-depth-standard-n16", "val_accuracy", "44.7 ± 1.3 | 42.6 ± 2.5 |"),
        ("reclor-by-rate/reclor-depth-standard-n24", "val_accuracy", "42.6 ± 2.5 |"),
        ("reclor-by-rate/reclor-depth-pre-ln-n16", "val_accuracy", "43.2 ± 2.3 | 43.9 ± 1.6 |"),
        ("reclor-by-rate/reclor-depth-pre-ln-n24", "val_accuracy", "43.9 ± 1.6 |"),
        ("spider-by-rate/init-peers-spider-deepnorm-n24", "dev_exact", "66.8 ± 1.2 with less dropout"),
    ],
)
def test_runs_with_other_settings_are_kept(files: str, metric: str, said: str) -> None:
    values = [read_json(path)["metrics"][metric] for path in sorted((ROOT / "results").glob(f"{files}-seed*.json"))]
    assert said in TEXT
    assert said.startswith(mean_and_deviation(values))
