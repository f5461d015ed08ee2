"""`examples/reproduce_bare.py` where only torch, transformers and Fabric are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dtfixup_paper.tables.smoke import small_encoder, small_reclor, small_spider

from dtfixup.files import read_json
from dtfixup.sql.preparation.prepare import prepare

ROOT = Path(__file__).parents[2]
MISSING = ("gradio", "rapidfuzz", "ray", "simplemma", "sqlalchemy", "sqlglot", "tyro")
REFUSING = f"""
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusing())
"""


@pytest.mark.parametrize(
    ("name", "option", "metric"),
    [("spider-hardness", "--spider", "dev_exact"), ("reclor-main", "--reclor", "val_accuracy")],
)
def test_experiments_need_none_of_the_other_libraries(name: str, option: str, metric: str, tmp_path: Path) -> None:
    encoder, data = small_encoder(), small_reclor()
    if option == "--spider":
        data = tmp_path / "prepared"
        prepare(small_spider(), data, encoder=str(encoder), splits=("train", "dev"), workers=1, show_progress=False)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REFUSING, encoding="utf-8")
    script, out = ROOT / "examples" / "reproduce_bare.py", tmp_path / "out"
    command = [sys.executable, str(script), name, option, str(data), "--encoder", str(encoder), "--out", str(out)]
    paths = os.pathsep.join(map(str, (tmp_path / "site", ROOT / "src", ROOT / "paper")))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--budget", "smoke"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [read_json(file) for file in out.glob("*/*.json")]
    assert len(files) == (1 if option == "--spider" else 3)
    for content in files:
        assert content["state"] == "finished", content.get("reason")
        assert content["metrics"][metric] is not None
        assert content["command"] == f"dtfixup reproduce {name}"
    check = [sys.executable, "-c", "import tyro"]
    assert subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 1, "it is hidden"
