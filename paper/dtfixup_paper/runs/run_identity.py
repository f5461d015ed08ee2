"""Which result files are of which run: by what was trained, whatever a file is called and whichever command made it.

In: contents of result files, a configuration, a seed. Out: the content that says how this very training ended. The
configuration in a file is read into the class of the one that is looked for, so that a field which was added since has
its default; a field that no longer exists makes it another run. Not compared is what changes nothing that is trained:
the folder of the encoder, how often there is an evaluation, a checkpoint or a line of the log.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from dtfixup.errors import DtFixupError
from dtfixup.training.config import FREE_ON_RESUME, from_json, to_json

Content = Mapping[str, Any]
Config = TypeVar("Config")
_HALF = "-fp16"  # ends the name of an encoder stored in half precision, which counts as the encoder
_PATIENCE = ("skipped_in_a_row", "skipped_share")  # of `TrainingConfig`: they say when a run has diverged


class State(StrEnum):
    """Where a run of a sweep stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    DIVERGED = "diverged"
    """Training broke: a result as good as any, and not repeated."""
    FAILED = "failed"
    """Something else went wrong; repeated by the next call."""
    LEFT = "left"
    """It would not have fitted into the time, or a stop was asked for before it."""


OUTDATED = "outdated"
"""Folder of results whose configuration or data have changed since."""
_LOST = frozenset({OUTDATED, "reclor-again", "reclor-by-rate", "spider-by-rate"})  # runs with settings that lost

SETTLED = frozenset({State.FINISHED, State.DIVERGED})
"""States that the next call does not change."""


def result_paths(folder: str | Path) -> list[Path]:
    """The result files of a folder, `<experiment>/<variant>-seed<k>.json`, by name, but for runs that no table shows.

    Names with a dot in front are left alone: what a kill left of a file that was being written, whole or not.
    """
    paths = (path for pattern in ("*.json", "*/*.json") for path in Path(folder).glob(pattern))
    return sorted(path for path in paths if not path.name.startswith(".") and path.parent.name not in _LOST)


def state_of(content: Content) -> State:
    """What a result file says of its run; files of plain training are there only if it finished."""
    return State(content.get("state", State.FINISHED))


def device_seconds(content: Content) -> float:
    """What a run took of its machine's time: its wall time, divided among those that shared the machine.

    The wall time of a run that was resumed is that of its last part; its training seconds are those of all.

    >>> device_seconds({"wall_seconds": 120.0, "at_once": 3}), device_seconds({"wall_seconds": 120.0})
    (40.0, 120.0)
    >>> device_seconds({"wall_seconds": 3.0, "metrics": {"train_seconds": 150.0}})
    150.0
    """
    return whole_seconds(content) / at_once_of(content)


def whole_seconds(content: Content) -> float:
    """Of a run, those before it was resumed included where the result tells them."""
    metrics = content.get("metrics") or {}
    return max(float(content.get("wall_seconds") or 0.0), float(metrics.get("train_seconds") or 0.0))


def at_once_of(content: Content) -> int:
    """How many runs shared the machine with this one, itself included; 1 where the file does not say."""
    return int(content.get("at_once", 1))


def encoder_name(encoder: str) -> str:
    """What an encoder is known by, whatever its folder and precision.

    >>> encoder_name("folder/minilm-fp16")
    'minilm'
    """
    return Path(encoder).name.removesuffix(_HALF)


def known_by(config: Any) -> str:
    """The same for configurations that train the same, but for the seed.

    >>> from dtfixup.reading.presets import ReadingRunConfig
    >>> known_by(ReadingRunConfig(encoder="folder/minilm-fp16")) == known_by(ReadingRunConfig())
    True
    >>> known_by(ReadingRunConfig(hold_out=0.1)) == known_by(ReadingRunConfig())
    False
    """
    plain = to_json(config)
    if "encoder" in plain:
        plain["encoder"] = encoder_name(plain["encoder"])
    if isinstance(training := plain.get("training"), dict):
        free = FREE_ON_RESUME | {"seed"}
        plain["training"] = {name: value for name, value in training.items() if name not in free}
    return json.dumps(plain, sort_keys=True)


def run_key(config: Any, seed: int, data_hash: str) -> str:
    """A short name for one training run: the same for runs that come to the same."""
    return hashlib.sha256(json.dumps([known_by(config), seed, data_hash]).encode()).hexdigest()[:20]


def find_result(
    contents: Iterable[Content], config: Any, seed: int, *, metric: str, data_hash: str | None = None
) -> Content | None:
    """The first of the contents that tells how this run ended: finished, with the metric, or diverged.

    Args:
        contents: of result files, those of plain training included.
        config: frozen dataclass; the seed in it does not count.
        seed: of the run.
        metric: one that the run must have measured: a benchmark of the same configuration has not.
        data_hash: of the data; any data will do by default.
    """
    return Settled(contents).find(config, seed, metric=metric, data_hash=data_hash)


def same_run(content: Content, config: Any, seed: int, *, metric: str, data_hash: str | None = None) -> bool:
    """Whether a result file tells how this run ended; as in `find_result`."""
    return find_result([content], config, seed, metric=metric, data_hash=data_hash) is not None


class Settled:
    """Runs that have ended, among the contents of result files; for many look-ups."""

    def __init__(self, contents: Iterable[Content] = ()) -> None:
        self._contents = [each for each in contents if str(each.get("state", State.FINISHED)) in SETTLED]
        self._by_kind: dict[type, dict[tuple[str, int], list[tuple[Content, Any]]]] = {}

    def add(self, content: Content) -> None:
        """Know one more; those that are known come before it."""
        self._contents.append(content)
        for kind in self._by_kind:
            self._enter(content, kind)

    def find(self, config: Any, seed: int, *, metric: str, data_hash: str | None = None) -> Content | None:
        """As `find_result`."""
        return next(self.matching(config, seed, metric=metric, data_hash=data_hash), None)

    def matching(self, config: Any, seed: int, *, metric: str, data_hash: str | None = None) -> Iterator[Content]:
        """All of the contents that tell how this run ended; as in `find_result`."""
        if (kind := type(config)) not in self._by_kind:
            self._by_kind[kind] = {}
            for content in self._contents:
                self._enter(content, kind)
        for content, found in self._by_kind[kind].get((known_by(config), seed), ()):
            if data_hash not in (None, content.get("data_hash")):
                continue
            if state_of(content) is State.DIVERGED:
                if _patience(found) == _patience(config):
                    yield content
            elif has_measured(content, metric):
                yield content

    def _enter(self, content: Content, kind: type[Any]) -> None:
        seed, found = content.get("seed"), read_config(kind, content)
        if isinstance(seed, int) and found is not None:
            self._by_kind[kind].setdefault((known_by(found), seed), []).append((content, found))


def read_config(kind: type[Config], content: Content) -> Config | None:
    """The configuration of a file; None if it is of another kind."""
    try:
        return from_json(kind, content["config"])
    except (DtFixupError, KeyError, TypeError):  # a field without a default is not there
        return None


def _patience(config: Any) -> list[Any]:
    """A run that others gave up may go on with more of it."""
    training = getattr(config, "training", None)
    return [getattr(training, name, None) for name in _PATIENCE]


def has_measured(content: Content, metric: str) -> bool:
    """Whether a file has the metric of a run; a benchmark of the same configuration has not."""
    metrics = content.get("metrics")
    return isinstance(metrics, Mapping) and metrics.get(metric) is not None
