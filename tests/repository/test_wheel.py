"""What the wheel holds, and what it needs: built from this tree, looked into, installed alone."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parents[2]
CORE = ("torch", "rich", "setuptools")
"""What the method alone needs; torch asks for setuptools itself."""

STUB = """
import runpy, sys, types
from collections import UserDict
import torch

class Encoder(torch.nn.Module):
    dim = 64
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(128, self.dim)
    def forward(self, input_ids, attention_mask):
        return self.words(input_ids)
    def tokenizer(self, texts, padding, return_tensors):
        rows = [torch.tensor([ord(letter) for letter in text]) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

stub = types.ModuleType("dtfixup.encoders")
stub.Encoder, stub.load_encoder = Encoder, lambda name: Encoder()
sys.modules[stub.__name__] = stub
program = runpy.run_path(sys.argv[1])
first, last = program["main"](layers=2, steps=3)
print(sorted(name for name in sys.modules if "." not in name))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built from a copy, since building leaves files behind."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, tree)
    copytree(ROOT / "src", tree / "src", ignore=ignore_patterns("__pycache__", "*.egg-info"))
    for folder in ("paper", "tools", "tests", "corpus", "results"):  # which a careless search for packages would take
        (tree / folder).mkdir()
        (tree / folder / "__init__.py").touch()
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"
    (tree / "dist").mkdir()
    run = subprocess.run([sys.executable, "-c", build], cwd=tree, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (found,) = (tree / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, torch and rich, what these two need, and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needed_by(CORE):
        link(name, site)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    install = [*pip, "install", "--no-index", "--quiet", "--no-compile", str(wheel)]
    run = subprocess.run(install, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"the wheel needs more than {CORE}: {run.stderr}"
    return python


def needed_by(names: tuple[str, ...]) -> Iterator[str]:
    """Names of distributions, and of what they need without extras, each once."""
    from packaging.requirements import Requirement

    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        yield name
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def link(name: str, site: Path) -> None:
    """Put an installed distribution's folders and modules into another environment."""
    distribution = metadata.distribution(name)
    tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(str(distribution.locate_file(top))))


def run_in(python: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python), "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=python.parent)


def test_the_wheel_holds_the_package_and_its_licences_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(name).decode())
        licences = {Path(name).name: archive.read(name).decode() for name in names if "/licenses/" in name}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"dtfixup", f"dtfixup-{about['Version']}.dist-info"}
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]
    assert about["License-Expression"] == "Apache-2.0 AND CC-BY-SA-4.0"
    assert "Apache License" in licences["LICENSE"]
    assert "Attribution-ShareAlike 4.0 International" in licences["LICENSE-CC-BY-SA-4.0.txt"]
    assert "Spider" in licences["NOTICE.txt"]
    shipped = {Path(name).name for name in names if name.startswith("dtfixup/sql/shipped/")}
    assert shipped >= {"sql-sp-minilm.safetensors", "LICENSE-CC-BY-SA-4.0.txt", "NOTICE.txt"}


def test_every_data_file_of_the_source_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = subprocess.run(["git", "ls-files", "dtfixup"], cwd=ROOT / "src", capture_output=True, text=True, check=True)
    assert sorted(set(files.stdout.split()) - packed) == []


def test_the_method_runs_with_the_core_alone(core: Path) -> None:
    run = run_in(core, STUB, str(ROOT / "examples" / "own_model.py"))
    assert run.returncode == 0, run.stderr
    loaded = set(json.loads(run.stdout.splitlines()[-1].replace("'", '"')))
    assert {"torch", "dtfixup"} <= loaded
    extras = {"gradio", "lightning_fabric", "matplotlib", "numpy", "sqlglot", "tokenizers", "transformers", "yaml"}
    assert loaded & extras == set()


MISSING = [
    ("hf", "from dtfixup.encoders import load_encoder; load_encoder('minilm')"),
    ("plot", "from dtfixup import DepthReport; DepthReport(()).plot('depth.png')"),
]


@pytest.mark.parametrize(("extra", "program"), MISSING)
def test_what_an_extra_lacks_is_said_with_the_line_that_installs_it(extra: str, program: str, core: Path) -> None:
    run = run_in(core, program)
    assert run.returncode != 0
    assert f"pip install 'dtfixup[{extra}]'" in run.stderr
