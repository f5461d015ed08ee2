"""What a server is told at its start.

In: the options of `dtfixup serve`. Out: `Settings`, checked once, so that no request meets a setting that cannot work.
"""

import ipaddress
import math
import secrets
from dataclasses import dataclass, field

from dtfixup.errors import ConfigError

MEBIBYTE = 2**20
_LEAST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """How a server listens, and how much of the machine its visitors may take."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 7860
    """0 takes a free one."""
    token: str | None = None
    """What visitors must know; made where the address is not loopback and none is given."""
    names: tuple[str, ...] = ()
    """Further host names under which visitors reach the server."""
    workers: int = 2
    """Questions answered at once, each on one torch thread, and queries run at once."""
    waiting: int = 16
    """Requests of each kind that may wait for a worker."""
    ask_deadline: float = 30.0
    """Seconds from a question to its answer, waiting included."""
    run_deadline: float = 5.0
    """Seconds that a query may take."""
    rows: int = 200
    """The most rows that a query returns."""
    upload_bytes: int = 50 * MEBIBYTE
    """The largest file that is taken."""
    uploads: int = 20
    """Uploaded files held at once."""
    upload_idle: float = 3600.0
    """Seconds without use after which an uploaded file is removed."""
    is_open: bool = field(init=False)
    """Whether other machines can reach the address."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port: expected a number from 0 to 65535, got {self.port}")
        for name in ("workers", "rows", "upload_bytes", "uploads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.waiting < 0:
            raise ConfigError(f"waiting: expected 0 or more, got {self.waiting}")
        for name in ("ask_deadline", "run_deadline", "upload_idle"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: expected seconds above 0, got {getattr(self, name)}")
        object.__setattr__(self, "is_open", not is_loopback(self.host))
        if self.token is None and self.is_open:
            object.__setattr__(self, "token", secrets.token_urlsafe(24))
        if self.token is not None and (len(self.token) < _LEAST_TOKEN or not _is_plain(self.token)):
            raise ConfigError(
                f"token: expected at least {_LEAST_TOKEN} letters, figures, hyphens or underscores; "
                "leave it out to have one made"
            )


def is_loopback(host: str) -> bool:
    """Whether an address or name can be reached from this machine only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_plain(token: str) -> bool:
    """Whether it can stand in a URL and a header as it is."""
    return token.isascii() and token.replace("-", "").replace("_", "").isalnum()
