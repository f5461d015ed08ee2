"""The server: the API and the page behind one check of every request.

In: settings, a loaded model, databases. Out: answers. On SIGTERM or Ctrl-C it takes no new connection, completes
answers in progress, ends the streams that pages keep open, and stops.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import uvicorn
from fastapi import FastAPI
from gradio.route_utils import upload_fn
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import ASGIApp

from dtfixup.errors import ServeError, UploadError
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.web.api.access import UPLOAD, AccessControl, own_names
from dtfixup.web.api.refusals import refusal_of
from dtfixup.web.api.routes import PREFIX, build_api
from dtfixup.web.api.service import AnswerService
from dtfixup.web.page.ask import PageActions
from dtfixup.web.page.layout import HEAD, build_page, style, theme
from dtfixup.web.settings import ServerSettings
from dtfixup.web.store.catalogue import Catalogue
from dtfixup.web.store.uploads import UploadStore

_PURGE_SECONDS = 60.0
_WRITE_SECONDS = 0.5
"""Time to send the last answers."""


@dataclass
class Site:
    """The parts of a server; `close` removes what it wrote."""

    app: ASGIApp
    service: AnswerService
    uploads: UploadStore
    gradio_app: Any

    def close(self) -> None:
        self.service.close()
        self.uploads.close()


def build_site(
    parser: TextToSql,
    catalogue: Catalogue,
    settings: ServerSettings,
    uploads: UploadStore | None = None,
) -> Site:
    """Put the parts together, without listening yet."""
    uploads = uploads or UploadStore(settings)
    uploads.configure_gradio()
    service = AnswerService(parser, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        purging = asyncio.create_task(_purge(uploads))
        yield
        purging.cancel()

    whole = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    whole.mount(PREFIX, build_api(service, catalogue))
    _receive_uploads(whole, uploads, settings)
    # Inside an event loop, since Gradio makes loops of its own where there is none, and leaves them open.
    mounted = asyncio.run(_mount_page(whole, PageActions(service, catalogue, uploads), settings))
    mounted.uploaded_file_dir = str(uploads.incoming)
    return Site(AccessControl(whole, settings, uploads.has_room), service, uploads, mounted)


def _receive_uploads(whole: FastAPI, uploads: UploadStore, settings: ServerSettings) -> None:
    """Replace Gradio's upload route, by which two visitors who send the same file would share one copy."""

    @whole.post(UPLOAD)
    async def receive(request: Request) -> Response:
        try:
            received, _, _ = await upload_fn(request, str(uploads.incoming), settings.upload_bytes, None)
        except MultiPartException as error:
            refusal = refusal_of(UploadError(f"the upload cannot be read: {error.message}"))
            return JSONResponse(refusal.content(), refusal.status)
        # Nothing was awaited since the file was named, so it is this visitor's.
        return JSONResponse([str(file) for file in uploads.set_apart([Path(name) for name in received])])


async def _mount_page(whole: FastAPI, actions: PageActions, settings: ServerSettings) -> Any:
    """Put the page at `/`; the result is Gradio's own application."""
    page = build_page(actions)
    gr.mount_gradio_app(
        whole,
        page,
        path="/",
        server_name=settings.host,
        server_port=settings.port,
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=settings.upload_bytes,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        theme=theme(),
        css=style(),
        head=HEAD,
    )
    page.has_launched = True  # or Gradio trusts every path as the developer's own
    mounted = whole.routes[-1]
    assert isinstance(mounted, Mount)  # that was the last call
    return mounted.app


async def _purge(uploads: UploadStore) -> None:
    while True:
        await asyncio.sleep(_PURGE_SECONDS)
        await asyncio.to_thread(uploads.purge)


class Server(uvicorn.Server):
    """Stops when every request in progress is answered."""

    def __init__(self, config: uvicorn.Config, site: Site, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._site, self._on_start = site, on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._on_start(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._site.service.is_closing = True
        ending = asyncio.create_task(self._end_streams())
        await super().shutdown(sockets)
        ending.cancel()

    async def _end_streams(self) -> None:
        """End the streams that open pages hold, once all answers are sent."""
        while not self._site.service.is_idle:
            await asyncio.sleep(0.05)
        await asyncio.sleep(_WRITE_SECONDS)
        self._site.gradio_app.stop_event.set()
        await asyncio.sleep(_WRITE_SECONDS)
        for task in list(self.server_state.tasks):
            task.cancel()


def listen(site: Site, settings: ServerSettings, on_start: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C; `on_start` receives the address."""
    longest = settings.answer_seconds + settings.deadline + 30
    config = uvicorn.Config(
        site.app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(longest),
        lifespan="on",
        ws="none",
    )
    # uvicorn sends itself the signal again when it has stopped, which would end the process before it has cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with open_socket(settings) as listening, suppress(KeyboardInterrupt):
            Server(config, site, on_start).run(sockets=[listening])
    finally:
        site.close()


def describe_start(address: str, settings: ServerSettings) -> list[str]:
    """The lines that a server prints at the start: where to open it, and its token."""
    shown = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")
    end = f"?token={settings.token}" if settings.token is not None else ""
    lines = [f"open http://{shown}/{end}", f"API  http://{shown}/api/v1/openapi.json"]
    if settings.token is not None:
        lines.append("The token is printed only now; programs send it as 'Authorization: Bearer TOKEN'.")
    if settings.is_open:
        port = address.rpartition(":")[2]
        lines += [f"  or http://{name}:{port}/{end}" for name in own_names(settings)]
        lines.append("Other machines can reach this server. It speaks plain HTTP: put TLS in front of it.")
    return [*lines, "Ctrl-C stops it."]


def open_socket(settings: ServerSettings) -> socket.socket:
    """A socket that listens, or an error that says what to change."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServeError(
            f"{settings.host} is not an address of this machine ({error.strerror}): give another --host"
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ServeError(
            f"{settings.host}:{settings.port} cannot be opened ({error.strerror}): give another --port, "
            "0 for any free one, or another --host"
        ) from None
    return listening
