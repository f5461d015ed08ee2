"""Real database servers for the tests: installed programs in, a running server in a temporary folder out.

Both listen on a Unix socket only, trust their admin, keep everything below their own folder and are stopped and
removed when the context ends. PostgreSQL refuses to run as root, so as root each runs as its own system user.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pymysql
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

_START_SECONDS = 60
_numbers = count(1)


class MissingServerError(Exception):
    """The programs of a database server are not installed."""


@dataclass(frozen=True)
class Server:
    """A running server: where its admin connects, where its files are and its process."""

    url: str
    folder: Path
    pid: int


@contextmanager
def postgresql_server() -> Iterator[Server]:
    """A PostgreSQL whose superuser is `postgres` and whose empty database is `empty`."""
    initdb, postgres = _find("initdb"), _find("postgres")
    with _folder(("postgres", "nobody")) as (folder, user):
        data = folder / "data"
        _call([initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], user)
        fast = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "log_statement=none"]
        settings = [*fast, "listen_addresses=", f"unix_socket_directories={folder}", "shared_buffers=32MB"]
        command = [postgres, "-D", data, *(part for setting in settings for part in ("-c", setting))]

        def connect() -> None:
            with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE empty")

        with _running(command, user, folder, connect, signal.SIGQUIT) as pid:
            yield Server(f"postgresql+psycopg://postgres@/empty?host={folder}", folder, pid)


@contextmanager
def mariadb_server() -> Iterator[Server]:
    """A MariaDB whose admin is `root` without a password and whose empty database is `empty`."""
    install, mariadbd = _find("mariadb-install-db"), _find("mariadbd")
    with _folder(("mysql", "nobody")) as (folder, user):
        data, socket = folder / "data", folder / "socket"
        small = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync"]
        where = ["--no-defaults", f"--datadir={data}", f"--tmpdir={folder}", *small]
        _call([install, *where, "--auth-root-authentication-method=normal", "--skip-test-db"], user)
        fast = ["--innodb-flush-log-at-trx-commit=0", "--skip-networking", "--skip-log-bin", "--debug-no-sync"]
        command = [mariadbd, *where, *fast, f"--socket={socket}", f"--pid-file={folder / 'pid'}"]

        def connect() -> None:
            if not socket.exists():
                raise pymysql.OperationalError("the server is not up yet")
            with pymysql.connect(unix_socket=str(socket), user="root") as connection:
                connection.cursor().execute("CREATE DATABASE `empty` CHARACTER SET utf8mb4")

        with _running(command, user, folder, connect, signal.SIGKILL) as pid:
            yield Server(f"mysql+pymysql://root@localhost/empty?unix_socket={socket}", folder, pid)


@contextmanager
def fresh_database(admin: str) -> Iterator[str]:
    """The URL of a new database on the server of the admin's URL; it is dropped at the end."""
    name = f"fresh_{next(_numbers)}"
    engine = create_engine(admin, isolation_level="AUTOCOMMIT")
    force = " WITH (FORCE)" if engine.dialect.name == "postgresql" else ""
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield make_url(admin).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(text(f"DROP DATABASE {name}{force}"))
    engine.dispose()


def _find(program: str) -> str:
    """Debian keeps PostgreSQL's programs outside PATH, one folder a version, and servers in sbin."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *map(str, folders)])
    found = shutil.which(program, path=path)
    if found is None:
        raise MissingServerError(f"{program} is not installed; apt-get install postgresql mariadb-server")
    return found


@contextmanager
def _folder(users: Sequence[str]) -> Iterator[tuple[Path, str | None]]:
    """A temporary folder and, for root, the first of `users` that exists, who owns it."""
    # A Unix socket's path may have about 100 bytes, which a temporary folder of pytest can exceed.
    folder = Path(tempfile.mkdtemp(prefix="dtfixup-", dir="/tmp"))
    try:
        user = None
        if os.geteuid() == 0:
            known = {entry.pw_name for entry in pwd.getpwall()}
            user = next(name for name in users if name in known)
            shutil.chown(folder, user)
        yield folder, user
    finally:
        shutil.rmtree(folder)


def _call(command: Sequence[str | Path], user: str | None) -> None:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, **_identity(user))
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")


def _identity(user: str | None) -> dict[str, object]:
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@contextmanager
def _running(
    command: Sequence[str | Path], user: str | None, folder: Path, connect: Callable[[], None], stop: signal.Signals
) -> Iterator[int]:
    """Start a server, wait until `connect` succeeds, stop it at the end whatever happens."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd="/", stdout=output, stderr=output, **_identity(user))
    try:
        _wait(process, log, connect)
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(stop)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, connect: Callable[[], None]) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            return connect()
        except (psycopg.OperationalError, pymysql.OperationalError):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{process.args} did not start: {log.read_text(errors='replace')}") from None
            time.sleep(0.05)
