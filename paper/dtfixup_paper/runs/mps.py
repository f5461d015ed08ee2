"""NVIDIA's Multi-Process Service, for as long as several processes train on one GPU.

Without it the GPU does the kernels of one process or of another; with it, those of all at the same time.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from dtfixup.errors import ConfigError, WorkerStartError

PROGRAM = "nvidia-cuda-mps-control"
_STARTED = "started"
_LIFE = f"{PROGRAM} -d && echo {_STARTED} && {{ cat; echo quit | {PROGRAM}; }}"  # `cat` ends when what is above it does
_PATIENCE = 60.0


@contextmanager
def mps_daemon() -> Iterator[Mapping[str, str]]:
    """Run the service with folders of its own; yields what the processes that shall use it need in their environment.

    It is told to quit in the end, also when this process is killed, which does not use it itself.
    """
    if shutil.which(PROGRAM) is None:
        raise ConfigError(
            f"{PROGRAM} is not on the path, so there is no MPS: it comes with NVIDIA's driver for Linux. Run without it"
        )
    with TemporaryDirectory(prefix="mps-") as folder:  # under /tmp as a rule: names of sockets must be short
        own = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for each in own.values():
            Path(each).mkdir()
        life = subprocess.Popen(
            ["sh", "-c", _LIFE],
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for the trainings first
        )
        assert life.stdin is not None  # as both are pipes
        assert life.stdout is not None
        with life.stdin, life.stdout:
            try:
                said: list[str] = []
                while not said or said[-1] != _STARTED:
                    if not (line := life.stdout.readline()):
                        raise WorkerStartError(f"{PROGRAM} did not start: {' '.join(said) or 'it said nothing'}")
                    said.append(line.strip())
                yield own
            finally:
                life.stdin.close()
                try:
                    life.wait(_PATIENCE)
                except subprocess.TimeoutExpired:  # it hangs: so would whoever uses the GPU next
                    life.kill()
                    life.wait()
                    for file in Path(own["CUDA_MPS_PIPE_DIRECTORY"]).glob("*.pid"):
                        with suppress(ValueError, ProcessLookupError):
                            os.kill(int(file.read_text()), signal.SIGKILL)
