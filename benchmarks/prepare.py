"""Where the time of `dtfixup sql prepare` goes, stage by stage in one process, and what the whole takes in parallel.

`python benchmarks/prepare.py [--data DIR] [--json FILE]`; without a folder, DTFIXUP_DATA's Spider or the sample data.
"""

import os
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from linking import default_data
from measure import Benchmark, timed

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
    benchmark = Benchmark(__doc__)
    benchmark.option("--data", type=Path, default=default_data())
    options = benchmark.start()
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
    benchmark.finish("sql-prepare", {"seconds": whole, "peak_gib": peak, "mib": size / 2**20}, stages=stages)


def by_stage(data: Path) -> dict[str, float]:
    """Processor seconds of each stage over every example, in this process."""
    seconds: defaultdict[str, float] = defaultdict(float)
    dataset = open_dataset(data)
    databases = {}
    for example in [*dataset.split("train"), *dataset.split("dev")]:
        schema = dataset.schemas[example.database]
        if example.database not in databases:
            with timed(seconds, "content of databases"):
                content = open_content(schema, dataset.database_file(example.database), use_cache=False)
            with timed(seconds, "schemas and relations"):
                databases[example.database] = (describe_database(schema, content), SqlReader(schema))
        inputs, reader = databases[example.database]
        with timed(seconds, "words and lemmas"):
            words = split_words(example.question)
        with timed(seconds, "links"):
            links = link(words, schema, inputs.content)
        with timed(seconds, "candidates"):
            candidates(words, example.question, schema, inputs.content, links)
        with timed(seconds, "SQL to actions"), suppress(SqlError):
            steps_of(reader.read(example.query))
    return dict(seconds)


if __name__ == "__main__":
    main()
