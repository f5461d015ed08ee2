"""Data and an encoder so small that every experiment runs in seconds on a CPU: for `--budget smoke`.

In: a dataset, or nothing: the bundled one and questions made up on the spot. Out: folders in the cache, in the layouts
of Spider, ReClor and Hugging Face. No number that is trained on them means anything.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import permutations
from pathlib import Path

import torch
from safetensors.torch import save_file

from dtfixup.encoders.load import minilm_path
from dtfixup.files import cache_folder, write_atomically, write_json
from dtfixup.reading.examples import ReadingData, ReadingExample, read_data
from dtfixup.sql.database.dataset import Example, open_dataset
from dtfixup.sql.database.sample import sample_folder

_DATABASES, _QUESTIONS = {"train": 3, "dev": 1}, 8  # of each split, and over each database
ENCODER = "random-bert"
"""Name of the encoder."""
_READINGS = {"train": 16, "val": 8}
_PEOPLE, _THINGS = ("Ann", "Ben", "Eva", "Tom"), ("apple", "boat", "drum", "hat")


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one thread: models this small gain nothing by more, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def small_spider(data: Path | None = None) -> Path:
    """The first questions over a few databases of a folder in Spider's layout, as a folder of that layout."""
    dataset = open_dataset(data or sample_folder())
    folder = _folder("spider", dataset.folder)
    for split, databases in _DATABASES.items():
        rows = [
            {"db_id": example.database, "question": example.question, "query": example.query}
            for example in _first(dataset.split(split), databases)
        ]
        write_json(folder / f"{split}.json", rows)
    write_atomically(folder / "tables.json", lambda path: shutil.copy(dataset.folder / "tables.json", path))
    if not (folder / "database").is_symlink():
        (folder / "database").symlink_to((dataset.folder / "database").absolute(), target_is_directory=True)
    return folder


def small_reclor(data: Path | None = None) -> Path:
    """The first questions of a folder with train and val, as such a folder; made-up ones without a folder."""
    found = _made_up() if data is None else read_data(data)
    folder = _folder("reclor", data or Path("made-up"))
    for split, count in _READINGS.items():
        write_json(folder / f"{split}.json", [asdict(example) for example in getattr(found, split)[:count]])
    return folder


def small_encoder() -> Path:
    """A BERT of one narrow layer with random weights, and MiniLM's tokenizer."""
    from transformers import BertConfig, BertModel  # takes seconds

    folder = cache_folder() / "smoke" / ENCODER
    weights = folder / "model.safetensors"
    if weights.is_file():  # it is written last
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*minilm_path().glob("*token*"), minilm_path() / "vocab.txt"):
        shutil.copy(file, folder)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.3,  # states that differ from word to word
        architectures=["BertModel"],
    )
    config.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        state = BertModel(config, add_pooling_layer=False).state_dict()
    write_atomically(weights, lambda path: save_file(state, path, {"format": "pt"}))
    return folder


def _folder(kind: str, source: Path) -> Path:
    digest = hashlib.sha256(str(source.absolute()).encode()).hexdigest()[:16]
    return cache_folder() / "smoke" / f"{kind}-{digest}"


def _first(examples: Sequence[Example], databases: int) -> list[Example]:
    """Some questions over each of the first databases."""
    chosen = list(dict.fromkeys(example.database for example in examples))[:databases]
    seen: Counter[str] = Counter()
    found = []
    for example in examples:
        seen[example.database] += 1
        if example.database in chosen and seen[example.database] <= _QUESTIONS:
            found.append(example)
    return found


def _made_up() -> ReadingData:
    """Who has which thing: four options, and one is right."""
    examples = []
    for number, owners in enumerate(permutations(_PEOPLE)):
        context = " ".join(f"{person} has the {thing}." for person, thing in zip(owners, _THINGS, strict=True))
        label = number % len(_PEOPLE)
        thing = _THINGS[owners.index(_PEOPLE[label])]
        examples.append(ReadingExample(context, f"Who has the {thing}?", _PEOPLE, label, f"made_{number}"))
    train = _READINGS["train"]
    return ReadingData(tuple(examples[:train]), tuple(examples[train:]), "made-up")
