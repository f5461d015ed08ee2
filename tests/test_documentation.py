"""What the documentation shows runs as it stands."""

import re
import runpy
from pathlib import Path

import pytest
from matplotlib import image

ROOT = Path(__file__).parent.parent


def python_blocks(file: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "call"),
    [("README.md", "dt_fixup_("), ("docs/explain/method.md", "dt_fixup_("), ("docs/explain/grammar.md", "steps_of(")],
)
def test_the_python_of_the_documentation_runs(
    name: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = python_blocks(ROOT / name)
    assert call in program
    exec(compile(program, name, "exec"), {"__name__": "documentation"})
    if name == "README.md":
        assert image.imread(tmp_path / "depth.png").shape[0] > 200


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/explain/method.md",
        "docs/explain/grammar.md",
        "docs/start/ask.md",
        "docs/explain/safety.md",
        "docs/start/finetune.md",
        "docs/results/reclor.md",
        "docs/results/agreement.md",
        "docs/report.md",
        "docs/reproduce.md",
        "docs/start/serve.md",
        "docs/explain/sql_sp.md",
        "docs/reference/training_runs.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ],
)
def test_links_and_pictures_exist(name: str) -> None:
    file = ROOT / name
    targets = re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (file.parent / target).exists()]
    assert missing == []


def test_the_example_learns_and_is_short() -> None:
    file = ROOT / "examples" / "own_model.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) < 60
    first, last = runpy.run_path(str(file))["main"](layers=4, steps=20)
    assert last < 0.8 * first


def test_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
