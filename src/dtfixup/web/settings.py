"""The settings of a server: the options of `dtfixup serve`, checked once at the start."""

import ipaddress
import math
import secrets
from dataclasses import dataclass

from dtfixup.errors import ConfigError

MEBIBYTE = 2**20
_MIN_TOKEN = 16


@dataclass(frozen=True)
class ServerSettings:
    """Where a server listens, and how much of the machine its visitors may take."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all addresses of this machine."""
    port: int = 7860
    """Port to listen on; 0 for any free one."""
    token: str | None = None
    """Secret that visitors need, at least 16 characters; generated if needed and not given."""
    host_names: tuple[str, ...] = ()
    """Further host names under which visitors reach the server."""
    workers: int = 2
    """Questions answered at once, each on one thread, and queries run at once."""
    waiting: int = 16
    """Requests of each kind that may wait for a worker."""
    answer_seconds: float = 30.0
    """Seconds from a question to its answer, waiting included."""
    deadline: float = 5.0
    """Seconds that a query may run."""
    rows: int = 200
    """Maximum number of rows that a query returns."""
    upload_mib: float = 50.0
    """MiB of the largest SQLite file that visitors may upload."""
    uploads: int = 20
    """Uploaded files held at once."""
    upload_idle: float = 3600.0
    """Seconds without use after which an uploaded file is removed."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port: expected a number from 0 to 65535, got {self.port}")
        for name in ("workers", "rows", "uploads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.waiting < 0:
            raise ConfigError(f"waiting: expected 0 or more, got {self.waiting}")
        for name in ("answer_seconds", "deadline", "upload_idle", "upload_mib"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: expected a number above 0, got {getattr(self, name)}")
        if self.token is None and self.is_open:
            object.__setattr__(self, "token", secrets.token_urlsafe(24))
        if self.token is not None and (len(self.token) < _MIN_TOKEN or not _is_url_safe(self.token)):
            raise ConfigError(
                f"token: expected at least {_MIN_TOKEN} letters, digits, hyphens or underscores; "
                "leave it out to have one generated"
            )

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the address."""
        return not is_loopback(self.host)

    @property
    def upload_bytes(self) -> int:
        """The largest file that is accepted."""
        return int(self.upload_mib * MEBIBYTE)


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


def _is_url_safe(token: str) -> bool:
    return token.isascii() and token.replace("-", "").replace("_", "").isalnum()
