"""Where the time of `dtfixup sql prepare` goes, stage by stage in one process, and what the whole takes in parallel.

`python benchmarks/prepare.py [--data DIR] [--json FILE]`; without a folder, DTFIXUP_DATA's Spider or the sample data.
"""

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from linking import default_data

from dtfixup.encoders import load_tokenizer
from dtfixup.errors import SqlError
from dtfixup.provenance import peak_memory_gib
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.transitions import steps_of
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.candidates import candidates
from dtfixup.sql.linking.inputs import describe_database
from dtfixup.sql.linking.links import link
from dtfixup.sql.preparation.prepare import prepare


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load_tokenizer()  # its import is not what is measured
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DTFIXUP_CACHE"] = folder  # no content index from an earlier run
        started = time.perf_counter()
        report = prepare(options.data, Path(folder) / "out")
        whole = time.perf_counter() - started
        size = sum(file.stat().st_size for file in (Path(folder) / "out").iterdir())
    peak = peak_memory_gib()
    stages = by_stage(options.data)
    alone = sum(stages.values())
    print(f"{sum(report.examples.values()):,} examples, {os.cpu_count()} cores: {whole:.1f} s, {size / 2**20:.1f} MiB")
    print(f"peak memory of all processes: at most {peak:.2f} GiB")
    for stage, seconds in sorted(stages.items(), key=lambda item: -item[1]):
        print(f"  {stage:24}{seconds:7.1f} s{100 * seconds / alone:6.1f} %")
    print(f"one process / in parallel: {alone / whole:.2f}")
    if options.json:
        numbers = {"seconds": whole, "peak_gib": peak, "mib": size / 2**20, "stages": stages}
        options.json.write_text(json.dumps(numbers, indent=1))


def by_stage(data: Path) -> dict[str, float]:
    """Seconds of each stage over every example, in this process."""
    seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[stage] += time.perf_counter() - started

    dataset = open_dataset(data)
    databases = {}
    for example in [*dataset.split("train"), *dataset.split("dev")]:
        schema = dataset.schemas[example.database]
        if example.database not in databases:
            with timed("content of databases"):
                content = open_content(schema, dataset.database_file(example.database), use_cache=False)
            with timed("schemas and relations"):
                databases[example.database] = (describe_database(schema, content), SqlReader(schema))
        inputs, reader = databases[example.database]
        with timed("words and lemmas"):
            words = split_words(example.question)
        with timed("links"):
            links = link(words, schema, inputs.content)
        with timed("candidates"):
            candidates(words, example.question, schema, inputs.content, links)
        with timed("SQL to actions"), suppress(SqlError):
            steps_of(reader.read(example.query))
    return dict(seconds)


if __name__ == "__main__":
    main()
