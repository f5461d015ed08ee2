"""Databases asked in English on a web page and over a JSON API: Gradio on FastAPI, behind one check of every request.

>>> from dtfixup.web import serve
>>> serve(["shop.sqlite"])  # doctest: +SKIP
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from dtfixup.web.settings import ServerSettings

__all__ = ["ServerSettings", "serve"]


def serve(
    databases: Sequence[str | Path] = (),
    *,
    connections: Path | None = None,
    samples: bool = True,
    model: Path | None = None,
    settings: ServerSettings | None = None,
    on_line: Callable[[str], None] = print,
) -> None:
    """Serve the page and the API until SIGTERM or Ctrl-C.

    Args:
        databases: SQLite files, URLs, or `sample:NAME`; offered under their names, in this order.
        connections: YAML file of named connections (`store/catalogue.py`), offered next.
        samples: offer the bundled databases too.
        model: folder of a finished run, or a file of weights; the shipped model otherwise.
        settings: where to listen, and how much of the machine visitors may take.
        on_line: receives each line that the server prints at the start, such as its address and token.
    """
    settings = settings or ServerSettings()
    # Torch and Gradio are loaded here and not before: wrong settings should be reported at once.
    from dtfixup.web.store.catalogue import open_catalogue

    catalogue = open_catalogue(databases, connections, samples=samples)
    import torch

    from dtfixup.sql.ask.parser import TextToSql
    from dtfixup.web.store.uploads import UploadStore

    torch.set_num_threads(1)
    parser = TextToSql.load(model)
    uploads = UploadStore(settings)
    uploads.configure_gradio()  # before it is imported
    from dtfixup.web.server import build_site, describe_start, listen

    site = build_site(parser, catalogue, settings, uploads)

    def announce(address: str) -> None:
        for line in describe_start(address, settings):
            on_line(line)

    listen(site, settings, announce)
