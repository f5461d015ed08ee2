"""What tuning chose in a folder of results, and that everything else is trained with it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper import cli_reproduce, reproduce
from dtfixup_paper.reproduce import EXPERIMENTS, Sources, train_in_parts
from dtfixup_paper.runs import sweep as sweep_module
from dtfixup_paper.runs.run_identity import SETTLED, Content, Settled, State
from dtfixup_paper.runs.sweep import Outcome, Run, read_results
from dtfixup_paper.tables import spider_tune
from dtfixup_paper.tables.cells import Budget, Plan, RunConfig, Tried, metric_of
from dtfixup_paper.tables.reclor_cells import tried as tried_on_reclor
from dtfixup_paper.tables.settings import RECLOR, SPIDER
from dtfixup_paper.tables.smoke import small_encoder, small_reclor, small_spider
from dtfixup_paper.tables.tuning import plan_of, told, winners

from dtfixup.cli.main import main
from dtfixup.errors import ConfigError
from dtfixup.files import write_json
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.training.config import to_json

RESULTS = Path(__file__).parents[3] / "results"
TUNED = {
    "spider-tune": {"dt-fixup": {24}, "standard": {8, 16, 24}, "pre-ln": {24}, "admin": {24}, "deepnorm": {24}},
    "reclor-tune": {
        "dt-fixup": {0, 4, 16}, "standard": {4, 8, 16, 24}, "pre-ln": {16}, "admin": {24}, "deepnorm": {24},
    },
}  # fmt: skip
"""Strategies and depths; without new layers a configuration still has a strategy."""


def result(config: RunConfig, value: float | None, *, seed: int = 1, **metrics: Any) -> dict[str, Any]:
    """What a file of a tuning run has; None where it diverged."""
    measured: dict[str, Any] = {metric_of(config): value, "held_out_exact_greedy": value}
    if isinstance(config, ReadingRunConfig):
        measured = {metric_of(config): value, "chance": 25.0, "evaluated_examples": 463}
    return {
        "seed": seed,
        "config": to_json(config),
        "metrics": {} if value is None else {**measured, **metrics},
        "state": "diverged" if value is None else "finished",
    }


def grid_of(
    strategy: str, tried: Callable[[Budget], list[Any]] = spider_tune.tried, budget: Budget = Budget.GPU
) -> list[Tried[Any]]:
    return [each for each in tried(budget) if each.strategy == strategy]


def test_what_is_shipped_won_our_own_tuning() -> None:
    contents = read_results(RESULTS)
    settled, plan = Settled(contents), plan_of(Budget.GPU, contents)
    assert told(plan) == ""
    for name, tuned in TUNED.items():
        cells = EXPERIMENTS[name].cells(Plan(Budget.GPU))
        found = {(cell.config.model.strategy, cell.config.model.layers) for cell in cells}
        assert found == {(strategy, layers) for strategy, depths in tuned.items() for layers in depths}
        missing = [cell.variant for cell in cells if not settled.find(cell.config, 1, metric=metric_of(cell.config))]
        assert not missing
    for won, shipped in ((plan.spider, SPIDER), (plan.reclor, RECLOR)):
        assert set(won.here) == set(shipped.tables)
        for name in won.here:
            for layers, settings in won.tables[name].items():
                assert shipped.of(name, layers) == settings, (name, layers)


def test_a_whole_grid_decides_and_a_part_of_one_does_not() -> None:
    grid = grid_of("pre-ln")
    contents = [result(each.config, 40.0 + place) for place, each in enumerate(grid)]
    assert plan_of(Budget.GPU, contents[:-1]) == Plan(Budget.GPU)
    plan = plan_of(Budget.GPU, contents)
    assert plan.spider.here == ("pre-ln",)
    assert plan.spider.of("pre-ln", 8) == plan.spider.of("pre-ln", 32) == grid[-1].settings
    assert plan.spider.of("dt-fixup", 24) == SPIDER.of("dt-fixup", 24)
    assert plan_of(Budget.SMOKE, contents) == Plan(Budget.SMOKE)
    failed = [*contents[:-1], {**contents[-1], "state": "failed"}]
    assert plan_of(Budget.GPU, failed) == Plan(Budget.GPU), "it will be trained again"


def test_a_strategy_is_tuned_when_all_its_depths_are() -> None:
    grid = grid_of("standard")
    shallow = [result(each.config, 50.0) for each in grid if each.layers == 8]
    assert plan_of(Budget.GPU, shallow).spider.here == ()
    deep = [result(each.config, 30.0 + place) for place, each in enumerate(grid) if each.layers > 8]
    plan = plan_of(Budget.GPU, shallow + deep)
    last = {each.layers: each.settings for each in grid}
    assert plan.spider.tables["standard"] == {8: grid[0].settings, 16: last[16], 24: last[24]}, "of equals the first"


def test_runs_that_broke_or_learnt_nothing_do_not_win() -> None:
    grid = grid_of("pre-ln")
    values = [None, *(50.0 for _ in grid[1:])]
    contents = [result(each.config, value) for each, value in zip(grid, values, strict=True)]
    assert plan_of(Budget.GPU, contents).spider.of("pre-ln", 24) == grid[1].settings
    greedy = [replace_metric(each, "held_out_exact_greedy", 51.0) if each is contents[2] else each for each in contents]
    assert plan_of(Budget.GPU, greedy).spider.of("pre-ln", 24) == grid[2].settings, "of equals the best without a beam"
    broken = plan_of(Budget.GPU, [result(each.config, None) for each in grid])
    assert (broken.spider.here, broken.spider.unlearnt, broken.spider.tables) == ((), (("pre-ln", 24),), SPIDER.tables)
    read = grid_of("pre-ln", tried_on_reclor)
    silent = [result(each.config, 39.0, held_out_loss=1.3863) for each in read[:1]]
    others = [result(each.config, 35.0 + place, held_out_loss=2.0) for place, each in enumerate(read[1:])]
    assert plan_of(Budget.GPU, silent + others).reclor.of("pre-ln", 16) == read[-1].settings
    at_chance = [result(each.config, 26.0, held_out_loss=1.4) for each in read]
    assert plan_of(Budget.GPU, at_chance).reclor.unlearnt == (("pre-ln", 16),)


def test_a_depth_at_which_nothing_learnt_has_what_won_below_it() -> None:
    grid = grid_of("standard", tried_on_reclor)
    values = [26.0 if each.layers == 24 else 40.0 - place / 10 for place, each in enumerate(grid)]
    plan = plan_of(Budget.GPU, [result(each.config, value) for each, value in zip(grid, values, strict=True)])
    assert set(plan.reclor.tables["standard"]) == {4, 8, 16}
    assert plan.reclor.of("standard", 24) == next(each.settings for each in grid if each.layers == 16)
    said = "No run of the tuning learnt anything: standard, N = 24 (ReClor); what won at the depth below holds there"
    assert said in told(plan), "with MiniLM too"


def test_of_equals_the_lowest_rate_wins() -> None:
    grid = grid_of("pre-ln", tried_on_reclor)
    rates = [each.settings.learning_rate for each in grid]
    (high, low), values = (rates.index(6e-4), len(rates) - 1), [35.0 for _ in grid]
    assert rates[low] < rates[high]
    values[high] = values[low] = 36.0
    plan = plan_of(Budget.GPU, [result(each.config, value) for each, value in zip(grid, values, strict=True)])
    assert plan.reclor.of("pre-ln", 16) == grid[low].settings


@pytest.mark.parametrize(
    ("tried", "metric"),
    [
        (tried_on_reclor, "chance"),
        (tried_on_reclor, "evaluated_examples"),
        (spider_tune.tried, "held_out_exact_greedy"),
    ],
)
def test_a_file_that_lacks_a_metric_counts_as_none(tried: Callable[[Budget], list[Any]], metric: str) -> None:
    contents = [result(each.config, 40.0) for each in grid_of("pre-ln", tried)]
    assert plan_of(Budget.GPU, contents) != Plan(Budget.GPU)
    del contents[1]["metrics"][metric]
    assert plan_of(Budget.GPU, contents) == Plan(Budget.GPU)


def test_runs_on_other_data_are_not_mixed() -> None:
    grid = grid_of("admin")
    first = [result(each.config, 50.0 - place) | {"data_hash": "b"} for place, each in enumerate(grid)]
    second = [result(each.config, 50.0 + place, seed=2) | {"data_hash": "a"} for place, each in enumerate(grid)]
    assert plan_of(Budget.GPU, first + second).spider.of("admin", 24) == grid[0].settings
    assert plan_of(Budget.GPU, [{**first[0], "data_hash": "a"}, *first[1:]]) == Plan(Budget.GPU)


def replace_metric(content: Content, name: str, value: float) -> dict[str, Any]:
    return {**content, "metrics": {**content["metrics"], name: value}}


def test_more_seeds_count_where_all_have_them() -> None:
    grid = grid_of("admin")
    first = [
        result(each.config, value) for each, value in zip(grid, (60.0, 59.0, *(10.0 for _ in grid[2:])), strict=True)
    ]
    second = [
        result(each.config, value, seed=2)
        for each, value in zip(grid, (50.0, 58.0, *(90.0 for _ in grid[2:])), strict=True)
    ]
    assert plan_of(Budget.GPU, first + second[:-1]).spider.of("admin", 24) == grid[0].settings
    assert plan_of(Budget.GPU, first + second).spider.of("admin", 24) == grid[1].settings, "58.5; the others 55 and 50"


def test_an_encoder_has_its_own_tuning() -> None:
    grid = grid_of("dt-fixup")
    contents = [result(replace(each.config, encoder="mpnet"), 40.0 - place) for place, each in enumerate(grid)]
    assert plan_of(Budget.GPU, contents) == Plan(Budget.GPU), "MiniLM has none there"
    plan = plan_of(Budget.GPU, contents, "folder/mpnet")
    assert plan.spider.of("t-fixup", 24) == plan.spider.of("dt-fixup", 8) == grid[0].settings
    (cell, *_) = EXPERIMENTS["mu-choice"].cells(plan)
    assert cell.config.training.update.learning_rate == grid[0].settings.learning_rate
    marked = [cell.variant for cell in EXPERIMENTS["spider-tune"].cells(plan) if cell.is_chosen]
    assert [name for name in marked if name.startswith("dt-fixup")] == ["dt-fixup-n24-lr0.0004-drop0.3-smooth0.1"]


def test_whose_settings_runs_have_is_told() -> None:
    contents = [result(replace(each.config, encoder="mpnet"), 40.0) for each in grid_of("dt-fixup")]
    assert told(plan_of(Budget.GPU, contents, "x/mpnet"), "x/mpnet") == (
        "Settings that won the tuning beside these results: DT-Fixup (Spider). The other settings were chosen with "
        "MiniLM. dtfixup reproduce tune finds those of mpnet."
    )
    assert told(Plan(Budget.GPU), "mpnet") == (
        "The settings were chosen with MiniLM. dtfixup reproduce tune finds those of mpnet."
    )
    assert (
        told(Plan(Budget.PAPER), "mpnet") == "The settings are the paper's, which has another encoder, and not tuned."
    )
    assert [told(Plan(budget)) for budget in Budget] == ["", "", ""]
    own = plan_of(Budget.GPU, [result(each.config, 40.0) for each in grid_of("dt-fixup")])
    assert told(own) == "Settings that won the tuning beside these results: DT-Fixup (Spider).", "not the shipped ones"
    assert winners(own, ["reclor-tune"]) == []
    (line,) = winners(own, ["spider-tune", "reclor-tune"])
    assert line.startswith("Spider, DT-Fixup, N = 24: rate 0.0004, encoder 8e-05, dropout 0.3, smoothing 0")


def test_what_learnt_nothing_is_told_and_not_asked_for_again() -> None:
    tried = [*spider_tune.tried(Budget.GPU), *tried_on_reclor(Budget.GPU)]
    contents = [
        result(replace(each.config, encoder="mpnet"), None if each.strategy == "admin" else 40.0) for each in tried
    ]
    said = told(plan_of(Budget.GPU, contents, "mpnet"), "mpnet")
    assert "learnt anything: Admin, N = 24 (Spider); Admin, N = 24 (ReClor); what won" in said
    assert said.endswith("The other settings were chosen with MiniLM."), "tuning has nothing to find"


def test_the_papers_budget_has_the_papers_settings_whatever_was_tuned() -> None:
    contents = [result(each.config, 40.0) for each in grid_of("standard", budget=Budget.PAPER)]
    assert plan_of(Budget.PAPER, contents) == Plan(Budget.PAPER)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(small_prepared(tmp_path), small_reclor(), str(small_encoder()))


def small_prepared(folder: Path) -> Path:
    from dtfixup.sql.preparation.prepare import prepare

    out = folder / "prepared"
    prepare(small_spider(), out, encoder=str(small_encoder()), splits=("train", "dev"), workers=1, show_progress=False)
    return open_prepared(out).folder


class Pretender:
    """In place of training: in every grid the first is the best, and the others are worse by a tenth of a point."""

    def __init__(self, out: Path, states: Mapping[str, State] | None = None, *, began: float = 0.0) -> None:
        self.out, self.states, self.began = out, states or {}, began
        self.trained: list[set[str]] = []
        self.seconds: list[float | None] = []
        self.before: list[int] = []

    def __call__(self, runs: list[Run], seconds: float | None, before: Sequence[Outcome] = ()) -> list[Outcome]:
        self.out.mkdir(exist_ok=True)
        outcomes = []
        for place, run in enumerate(runs):
            state = next((state for part, state in self.states.items() if part in run.name), State.FINISHED)
            content = result(run.config, 60.0 - place / 10, seed=run.seed, held_out_loss=2.0)
            if state in SETTLED:
                (self.out / f"{run.name}.json").write_text(json.dumps(content))
            outcomes.append(Outcome(run, state, began=self.began))
        self.trained.append({run.experiment.removesuffix("-random-bert") for run in runs})
        self.seconds.append(seconds)
        self.before.append(len(before))
        return outcomes


def test_what_is_tuned_first_is_what_the_others_are_trained_with(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train = Pretender(out)
    outcomes = train_in_parts(["reclor-main", "tune"], Budget.GPU, sources, out, train, seeds=1)
    assert train.trained == [{"spider-tune", "reclor-tune"}, {"reclor-main"}]
    plan = plan_of(Budget.GPU, read_results(out), sources.encoder)
    won = plan.reclor.of("dt-fixup", 4)
    assert won == grid_of("dt-fixup", tried_on_reclor)[0].settings != RECLOR.of("dt-fixup", 4)
    assert outcomes[-1].run.config.model.input_dropout == won.dropout == 0.1
    said = capsys.readouterr().out
    assert f"ReClor, DT-Fixup, N = 4: {won}\n" in said
    assert "Spider, standard, N = 16: rate" in said
    assert "Settings that won the tuning beside these results: DT-Fixup, standard" in said
    assert train.before == [0, len(outcomes) - 3], "the second part knows how long runs take"


def test_others_wait_for_tuning_of_their_task_that_has_no_result(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Pretender(tmp_path / "out", {"deepnorm": State.FAILED, "admin-n24-lr3e-4": State.LEFT})
    names = ["reclor-main", "spider-batch", "init-peers", "reclor-tune"]
    outcomes = train_in_parts(names, Budget.GPU, sources, tmp_path / "out", train, seeds=1)
    assert train.trained[0] == {"reclor-tune"}
    assert {type(each.run.config) for each in outcomes[-3:]} == {SqlSpConfig}, "those on Spider do not wait"
    said = " ".join(capsys.readouterr().out.split())
    assert "reclor-main, init-peers: not begun, because runs of the tuning" in said
    assert "(left), reclor-tune-random-bert-deepnorm-n24-lr3e-5-enc3e-5-drop0.4-warm0.02-seed1 (failed)" in said
    assert " and 3 more. The same command tries them again" in said
    train_in_parts(["reclor-main"], Budget.GPU, sources, tmp_path / "out", train, seeds=1)
    assert train.trained[-1] == {"reclor-main"}, "tuning is not asked for, so nothing waits for it"
    assert "The other settings were chosen with MiniLM" in " ".join(capsys.readouterr().out.split())


def test_a_stop_during_tuning_stops_all(sources: Sources, tmp_path: Path) -> None:
    train = Pretender(tmp_path / "out", {"reclor-tune": State.LEFT}, began=1.0)
    outcomes = train_in_parts(["spider-batch", "reclor-tune"], Budget.GPU, sources, tmp_path / "out", train, seeds=1)
    assert all(each.was_stopped for each in outcomes)
    assert train.trained == [{"reclor-tune"}]


@pytest.mark.parametrize("budget", [Budget.SMOKE, Budget.PAPER])
def test_where_tuning_chooses_nothing_there_is_one_part(
    budget: Budget, sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Pretender(tmp_path / "out")
    train_in_parts(["reclor-tune", "reclor-main"], budget, replace(sources, encoder=None), tmp_path, train, seeds=1)
    assert len(train.trained) == 1
    assert "won" not in capsys.readouterr().out


def test_time_is_shared_by_the_parts(sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, train = iter([100.0, 103.0, 140.0]), Pretender(tmp_path)
    monkeypatch.setattr(reproduce.time, "monotonic", lambda: next(clock))
    train_in_parts(["reclor-main", "reclor-tune"], Budget.GPU, sources, tmp_path, train, seeds=1, budget_seconds=30.0)
    assert train.seconds == [27.0, 0.0]


def test_tuning_of_another_encoder_with_the_same_name_is_refused(sources: Sources, tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"name": "x", "seed": 1, "encoder": "random-bert", "encoder_sha256": "other"})
    with pytest.raises(ConfigError, match="another encoder that is called random-bert too"):
        train_in_parts(["reclor-main"], Budget.GPU, sources, tmp_path, Pretender(tmp_path))


def test_the_command_and_all_that_looks_for_its_runs_have_one_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder, out = small_encoder(), tmp_path / "out"
    monkeypatch.setattr(sweep_module, "run_sweep", lambda runs, out, **_: Pretender(out)(runs, None))
    monkeypatch.setattr(cli_reproduce, "POOL", 0)  # nothing is trained, so nothing needs be made up
    given = ["--encoder", str(encoder), "--out", str(out)]
    data = ["--reclor", str(small_reclor()), "--data", str(small_spider())]
    main(["reproduce", "reclor-main", "tune", "spider-errors", *given, *data])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("the run was not trained by a sweep") == 7, "each is looked for, and found"
    main(["reproduce", "list", *given])
    said = capsys.readouterr().out
    for name, runs in (("reclor-main", "15"), ("spider-errors", "7")):
        (row,) = [line for line in said.splitlines() if f"│ {name}" in line]
        assert [part.strip() for part in row.split("│")[3:5]] == [runs, runs], name
    assert "Settings that won the tuning beside these results: DT-Fixup" in " ".join(said.split())
    main(["report", "--results", str(out), "--out", str(tmp_path / "page"), "--encoder", str(encoder)])
    page = (tmp_path / "page" / "report.md").read_text(encoding="utf-8")
    section = page.partition("## ReClor: accuracy with and without new layers")[2].partition("\n## ")[0]
    assert section.count("5 seeds · 12 epochs") == 3
    assert "Settings that won the tuning beside these results" in page.partition("\n## ")[0]


def test_reading_has_the_settings_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = [result(each.config, 60.0 - place / 10) for place, each in enumerate(tried_on_reclor(Budget.GPU))]
    for place, content in enumerate(contents):
        write_json(tmp_path / f"{place}.json", content)
    runs: list[Run] = []
    monkeypatch.setattr(sweep_module, "run_sweep", lambda given, out, **_: runs.extend(given) or [])
    main(["reading", "depth", "--data", str(small_reclor()), "--out", str(tmp_path), "--seeds", "1"])
    grid = {(each.strategy, each.layers): each.settings for each in reversed(tried_on_reclor(Budget.GPU))}
    found = {(run.config.model.strategy, run.config.model.layers): run.config.training for run in runs}
    for place in (("standard", 8), ("standard", 24), ("dt-fixup", 4)):
        assert found[place].update.learning_rate == grid[place].learning_rate, place
    assert "Settings that won the tuning beside these results: no new layers, DT-Fixup" in capsys.readouterr().out
