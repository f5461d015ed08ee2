"""Every module has the test file of its name, so that a reader of one finds the other."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SMALL = 80
"""Lines of a module that may be tested in another's file: a protocol, an alias."""


def untested_modules(source: Path, tests: Path) -> list[str]:
    """Modules of more than `SMALL` lines without `test_<name>.py` in the folder of the same name."""
    modules = [file.relative_to(source) for file in source.rglob("*.py") if not file.name.startswith("__")]
    return sorted(
        str(module)
        for module in modules
        if not (tests / module.parent / f"test_{module.name}").exists()
        and len((source / module).read_text(encoding="utf-8").splitlines()) > SMALL
    )


@pytest.mark.parametrize(
    ("source", "tests"), [("src/dtfixup", "tests"), ("paper/dtfixup_paper", "paper/tests"), ("tools", "tests/tools")]
)
def test_the_tests_mirror_the_source(source: str, tests: str) -> None:
    assert untested_modules(ROOT / source, ROOT / tests) == []


def test_a_module_without_tests_is_named(tmp_path: Path) -> None:
    for folder in ("source", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "source" / "wide.py").write_text("x = 1\n" * (SMALL + 1))
    (tmp_path / "source" / "small.py").write_text("x = 1\n")
    assert untested_modules(tmp_path / "source", tmp_path / "tests") == ["wide.py"]
    (tmp_path / "tests" / "test_wide.py").touch()
    assert untested_modules(tmp_path / "source", tmp_path / "tests") == []
