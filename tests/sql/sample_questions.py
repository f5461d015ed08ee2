"""The bundled databases under questions of a test's choice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtfixup.files import read_json
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder


def ask_the_sample(folder: Path, **splits: Sequence[Any]) -> Dataset:
    """A dataset in a new folder; a split has examples, as its file holds them, or places of the bundled ones."""
    folder.mkdir()
    for split, chosen in splits.items():
        bundled = read_json(sample_folder() / f"{split}.json")
        rows = [bundled[each] if isinstance(each, int) else each for each in chosen]
        (folder / f"{split}.json").write_text(json.dumps(rows))
    (folder / "tables.json").write_bytes((sample_folder() / "tables.json").read_bytes())
    (folder / "database").symlink_to(sample_folder() / "database")
    return open_dataset(folder)
