"""The verb `dtfixup serve`: a web page and a JSON API for questions to databases."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dtfixup.errors import ServeError

if TYPE_CHECKING:
    from dtfixup.web.settings import Settings


def serve(
    model: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 7860,
    databases: Path | None = None,
    runs: Path | None = None,
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
        runs: Folder of training runs for the second tab.
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
    import torch

    from dtfixup.sql.ask.parser import TextToSql
    from dtfixup.web.page.runs import read_runs
    from dtfixup.web.settings import MEBIBYTE, Settings
    from dtfixup.web.store.catalogue import open_catalogue
    from dtfixup.web.store.uploads import UploadStore

    settings = Settings(
        host=host,
        port=port,
        token=token,
        names=tuple(name.strip() for name in names.split(",") if name.strip()),
        workers=workers,
        waiting=waiting,
        ask_deadline=deadline,
        run_deadline=seconds,
        rows=rows,
        upload_bytes=upload * MEBIBYTE,
    )
    catalogue = open_catalogue(databases, samples=samples)
    if runs is not None:
        read_runs(runs)  # a wrong folder should be told of now
    torch.set_num_threads(1)
    parser = TextToSql.load(model)
    uploads = UploadStore(settings)
    uploads.tell_gradio()
    from dtfixup.web.server import build_site
    from dtfixup.web.server import serve as listen

    site = build_site(parser, catalogue, settings, runs, uploads)
    listen(site, settings, lambda address: _tell(address, settings))


def _tell(address: str, settings: "Settings") -> None:
    out = Console(highlight=False, soft_wrap=True)
    shown = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
    end = f"?token={settings.token}" if settings.token is not None else ""
    out.print(f"open http://{shown}/{end}", markup=False)
    out.print(f"API  http://{shown}/api/v1/openapi.json", markup=False)
    if settings.token is not None:
        out.print(
            "The token is printed now and not again; programs send it as 'Authorization: Bearer TOKEN'.", markup=False
        )
    if settings.is_open:
        from dtfixup.web.api.doorkeeper import own_names

        for name in own_names(settings):
            out.print(f"  or http://{name}:{address.rpartition(':')[2]}/{end}", markup=False)
        out.print("Other machines can reach this server. It speaks plain HTTP: put TLS in front of it.", markup=False)
    out.print("Ctrl-C stops it.", markup=False)
