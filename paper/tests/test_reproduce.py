"""The plan: which runs the experiments become, under which paths, and what trains them."""

import pickle
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from dtfixup_paper.reproduce import EXPERIMENTS, Sources, needs, plan, write_tuned
from dtfixup_paper.runs.run import SETTLED, Content, Run, State, differences, read_run
from dtfixup_paper.runs.sweep import Outcome
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.settings import read_settings, settings_at
from dtfixup_paper.tables.smoke import small_reclor

from dtfixup.errors import ConfigError
from dtfixup.training.config import to_json
from tests.sql.tiny_model import prepared_sample

RESULTS = Path(__file__).parents[2] / "results"
GPU = Setup(Budget.GPU)
NAMES = {
    "spider-main", "spider-hardness", "reclor-main", "spider-depth", "reclor-depth", "spider-curves", "spider-batch",
    "spider-errors", "init-peers", "mu-choice", "limits", "spider-tune", "reclor-tune",
}  # fmt: skip


def test_every_published_run_is_found_by_its_path() -> None:
    runs = plan(["all"], GPU)
    contents = {run.path: read_run(run, RESULTS) for run in runs}
    assert len(runs) == 234
    assert {state for state, _ in contents.values()} <= SETTLED
    assert [differences(run.config, read_run(run, RESULTS)[1] or {}) for run in runs] == [[]] * len(runs)


@pytest.mark.parametrize("budget", Budget)
def test_every_cell_has_a_place_of_its_own_and_every_path_one_configuration(budget: Budget) -> None:
    assert set(EXPERIMENTS) == NAMES
    configs = {}
    for name, experiment in EXPERIMENTS.items():
        cells = experiment.cells(Setup(budget))
        assert len({(cell.row, cell.column) for cell in cells}) == len(cells) > 0, name
        assert len({cell.path for cell in cells}) == len(cells), name
        assert experiment.name == name
        for cell in cells:
            assert cell.seeds >= 1
            assert cell.config == configs.setdefault(cell.path, cell.config), cell.path


@pytest.mark.parametrize("budget", [Budget.GPU, Budget.PAPER])
def test_nothing_is_trained_under_two_paths(budget: Budget) -> None:
    """A smoke run has so few layers that some depths come to the same."""
    for one, other in combinations(plan(["all"], Setup(budget), seeds=1), 2):
        if type(one.config) is type(other.config) and one.config.model == other.config.model:
            assert differences(one.config, {"config": to_json(other.config)}), (one.path, other.path)


def test_a_run_of_several_experiments_is_there_once() -> None:
    depth = {run.name: run for run in plan(["spider-depth"], GPU)}
    for name in ("spider-curves", "spider-errors"):
        assert all(run == depth[run.name] for run in plan([name], GPU))
    both = plan(["spider-errors", "spider-depth"], GPU)
    assert len({run.name for run in both}) == len(both) == len(depth)
    more = Counter(run.path for run in plan(["init-peers", "spider-depth"], GPU))
    assert more["spider-depth/dt-fixup-n24"] == 3, "the larger number of seeds"


def test_first_seeds_come_first() -> None:
    runs = plan(["spider-main", "reclor-main"], GPU, command="made by a test")
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert all(run.config.training.seed == run.seed and run.command == "made by a test" for run in runs)
    assert {run.experiment for run in runs[:9]} == {"spider-depth", "spider-main", "sql", "reclor-main"}
    assert Counter(run.seed for run in plan(["spider-main"], GPU, seeds=2)) == {1: 6, 2: 6}


def test_budgets_and_encoders_have_paths_of_their_own() -> None:
    setups = [Setup(budget, encoder) for budget in Budget for encoder in (None, "folder/other")]
    names = [run.name for setup in setups for run in plan(["spider-depth"], setup, seeds=1)]
    assert len(set(names)) == len(names) == 6 * 12
    (run, *_) = plan(["spider-depth"], Setup(Budget.GPU, "a/minilm-fp16"), seeds=1)
    assert (run.name, run.config.encoder) == ("spider-depth-standard-n2-seed1", "a/minilm-fp16")


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no experiment 'spider'.*spider-depth, spider-main.*or all"):
        plan(["spider-main", "spider"], GPU)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("reclor-main", (False, True)), ("spider-main", (True, False)), ("init-peers", (True, True))],
)
def test_what_data_runs_need(name: str, expected: tuple[bool, bool]) -> None:
    assert needs(plan([name], GPU)) == expected


def test_sources_name_the_data_that_are_missing_and_go_to_other_processes() -> None:
    spider, reclor = plan(["spider-hardness"], GPU)[0], plan(["reclor-main"], GPU)[0]
    sources = Sources(prepared_sample().folder, small_reclor())
    again = pickle.loads(pickle.dumps(sources))
    for run, name in ((spider, "Spider"), (reclor, "ReClor")):
        assert again.data_hash(run) == sources.data_hash(run)
        with pytest.raises(ConfigError, match=f"need {name}"):
            Sources().data_hash(run)
    assert len({sources.data_hash(run) for run in (spider, reclor)}) == 2


def outcome(run: Run, place: int) -> Outcome:
    """In every grid the first is the best, and the others are worse by a tenth of a point."""
    value = 60.0 - place / 10
    metrics = {"held_out_exact": value, "held_out_exact_greedy": value, "held_out_accuracy": value}
    content: Content = {"state": "finished", "metrics": {**metrics, "chance": 25.0, "evaluated_examples": 463}}
    return Outcome(run, State.FINISHED, content)


def test_tuning_writes_what_won(tmp_path: Path) -> None:
    runs = plan(["tune"], GPU)
    outcomes = [outcome(run, place) for place, run in enumerate(runs)]
    text = write_tuned(["tune"], GPU, outcomes, tmp_path)
    settings = read_settings(tmp_path / "settings.yaml")
    won = settings_at(settings.reclor, "dt-fixup", 4)
    assert won != settings_at(GPU.settings.reclor, "dt-fixup", 4)
    assert f"ReClor, DT-Fixup, N = 4: {won}\n" in text
    assert "Spider, standard, N = 16: rate" in text
    assert text.endswith(f"Train the other experiments with these by --settings {tmp_path / 'settings.yaml'}")
    (run,) = [run for run in plan(["reclor-main"], replace(GPU, settings=settings), seeds=1) if "dt-fixup" in run.path]
    assert run.config.model.input_dropout == won.dropout == 0.1


def test_tuning_that_is_not_whole_is_named(tmp_path: Path) -> None:
    outcomes = [outcome(run, place) for place, run in enumerate(plan(["reclor-tune"], GPU))]
    outcomes = [each for each in outcomes if "admin-n24-lr3e-4" not in each.run.path]
    text = write_tuned(["reclor-tune"], GPU, outcomes, tmp_path)
    assert "Runs are missing, so these keep the settings from before: Admin (ReClor)." in text
    assert read_settings(tmp_path / "settings.yaml").spider == GPU.settings.spider
    assert write_tuned(["tune"], GPU, [], tmp_path).startswith("No tuning is whole, so nothing has won.")


@pytest.mark.parametrize(("names", "budget"), [(["reclor-main"], Budget.GPU), (["tune"], Budget.PAPER)])
def test_where_nothing_is_chosen_nothing_is_written(names: list[str], budget: Budget, tmp_path: Path) -> None:
    assert write_tuned(names, Setup(budget), [], tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
