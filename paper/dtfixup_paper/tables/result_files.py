"""The result files of a folder.

In: a folder of JSON files. Out: `Results`, which has the runs of a cell by the cell's path.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dtfixup.errors import DataError, DtFixupError
from dtfixup.files import read_json
from dtfixup.training.config import from_json
from dtfixup_paper.runs.run import SETTLED, Content, State, device_seconds, differences, state_of
from dtfixup_paper.tables.cells import Cell, RunConfig, metric_of

Config = TypeVar("Config", bound=RunConfig)
_UNSHOWN = frozenset({"reclor-again", "reclor-by-rate", "spider-by-rate"})  # runs with settings that lost, second tries


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
        return state_of(self.content, self.path)

    @property
    def seed(self) -> int:
        """As the file is named; 0 where the name has none."""
        number = self.name.removesuffix(".json").rpartition("-seed")[2]
        return int(number) if number.isdecimal() else 0

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
        """The settled runs of a cell, by seed; seeds beyond the cell's own count too."""
        settled = [file for file in self.called(cell.path) if file.state in SETTLED]
        return sorted(settled, key=lambda file: file.seed)

    def failed(self, cell: Cell) -> list[ResultFile]:
        """The runs of a cell that an error ended; the next sweep trains them again."""
        return [file for file in self.called(cell.path) if file.state is State.FAILED]

    def unfit(self, cell: Cell) -> list[int]:
        """The seeds of a cell whose files were trained with another configuration."""
        return [file.seed for file in self.of(cell) if differences(cell.config_of(file.seed), file.content)]

    def runs(self, kind: type[Config]) -> Iterator[tuple[ResultFile, Config]]:
        """All settled runs with a configuration of a kind, of whatever experiment, by name."""
        for file in self.files:
            config = read_config(kind, file.content)
            if config is None or file.state not in SETTLED:
                continue
            if file.state is State.DIVERGED or file.metrics.get(metric_of(config)) is not None:
                yield file, config


def read_config(kind: type[Config], content: Content) -> Config | None:
    """The configuration in a file; None if it is of another kind."""
    try:
        return from_json(kind, content["config"])
    except (DtFixupError, KeyError):
        return None


def read_results(folder: str | Path) -> Results:
    """All result files of a folder, `<experiment>/<variant>-seed<k>.json`, by name.

    Files of runs that no table shows are left out, and those with a dot in front: they are being written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give the folder of the result files, such as --results results")
    paths = sorted(path for pattern in ("*.json", "*/*.json") for path in folder.glob(pattern))
    contents = (
        (path, read_json(path)) for path in paths if not path.name.startswith(".") and path.parent.name not in _UNSHOWN
    )
    return Results(
        folder,
        tuple(
            ResultFile(path, content, path.relative_to(folder).as_posix())
            for path, content in contents
            if isinstance(content, dict)
        ),
    )


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
