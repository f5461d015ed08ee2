"""`dtfixup sql prepare` on the bundled dataset."""

import json
from pathlib import Path

import pytest

from dtfixup.cli.main import main
from dtfixup.sql.database.sample import sample_folder


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
