"""Result files of a folder, found by what was trained and not by how a file is called.

In: a folder of JSON files. Out: `Results`, which finds the runs of a cell, whatever their seed and whichever experiment
or plain `train` command made them (`run_identity.py` says which runs are the same).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

from dtfixup.errors import DataError
from dtfixup.files import read_json
from dtfixup_paper.runs.run_identity import (
    SETTLED,
    Settled,
    State,
    device_seconds,
    has_measured,
    known_by,
    read_config,
    result_paths,
    state_of,
)
from dtfixup_paper.tables.cells import Cell, RunConfig, metric_of

Config = TypeVar("Config", bound=RunConfig)


@dataclass(frozen=True)
class ResultFile:
    """One file and what it holds."""

    path: Path
    content: Mapping[str, Any]
    name: str
    """The path below the folder of the results."""

    @property
    def stem(self) -> str:
        """The name without its seed."""
        return self.name.removesuffix(".json").rpartition("-seed")[0]

    @property
    def metrics(self) -> Mapping[str, Any]:
        found = self.content.get("metrics")
        return found if isinstance(found, Mapping) else {}

    @property
    def encoder(self) -> str:
        """As the file names it; empty where it does not."""
        named = self.content.get("encoder") or self._config.get("encoder")
        return str(named or "")

    @property
    def seconds(self) -> float:
        """Of the machine's time."""
        return device_seconds(self.content)

    @property
    def state(self) -> State:
        try:
            return state_of(self.content)
        except ValueError:
            states = ", ".join(State)
            raise DataError(f"{self.path} has the state {self.content['state']!r}, and not one of {states}") from None

    def number(self, metric: str) -> float:
        """A metric that must be there."""
        found = self.metrics.get(metric)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise DataError(f"{self.path} has {found!r} for its metric {metric}, and no number")
        return float(found)

    @property
    def _config(self) -> Mapping[str, Any]:
        found = self.content.get("config")
        return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True)
class Results:
    """All result files of a folder."""

    folder: Path
    files: tuple[ResultFile, ...]

    def called(self, stem: str) -> list[ResultFile]:
        """The files `<stem>-seed<k>.json`, by name; a stem has its folder, such as `sql/minilm`."""
        return [file for file in self.files if file.stem == stem]

    def of(self, cell: Cell) -> list[ResultFile]:
        """The settled runs of a cell, one for each seed there is, by seed; seeds beyond the cell's own count too."""
        found = [self._settled.find(cell.config, seed, metric=metric_of(cell.config)) for seed in self._seeds]
        return [self._of_content[id(content)] for content in found if content is not None]

    def rivals(self, cell: Cell) -> list[int]:
        """Seeds of a cell that several files tell of, not all the same: `of` has the first by name."""
        metric = metric_of(cell.config)
        ends = {seed: self._settled.matching(cell.config, seed, metric=metric) for seed in self._seeds}
        files = {seed: [self._of_content[id(each)] for each in found] for seed, found in ends.items()}
        told = {seed: {(file.state, file.metrics.get(metric)) for file in found} for seed, found in files.items()}
        return [seed for seed, values in told.items() if len(values) > 1]

    def failed(self, cell: Cell) -> list[ResultFile]:
        """The runs of a cell that an error ended, by name; the next sweep trains them again."""
        return [file for file, known in self._failed if known == known_by(cell.config)]

    def runs(self, kind: type[Config]) -> Iterator[tuple[ResultFile, Config]]:
        """All settled runs with a configuration of a kind, of whatever experiment, by name."""
        for file in self.files:
            config = read_config(kind, file.content)
            if config is None or file.state not in SETTLED:
                continue
            if file.state is State.DIVERGED or has_measured(file.content, metric_of(config)):
                yield file, config

    @cached_property
    def _settled(self) -> Settled:
        return Settled(file.content for file in self.files)

    @cached_property
    def _failed(self) -> list[tuple[ResultFile, str]]:
        failed = [file for file in self.files if file.content.get("state") == State.FAILED]
        configs = ((file, read_config(kind, file.content)) for file in failed for kind in get_args(RunConfig))
        return [(file, known_by(config)) for file, config in configs if config is not None]

    @cached_property
    def _of_content(self) -> dict[int, ResultFile]:
        return {id(file.content): file for file in self.files}

    @cached_property
    def _seeds(self) -> list[int]:
        seeds = (file.content.get("seed") for file in self.files)
        return sorted({seed for seed in seeds if isinstance(seed, int)})


def read_results(folder: str | Path) -> Results:
    """All JSON objects of a folder, by name; names with a dot in front are files that are being written."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give the folder of the result files, such as --results results")
    contents = ((path, read_json(path)) for path in result_paths(folder))
    files = [
        ResultFile(path, each, path.relative_to(folder).as_posix()) for path, each in contents if isinstance(each, dict)
    ]
    return Results(folder, tuple(files))


def shortly(files: Sequence[ResultFile]) -> str:
    """Names of files that differ by their seed, as one.

    >>> file = lambda name: ResultFile(Path(name), {}, name)
    >>> shortly([file("x/a-seed1.json"), file("x/a-seed2.json"), file("x/b.json"), file("x/a-seed4.json")])
    'x/a-seed{1,2,4}.json, x/b.json'
    """
    seeds: dict[str, list[str]] = {}
    for file in files:
        name = file.name.removesuffix(".json")
        stem, dash, seed = name.rpartition("-seed")
        seeds.setdefault(stem if dash else name, []).extend([seed] if dash else [])
    return ", ".join(f"{stem}{_seed_part(found)}.json" for stem, found in seeds.items())


def _seed_part(seeds: Sequence[str]) -> str:
    if not seeds:
        return ""
    return f"-seed{seeds[0]}" if len(seeds) == 1 else f"-seed{{{','.join(seeds)}}}"
