"""The verb `dtfixup report`."""

from pathlib import Path

import pytest

from dtfixup.cli.main import main


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A report on no results, made in another folder."""
    (tmp_path / "results").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return ["report", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]


def test_it_writes_both_files_and_names_them(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    shown = capsys.readouterr().out.replace("\n", "")
    for file in ("index.html", "report.md"):
        assert file in shown
        assert "N = 24" in (tmp_path / "out" / file).read_text(encoding="utf-8")


def test_agreement_beside_the_results_is_of_our_own_runs_alone(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    assert "no docs/results/agreement.md here or beside" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "agreement.md").write_text("# Where\n\nDepth pays.\n")
    for options, is_there in (([], True), (["--budget", "paper"], False), (["--encoder", "mpnet"], False)):
        main([*words, *options])
        assert ("Depth pays." in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")) == is_there
    assert "leaves it out" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "huge"], "there is no budget 'huge'"),
        (["--results", "x"], "is no folder"),
        (["--beams", "x"], "x does not exist: give --beams another path"),
    ],
)
def test_wrong_options_write_nothing(
    options: list[str], message: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*words, *options])
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
