"""What the benchmarks share: options, percentiles, and result files."""

import argparse
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from dtfixup.encoders import encoder_identity
from dtfixup.files import write_json
from dtfixup.provenance import begin, provenance


class Benchmark:
    """The command line and the result file of one benchmark; `--json FILE`, or `--out FILE`, writes the file."""

    def __init__(self, description: str | None) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        self._parser = argparse.ArgumentParser(description=description, formatter_class=formatter)
        self.option("--json", "--out", type=Path, dest="out", help="result file")

    def option(self, *names: str, **how: Any) -> None:
        """Add an option, as `argparse` has it."""
        self._parser.add_argument(*names, **how)

    def start(self) -> argparse.Namespace:
        """Read the options and start the clock."""
        self._options = self._parser.parse_args()
        self._started = begin()
        return self._options

    def refuse(self, message: str) -> None:
        """Exit with a message about the options."""
        self._parser.error(message)

    def finish(
        self,
        name: str,
        metrics: Mapping[str, float],
        *,
        seed: int = 0,
        encoder: str | Path | None = "minilm",
        data_hash: str = "",
        **fields: Any,
    ) -> None:
        """Write the result file if one is asked for; `fields` are added to it."""
        if self._options.out is None:
            return
        identity = {"encoder": ""} if encoder is None else encoder_identity(encoder)
        record = provenance(name, self._command(), self._started, seed=seed, encoder=identity, data_hash=data_hash)
        print(f"result: {write_json(self._options.out, {**record, 'metrics': metrics, **fields})}")

    def _command(self) -> str:
        """The options that were given, with paths masked so that result files can be published."""
        words = ["python", f"benchmarks/{Path(sys.argv[0]).name}"]
        for name, value in vars(self._options).items():
            if value != self._parser.get_default(name):
                words.append("--" + name.replace("_", "-"))
                values = value if isinstance(value, list) else [value]
                words += [_masked(one) for one in values if one is not True]
        return shlex.join(words)


def _masked(value: Any) -> str:
    if isinstance(value, Path):
        return "FILE" if value.suffix else "DIR"
    return str(value)


def show(metrics: Mapping[str, float]) -> None:
    """Print metrics, one a line."""
    for name, value in metrics.items():
        print(f"  {name:32}{value:14,.2f}")


def percentiles(seconds: Sequence[float], name: str) -> dict[str, float]:
    """Median and 95th percentile in milliseconds; `{}` in the name stands for 50 and 95."""
    ordered = sorted(seconds)
    return {name.format(50): 1000 * median(ordered), name.format(95): 1000 * ordered[int(0.95 * (len(ordered) - 1))]}


@contextmanager
def timed(seconds: defaultdict[str, float], stage: str) -> Iterator[None]:
    """Add the processor seconds of a block to those of a stage."""
    started = time.process_time()
    yield
    seconds[stage] += time.process_time() - started


def best_device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
