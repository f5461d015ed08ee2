"""The command line as a person uses it."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from dtfixup_paper.runs import sweep
from dtfixup_paper.runs.sweep import Outcome, Run, State
from matplotlib import image

from dtfixup.cli.main import _spelled_out, main
from dtfixup.cli.options import exit_if_stopped
from dtfixup.demo import side_by_side
from dtfixup.demo.training import DemoConfig
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder


def test_check_prints_writes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers, picture = tmp_path / "depth.json", tmp_path / "depth.png"
    main(["check", "--depths", "2,4", "--json", str(numbers), "--plot", str(picture), "--strategies", "dt-fixup"])
    content = json.loads(numbers.read_text())
    assert {"stack", "strategy", "optimizer", "depth", "grad_norm", "grad_norm_biases", "update"} <= set(
        content["rows"][0]
    )
    assert {"stack", "strategy", "optimizer", "grad_norm", "update"} <= set(content["slopes"][0])
    assert {(row["stack"], row["optimizer"], row["depth"]) for row in content["rows"]} == {
        (stack, optimizer, depth)
        for stack in ("vanilla", "relation")
        for optimizer in ("sgd", "adam")
        for depth in (2, 4)
    }
    assert {"command", "commit", "hardware", "wall_seconds"} <= set(content)
    assert image.imread(picture).shape[0] > 300
    assert "dt-fixup" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--depths", "2,x"], "expected numbers separated by commas"),
        (["check", "--depths", "0"], "at least 1"),
        (["check", "--strategies", "magic"], "there is no strategy 'magic'"),
        (["check", "--encoder", "no-such-encoder"], "hf download no-such-encoder"),
        (["check", "--encoder", "[/x]"], "the encoder '[/x]' is not on this machine"),
        (["demo", "--steps", "0"], "steps and layers are 1 or more each; got 0 and 24"),
        (["report", "--agreement", "no.md"], "no.md is not there: give --agreement another path, or leave it out"),
        (["report", "--beams", "no/runs"], "no/runs is not there: give --beams another path"),
    ],
)
def test_bad_input_says_what_to_do_and_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"dtfixup {version('dtfixup')}\n"


def test_an_unknown_option_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["check", "--deptsh", "2"])
    assert stop.value.code == 2
    assert "deptsh" in capsys.readouterr().err


def test_help_tells_every_option() -> None:
    text = subprocess.run(
        [sys.executable, "-c", "from dtfixup.cli.main import main; main()", "check", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(option in text for option in ("--depths", "--strategies", "--encoder", "--json", "--plot"))


def test_demo_asks_for_what_the_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(side_by_side, "show_demo", lambda config, out: asked.extend((config, out)))
    main(["demo", "--out", str(tmp_path), "--steps", "22", "--layers", "3", "--seed", "5"])
    assert asked == [DemoConfig(seed=5, steps=22, tune_steps=6, layers=3), tmp_path]


def sample_database(name: str) -> str:
    return str(open_dataset(sample_folder()).database_file(name))


def test_link_shows_what_the_words_mean(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sql", "link", "How many piers are in Vienna?", "--database", sample_database("river_ferry")])
    shown = capsys.readouterr().out
    assert "How many piers are in Vienna?" in shown
    assert "pier.city = 'Vienna'" in shown


def test_link_takes_a_bundled_database_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sql", "link", "How many piers are in Vienna?", "--database", "sample:river_ferry"])
    assert "pier.city = 'Vienna'" in capsys.readouterr().out


@pytest.mark.parametrize("flag", [["--json"], ["--json", "true"]])
def test_link_gives_json(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    database = sample_database("river_ferry")
    main(["sql", "link", *flag, "--question", "How many piers are in Vienna?", "--database", database])
    content = json.loads(capsys.readouterr().out)
    assert content["question"] == "How many piers are in Vienna?"
    assert any(link["value"] == "Vienna" for link in content["values"])


def test_evaluate_reads_predictions_and_writes_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = open_dataset(sample_folder()).split("dev")
    predictions, summary = tmp_path / "predictions.txt", tmp_path / "summary.json"
    queries = [example.query for example in examples]
    queries[0] = "SELECT nonsense"
    predictions.write_text("\n".join(queries))
    main(["sql", "evaluate", "--data", str(sample_folder()), "--predictions", str(predictions), "--json", str(summary)])
    content = json.loads(summary.read_text())
    assert content["exact"]["all"]["exact"] == len(examples) - 1
    assert content["execution"]["outcomes"]["equal"] == len(examples) - 1
    assert content["execution"]["outcomes"]["prediction failed"] == 1
    shown = capsys.readouterr().out
    assert "exact match" in shown
    assert "Execution accuracy" in shown


def test_evaluate_writes_pairs_back_in_order(tmp_path: Path) -> None:
    rows = [
        {"db_id": "clinic", "gold": "SELECT count(*) FROM doc", "pred": query, "id": number}
        for number, query in enumerate(["SELECT count(*) FROM doc", "SELECT sup_id FROM doc"])
    ]
    pairs, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    pairs.write_text("\n".join(map(json.dumps, rows)))
    main(["sql", "evaluate", "--data", str(sample_folder()), "--pairs", str(pairs), "--out", str(out)])
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["exact"], row["parsed"], row["hardness"]) for row in written] == [
        (0, 1, True, "easy"),
        (1, 0, True, "easy"),
    ]
    assert written[1]["partial"]["select"] == 0


def test_prepare_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sql", "prepare", "--data", str(sample_folder()), "--out", str(tmp_path / "out"), "--splits", "dev"]
    main(arguments)
    assert "80 dev in" in " ".join(capsys.readouterr().out.split())
    main(arguments)
    assert "is up to date: 80 dev" in " ".join(capsys.readouterr().out.split())


def test_prepare_reports_its_figures(tmp_path: Path) -> None:
    report = tmp_path / "figures.json"
    data = ["--data", str(sample_folder()), "--out", str(tmp_path / "out"), "--splits", "dev"]
    main(["sql", "prepare", *data, "--report", str(report), "--walks", "12"])
    content = json.loads(report.read_text())
    assert content["name"] == "sql-prepare"
    assert content["metrics"]["dev_round_trip_exact"] == content["metrics"]["dev_queries"] == 80
    assert content["metrics"]["walks_failed"] == 0
    assert 0 < content["metrics"]["prepare_peak_gib"] < 8
    assert content["data_hash"] == json.loads((tmp_path / "out" / "index.json").read_text())["data_hash"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["link", "x", "--database", "nowhere.sqlite"], "nowhere.sqlite"),
        (["link", "x", "--database", "sample:nowhere"], "no bundled database 'nowhere'; there are sample:bike"),
        (["ask", "x"], "error: the following arguments are required: --database"),
        (["card", "--packing", "x"], "error: the following arguments are required: --training, --acceptance"),
        (["evaluate", "--data", "nowhere"], "nowhere is not a folder"),
        (["prepare", "--data", "nowhere", "--out", "out"], "nowhere is not a folder"),
    ],
)
def test_bad_input_to_sql_says_what_to_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["sql", *arguments])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --predictions FILE"),
        (["--pairs", "pairs.jsonl"], "needs --out"),
    ],
)
def test_evaluate_needs_something_to_evaluate(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["sql", "evaluate", "--data", str(sample_folder()), *options])
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "words",
    [
        ["How many?", "--run", "--database", "a.db", "--beam=3"],
        ["--run", "How many?", "--database", "a.db", "--beam=3"],
        ["--run", "--database", "a.db", "How many?", "--beam=3"],
        ["--run", "--database", "a.db", "--beam=3", "How many?"],
        ["--run", "true", "--database", "a.db", "--beam=3", "--question", "How many?"],
    ],
)
def test_a_question_may_stand_anywhere(words: list[str]) -> None:
    spelled = _spelled_out(["sql", "ask", *words])
    assert sorted(spelled[2:]) == sorted(["--question", "How many?", "--run", "true", "--database", "a.db", "--beam=3"])
    assert spelled[spelled.index("--question") + 1] == "How many?"
    assert spelled[spelled.index("--run") + 1] == "true"


def test_two_questions_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["sql", "ask", "How many?", "--database", "a.db", "And when?"])
    assert stop.value.code == 2
    assert "And when?" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["reproduce", "depth"])
def test_a_sweep_that_was_stopped_ends_as_ctrl_c_does(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_and_stop(runs: list[Run], *_: object, **__: object) -> list[Outcome]:
        return [Outcome(run, State.LEFT, began=1.0) for run in runs]

    monkeypatch.setattr(sweep, "run_sweep", begin_and_stop)
    example = {"context": "It rains.", "question": "Does it?", "answers": ["Yes.", "No."], "label": 0}
    for split in ("train", "val"):
        (tmp_path / f"{split}.json").write_text(json.dumps([{**example, "id_string": split}]))
    data = ["--out", str(tmp_path / "out"), "--reclor" if verb == "reproduce" else "--data", str(tmp_path)]
    with pytest.raises(SystemExit) as stop:
        main([*(["reproduce", "reclor-main"] if verb == "reproduce" else ["reading", "depth"]), *data])
    assert stop.value.code == 130


def test_what_was_stopped_ends_as_ctrl_c_does() -> None:
    with pytest.raises(SystemExit) as stop:
        exit_if_stopped(True)
    assert stop.value.code == 130
    exit_if_stopped(False)


def test_the_files_of_curves_are_a_list() -> None:
    spelled = _spelled_out(["sql", "curves", "--results", "a.json", "b-c.json", "--out", "x.png"])
    assert spelled == ["sql", "curves", "--results", '["a.json", "b-c.json"]', "--out", "x.png"]
    assert _spelled_out(["sql", "curves", "--out", "x.png"]) == ["sql", "curves", "--out", "x.png"]


def test_a_path_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SystemExit) as stop:
        main(["report", "--results", str(tmp_path), "--out", str(tmp_path / "file" / "report")])
    assert stop.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "Not a directory. Name another file or folder" in told


def test_a_table_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["reading", "table", "--results", str(tmp_path)])
    assert stop.value.code == 2
    assert "has no results of the ReClor experiments" in " ".join(capsys.readouterr().err.split())
