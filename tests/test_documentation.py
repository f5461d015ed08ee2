"""What the documents show runs as it is, and their links lead somewhere."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest
from matplotlib import image

ROOT = Path(__file__).parent.parent
OWN_MODEL = "docs/start/own_model.md"
LISTED = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
DOCUMENTS = sorted(name for name in LISTED.split() if not name.startswith("tests/"))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def python_of(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text_of(name), re.DOTALL | re.MULTILINE)


def run(blocks: list[str], name: str) -> None:
    exec(compile("\n".join(blocks), name, "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (OWN_MODEL, "depth_check("),
        ("docs/start/ask.md", "TextToSql.load("),
        ("docs/explain/method.md", "dt_fixup_("),
        ("docs/explain/grammar.md", "steps_of("),
    ],
)
def test_the_python_of_a_page_runs(name: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = python_of(name)
    assert call in "\n".join(blocks)
    run(blocks, name)
    if name == OWN_MODEL:
        assert image.imread(tmp_path / "depth.png").shape[0] > 200


def test_the_python_of_the_readme_runs_with_the_model_of_its_page() -> None:
    model = python_of(OWN_MODEL)[0].partition("\ninitialise_free_(")[0]
    (lines,) = python_of("README.md")
    assert "dt_fixup_(" in lines
    run([model, lines], "README.md")


def test_the_readme_is_short_and_shows_the_two_commands() -> None:
    text = text_of("README.md")
    assert len(text.split()) <= 900
    assert "make demo" in text
    assert "make test" in text_of("CONTRIBUTING.md")


def anchors_of(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_pictures_and_anchors_exist(name: str) -> None:
    here = ROOT / name
    missing = []
    for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)", text_of(name)):
        target = here.parent / path if path else here
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            missing.append(f"{path}#{anchor}")
    assert missing == []


def test_the_example_learns_and_is_short() -> None:
    file = ROOT / "examples" / "own_model.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) < 60
    first, last = runpy.run_path(str(file))["main"](layers=4, steps=20)
    assert last < 0.8 * first


def test_the_room_map_names_what_is_there() -> None:
    text = text_of("CONTRIBUTING.md")
    named = re.findall(r"`((?:src|paper|tests|docs|benchmarks|results)/[\w./-]*\w)", text)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []
    drawn = re.search(r"^```\nsrc/dtfixup/\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert drawn is not None
    missing, above = [], ROOT / "src" / "dtfixup"
    for line in drawn[1].splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            above = ROOT
        room = above / "sql" / name if line.startswith("    ") else above / name
        missing += [] if room.exists() else [name]
    assert missing == []
