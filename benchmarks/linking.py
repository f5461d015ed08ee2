"""Linking and literal candidates on a dataset in Spider's layout: how good, and how many seconds of one core.

    python benchmarks/linking.py [--data DIR] [--splits train dev] [--missed N] [--cached]
                                 [--json FILE]

Prints JSON. Content indexes are built anew and held in memory unless `--cached`; `--missed N` adds the first N
questions with a literal that no candidate covers.
"""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from measure import Benchmark, timed

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


def measure(
    dataset: Dataset, split: str, contents: dict[str, ContentIndex], cached: bool, missed: int
) -> dict[str, Any]:
    figures, shown = LinkFigures(), []
    seconds: defaultdict[str, float] = defaultdict(float)
    for example in dataset.split(split):
        schema = dataset.schemas[example.database]
        if example.database not in contents:
            with timed(seconds, "content"):
                file = dataset.database_file(example.database)
                contents[example.database] = open_content(schema, file, use_cache=cached)
        content = contents[example.database]
        with timed(seconds, "linking"):
            words = split_words(example.question)
            links = link(words, schema, content)
        with timed(seconds, "candidates"):
            literals = candidates(words, example.question, schema, content, links)
        absent = figures.add(read_gold(example.query, schema), links, literals)
        if absent and len(shown) < missed:
            shown.append({"question": example.question, "missed": [literal.text for literal in absent]})
    rounded = {name: round(spent, 2) for name, spent in (*seconds.items(), ("together", sum(seconds.values())))}
    return figures.summary() | {"seconds": rounded} | ({"missed": shown} if missed else {})


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--data", type=Path, default=default_data())
    benchmark.option("--splits", nargs="+", default=["train", "dev"])
    benchmark.option("--missed", type=int, default=0)
    benchmark.option("--cached", action="store_true", help="keep content indexes in the cache folder")
    options = benchmark.start()
    dataset = open_dataset(options.data)
    contents: dict[str, ContentIndex] = {}
    figures = {split: measure(dataset, split, contents, options.cached, options.missed) for split in options.splits}
    print(json.dumps(figures, indent=1))
    benchmark.finish("sql-linking", {}, figures=figures)


if __name__ == "__main__":
    main()
