"""The verb `dtfixup serve`: a web page and a JSON API for questions to databases."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dtfixup.cli.options import locate
from dtfixup.cli.parse import Settings
from dtfixup.errors import MissingExtraError
from dtfixup.web.settings import ServerSettings


def serve(
    offered: Annotated[Positional[tuple[str, ...]], arg(metavar="[DATABASE ...]")] = (),
    *,
    databases: Path | None = None,
    samples: bool = True,
    model: Path | None = None,
    settings: Annotated[ServerSettings, Settings(hidden=frozenset({"uploads", "upload_idle"}))] = ServerSettings(),  # noqa: B008, it is frozen
) -> None:
    """Open a web page on which databases can be asked in English, and a JSON API under /api/v1.

    Other machines reach it only if --host says so; visitors then need a token, which is printed once.

    Args:
        offered: Databases to offer: SQLite files, URLs such as postgresql://user@host/name, or bundled databases such
            as sample:river_ferry.
        databases: YAML file of named connections (docs/start/serve.md).
        samples: Do not offer the bundled databases.
        model: Folder of a finished run, or a file of weights; the shipped model by default.
    """
    # Before torch is loaded: threads that wait for each other by spinning take seconds on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if find_spec("gradio") is None:  # not imported here: it reads its settings at import
        raise MissingExtraError("gradio is needed for the page: pip install 'dtfixup[web]'")
    from dtfixup import web

    for database in offered:
        locate(database)  # a wrong one is reported at once, with what is taken
    web.serve(offered, connections=databases, samples=samples, model=model, settings=settings)
