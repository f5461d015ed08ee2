"""Linking and literal candidates on a dataset in Spider's layout: how good, and how many seconds of one core.

    python benchmarks/linking.py [--data DIR] [--splits train dev] [--missed N] [--cached]

Prints JSON. Content indexes are built anew and held in memory unless `--cached`; `--missed N` adds the first N
questions with a literal that no candidate covers.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from dtfixup.sql.database.content import ContentIndex, open_content
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation.link_figures import LinkFigures, read_gold
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.candidates import candidates
from dtfixup.sql.linking.links import link


def default_data() -> Path:
    """Spider where it is, the sample dataset elsewhere."""
    folder = Path(os.environ.get("DTFIXUP_DATA", "../shared/data")) / "spider"
    return folder if folder.is_dir() else sample_folder()


class Clock:
    """Processor seconds spent, by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.process_time()

    def start(self) -> None:
        self.last = time.process_time()

    def stop(self, name: str) -> None:
        now = time.process_time()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def measure(
    dataset: Dataset, split: str, contents: dict[str, ContentIndex], cached: bool, missed: int
) -> dict[str, Any]:
    figures, clock, shown = LinkFigures(), Clock(), []
    for example in dataset.split(split):
        schema = dataset.schemas[example.database]
        clock.start()
        if example.database not in contents:
            file = dataset.database_file(example.database)
            contents[example.database] = open_content(schema, file, use_cache=cached)
        content = contents[example.database]
        clock.stop("content")
        words = split_words(example.question)
        links = link(words, schema, content)
        clock.stop("linking")
        found = candidates(words, example.question, schema, content, links)
        clock.stop("candidates")
        absent = figures.add(read_gold(example.query, schema), links, found)
        if absent and len(shown) < missed:
            shown.append({"question": example.question, "missed": [literal.text for literal in absent]})
    seconds = {name: round(spent, 2) for name, spent in clock.seconds.items()}
    seconds["together"] = round(sum(clock.seconds.values()), 2)
    return figures.summary() | {"seconds": seconds} | ({"missed": shown} if missed else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--splits", nargs="+", default=["train", "dev"])
    parser.add_argument("--missed", type=int, default=0)
    parser.add_argument("--cached", action="store_true", help="keep content indexes in the cache folder")
    options = parser.parse_args()
    dataset = open_dataset(options.data)
    contents: dict[str, ContentIndex] = {}
    figures = {split: measure(dataset, split, contents, options.cached, options.missed) for split in options.splits}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
