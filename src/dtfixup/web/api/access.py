"""Access control: checks every request before the page or the API gets it.

In: a request. Out: the request, or a refusal: of a host name that is not ours (a foreign page can point its own name at
this machine), of a foreign origin, of a missing token, of a body that is too large, and of every route that the page
does not need; some of Gradio's open files and fetch URLs. Response headers keep the page from loading anything from
elsewhere.
"""

import hashlib
import hmac
import html
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dtfixup.web.api.refusals import Refusal
from dtfixup.web.api.routes import PREFIX
from dtfixup.web.settings import MEBIBYTE, ServerSettings

UPLOAD = "/gradio_api/upload"
ENTER = "/enter"
HEALTH = f"{PREFIX}/health"
_COOKIE = "dtfixup"
_ROUTES = re.compile(
    r"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/robots\.txt|/(?:assets|static)/[\w./@-]+"
    r"|/gradio_api/(?:info|upload|upload_progress|queue/join|queue/data|startup-events|reset|cancel|app_id|theme\.css"
    r"|heartbeat/[\w-]+)/?"
)
"""Routes that the page uses."""
_LARGEST = 2 * MEBIBYTE
"""Limit of requests other than uploads; the longest statement fits with every character escaped."""
_FORM_OVERHEAD = 64 * 1024
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",  # with none at all, browsers say of our own form that it has no origin
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass
class AccessControl:
    """An ASGI application around another."""

    app: ASGIApp
    settings: ServerSettings
    has_room: Callable[[], bool]
    """Whether one more upload may be received."""

    def __post_init__(self) -> None:
        token = self.settings.token
        # The cookie is not the token: who reads it can use this server until it stops, and no other.
        key = secrets.token_bytes(32)
        self._cookie = None if token is None else hmac.new(key, token.encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        response = await self._check(scope, receive)
        await (response or self.app)(scope, receive, _with_headers(send))

    async def _check(self, scope: Scope, receive: Receive) -> Response | None:
        """The response to a request that is not passed on; None if it is."""
        headers, path = Headers(scope=scope), scope["path"]
        if (foreign := self._foreign(headers)) is not None:
            return _refused(foreign)
        if "transfer-encoding" in headers:  # it overrides Content-Length
            return _refused(
                Refusal(411, "length", "the request does not say how long it is", "Send a Content-Length alone.")
            )
        if path == ENTER:
            return await self._enter(Request(scope, receive))
        if self.settings.token is not None and path != HEALTH and not self._has_token(scope, headers):
            return self._ask_for_token(scope, headers)
        # A line end would get past the patterns of routes.
        if not path.isprintable() or not (path.startswith(f"{PREFIX}/") or _ROUTES.fullmatch(path)):
            return _refused(Refusal(404, "not_found", f"there is nothing at {path[:80]}", "Begin at /."))
        if (too_large := self._too_large(scope, headers)) is not None:
            return _refused(too_large)
        return None

    def _foreign(self, headers: Headers) -> Refusal | None:
        """A refusal if a page of another site, or a name that is not ours, is behind the request."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Refusal(
                403,
                "foreign_host",
                f"this server does not answer to the name {host[:80]!r}",
                "Open it by the address it printed, or start it with --host-names and the name.",
            )
        origin = headers.get("origin")
        is_foreign = origin is not None and not _is_own(origin, host)
        is_embedded = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        if is_foreign or is_embedded:
            return Refusal(
                403, "foreign_origin", "requests of pages of other sites are refused", "Use the page of this server."
            )
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header is ours: a known name, or an address, which for a loopback server is loopback.

        An address, unlike a name, cannot be made to point elsewhere.
        """
        name = _host_name(host)
        if name is None:
            return False
        if name == "localhost" or name in own_names(self.settings):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return self.settings.is_open and name == self.settings.host.lower()
        return self.settings.is_open or address.is_loopback

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        token, cookie = self.settings.token or "", self._cookie or ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), token):
            return True
        return _same(cookie_parser(headers.get("cookie", "")).get(_COOKIE, ""), cookie)

    def _ask_for_token(self, scope: Scope, headers: Headers) -> Response:
        if scope["method"] == "GET" and scope["path"] == "/":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            if _same(query.get("token", [""])[0], self.settings.token or ""):
                return self._welcome(scope)
            if "text/html" in headers.get("accept", ""):
                return HTMLResponse(_FORM, 401)
        refusal = Refusal(
            401,
            "token",
            "this server asks for its token",
            "Send the header 'Authorization: Bearer TOKEN', or open the address that the server printed at its start.",
            {"WWW-Authenticate": "Bearer"},
        )
        return _refused(refusal)

    async def _enter(self, request: Request) -> Response:
        """The form of the page that asks for the token."""
        if request.method != "POST" or self.settings.token is None:
            return RedirectResponse("/", 303)
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > 4096:
            return _refused(Refusal(413, "too_large", "this is no token", "Send the form of this page."))
        given = parse_qs((await request.body()).decode("latin-1")).get("token", [""])[0]
        if not _same(given.strip(), self.settings.token):
            return HTMLResponse(_FORM.replace("<!---->", "<p role=alert>That is not the token.</p>"), 401)
        return self._welcome(request.scope)

    def _welcome(self, scope: Scope) -> Response:
        response = RedirectResponse("/", 303)
        is_secure = scope.get("scheme") == "https"
        # Not strict: else a link in a mail or a chat would always lead to the form.
        response.set_cookie(_COOKIE, self._cookie or "", httponly=True, samesite="lax", secure=is_secure)
        return response

    def _too_large(self, scope: Scope, headers: Headers) -> Refusal | None:
        """A refusal if the body is too large; it states its length, which uvicorn enforces."""
        path = scope["path"]
        length = headers.get("content-length", "0")
        most = self.settings.upload_bytes + _FORM_OVERHEAD if path.rstrip("/") == UPLOAD else _LARGEST
        if not length.isdecimal() or int(length) > most:
            limit = f"{most / MEBIBYTE:.3g} MiB"
            return Refusal(413, "too_large", f"the request is larger than {limit}", "Send less.")
        if path.rstrip("/") == UPLOAD and not self.has_room():
            return Refusal(
                503, "full", "the server holds as many uploads as it may", "Try again later.", {"Retry-After": "60"}
            )
        return None


def own_names(settings: ServerSettings) -> list[str]:
    """The host names by which other machines may call the server."""
    machine = [socket.gethostname()] if settings.is_open else []
    return list(dict.fromkeys(name.lower() for name in (*settings.host_names, *machine)))


def _host_name(host: str) -> str | None:
    """The name of a Host header without its port; None if the header is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises unless it is a number
    except ValueError:
        return None
    name = (parts.hostname or "").rstrip(".")
    return name if name and parts.netloc == host and "@" not in host and not parts.path else None


def _authority(url: str) -> tuple[str, int] | None:
    """Host and port of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return None if port is None or not parts.hostname else (parts.hostname.rstrip("."), port)


def _is_own(origin: str, host: str) -> bool:
    """Whether a page of this origin came from this host; pages without one, such as files, say "null"."""
    authority = _authority(origin)
    return authority is not None and authority == _authority(f"{origin.partition(':')[0]}://{host}")


def _same(given: str, known: str) -> bool:
    return bool(known) and hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _refused(refusal: Refusal) -> Response:
    return Response(refusal.body(), refusal.status, dict(refusal.headers), "application/json")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            del headers["access-control-allow-origin"]
        await send(message)

    return sending


_FORM = f"""<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1"><title>dtfixup</title>
<style>:root{{color-scheme:light dark}}
body{{font:1rem/1.6 system-ui,sans-serif;max-width:22rem;margin:18vh auto;padding:0 1.5rem}}
input,button{{font:inherit;width:100%;box-sizing:border-box;padding:.7rem .9rem}}
input,button{{border-radius:.6rem;border:1px solid #8888}}
button{{margin-top:.8rem;background:#0f766e;color:#fff;border:0;cursor:pointer}}</style>
<h1>Ask your database</h1><p>The server printed a token when it started.</p><!---->
<form method=post action="{html.escape(ENTER)}"><label for=token>Token</label>
<input id=token name=token type=password autocomplete=current-password required autofocus>
<button>Open</button></form>"""
