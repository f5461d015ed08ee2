"""A real server process for tests: `dtfixup serve` in, its address out."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running server; `folder` is where it keeps what visitors upload, below the folder for temporary files."""

    url: str
    process: "subprocess.Popen[str]"
    folder: Path
    printed: str

    @property
    def has_children(self) -> bool:
        """Whether it has begun to run a query: that takes a process."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return any((task / "children").read_text().strip() for task in tasks.iterdir())

    def uploads(self) -> list[Path]:
        return [path for path in self.folder.rglob("*.sqlite") if path.is_file()]


@contextmanager
def serving(model: Path, temporary: Path, *options: str) -> Iterator[Served]:
    """A server on a free port; it is stopped at the end whatever happens."""
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dtfixup", "serve", "--model", str(model), "--port", "0", *options]
    environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=temporary
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            line = process.stdout.readline()
            if not line:
                assert process.stderr is not None
                raise RuntimeError(f"the server did not start: {process.stderr.read()}")
            lines.append(line)
        printed = "".join(lines)
        match = re.search(r"open (http://\S+)", printed)
        assert match, printed
        yield Served(match[1], process, temporary, printed)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
