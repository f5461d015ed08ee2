"""The verb `dtfixup serve`: a web page and a JSON API for questions to databases."""

import os
from importlib.util import find_spec
from pathlib import Path

from dtfixup.errors import ServeError


def serve(
    model: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 7860,
    databases: Path | None = None,
    token: str | None = None,
    names: str = "",
    samples: bool = True,
    workers: int = 2,
    waiting: int = 16,
    deadline: float = 30.0,
    seconds: float = 5.0,
    rows: int = 200,
    upload: int = 50,
) -> None:
    """Open a web page on which databases can be asked in English, and a JSON API under /api/v1.

    Other machines reach it only where --host says so; visitors then need a token, which is printed once.

    Args:
        model: Folder of a finished run, or a file of weights.
        host: Address to listen on; 0.0.0.0 for all of this machine's.
        port: Port to listen on; 0 for any that is free.
        databases: YAML file of named connections (docs/start/serve.md).
        token: What visitors must know, at least 16 characters; made where it is needed and not given.
        names: Host names, separated by commas, under which visitors reach the server.
        samples: Offer the bundled databases.
        workers: Questions answered at once, each on one thread; and queries run at once.
        waiting: Requests that may wait for a worker.
        deadline: Seconds from a question to its answer, waiting included.
        seconds: How long a query may run.
        rows: The most rows that a query returns.
        upload: MiB of the largest SQLite file that visitors may upload.
    """
    # Before torch is loaded: threads that wait for each other by spinning take seconds on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if find_spec("gradio") is None:
        raise ServeError("the page needs Gradio: pip install '.[web]'")
    from dtfixup import web

    settings = web.ServerSettings(
        host=host,
        port=port,
        token=token,
        host_names=tuple(name.strip() for name in names.split(",") if name.strip()),
        workers=workers,
        waiting=waiting,
        answer_seconds=deadline,
        deadline=seconds,
        rows=rows,
        upload_mib=upload,
    )
    web.serve(connections=databases, samples=samples, model=model, settings=settings)
