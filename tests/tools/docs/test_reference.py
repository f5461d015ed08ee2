"""The reference pages name everything public, and a stale page is noticed."""

from importlib import import_module
from pathlib import Path

import pytest

from dtfixup.cli.verbs import VERBS
from tools.docs import reference


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "FOLDER", folder)
        assert reference.main([]) == 0
    return folder


def test_every_verb_is_described_with_its_options(pages: Path) -> None:
    text = (pages / "cli.md").read_text(encoding="utf-8")
    assert [name for name in VERBS if f"### `dtfixup {name}`" not in text] == []
    assert "| `--run` | Run the query" in text
    assert "Default: `minilm` |" in text
    assert "**Required.**" in text
    assert "`--layers`, `--model.layers INT`" in text


def test_every_public_name_is_described_as_the_source_has_it(pages: Path) -> None:
    text = (pages / "api.md").read_text(encoding="utf-8")
    public = [name for package in reference.PACKAGES for name in import_module(package).__all__]
    assert [name for name in public if f"### {name}\n" not in text] == []
    assert "FusedRows(parameter: Tensor, start: int, stop: int)" in text
    assert "    learning_rate: float = 1e-06,\n" in text
    assert "```py\n>>> strategy_named(" in text
    assert "| `MissingExtraError` |" in text
    assert "_cut" not in text, "a private field"


def test_a_stale_page_is_named(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for page in pages.iterdir():
        (tmp_path / page.name).write_bytes(page.read_bytes())
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    for name in ("cli.md", "api.md"):
        text = (pages / name).read_text(encoding="utf-8")
        monkeypatch.setattr(reference, {"cli.md": "command_line", "api.md": "api"}[name], lambda text=text: text)
    assert reference.main(["--check"]) == 0
    (tmp_path / "api.md").write_text("old", encoding="utf-8")
    assert reference.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("docs/reference/api.md: stale")
    assert (tmp_path / "api.md").read_text(encoding="utf-8") == "old"
