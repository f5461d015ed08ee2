"""Databases for hostile statements to be let loose on: what they hold, their whole state, and how to mend them."""

import hashlib
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from sqlalchemy.engine import URL, make_url

_PATIENCE = 30.0
PETS = [(number, f"pet {number}", number % 20, number % 7) for number in range(1, 201)]


class SqliteStage:
    """A SQLite file with a neighbour; the state is every file of the folder, by its bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = str(folder / "main.db")
        with closing(sqlite3.connect(self.url)) as connection, connection:
            connection.executescript("""
                CREATE TABLE pets (id INTEGER PRIMARY KEY, name TEXT, age INT, owner INT);
                CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT);
                INSERT INTO owners VALUES (1, 'Ann');
                CREATE INDEX pets_name ON pets (name);
                CREATE VIEW old_pets AS SELECT * FROM pets WHERE age > 10;
                CREATE TRIGGER old_pets_delete INSTEAD OF DELETE ON old_pets BEGIN DELETE FROM owners; END;
                CREATE VIRTUAL TABLE notes USING fts5 (body);
            """)
            connection.executemany("INSERT INTO pets VALUES (?, ?, ?, ?)", PETS)
        with closing(sqlite3.connect(folder / "other.db")) as connection:
            connection.execute("CREATE TABLE secrets (word)")
        self.untouched = self.state()

    def state(self) -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(self.folder.iterdir())}

    def prove(self, sql: str, scratch: Path) -> None:
        """Run a statement on a copy as any program would; raises where it is not real."""
        shutil.copytree(self.folder, scratch)
        with closing(sqlite3.connect(scratch / "main.db", isolation_level=None)) as connection:
            try:
                connection.execute(sql.replace(str(self.folder), str(scratch)))
            except (sqlite3.Warning, sqlite3.ProgrammingError):
                connection.executescript(sql)


class PostgresqlStage:
    """A database with a role that may only read it, and two sessions that hostile statements can disturb."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.url = url
        self.admin: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(_plain(url), autocommit=True)
        database = make_url(url).database
        self.admin.execute(
            b"""
            CREATE TABLE pets (id serial PRIMARY KEY, name text, age int, owner int);
            CREATE TABLE owners (id int PRIMARY KEY, name text);
            CREATE TABLE secrets (word text);
            CREATE MATERIALIZED VIEW pet_count AS SELECT count(*) FROM pets;
            CREATE FUNCTION grow() RETURNS int LANGUAGE sql AS 'INSERT INTO pets (name) VALUES (''x'') RETURNING id';
            CREATE PROCEDURE grow_all() LANGUAGE plpgsql AS
                'BEGIN COMMIT; INSERT INTO pets (name) VALUES (''x''); COMMIT; END';
            CREATE EXTENSION dblink;
            SELECT lo_from_bytea(0, 'treasure');
            """
        )
        self.admin.execute(advised_role("PostgreSQL", database).encode())
        with self.admin.cursor() as cursor:
            cursor.executemany("INSERT INTO pets VALUES (%s, %s, %s, %s)", PETS)
        self._set_sequence()
        self.holder = psycopg.connect(_plain(url), autocommit=True)
        self.holder.execute("SELECT pg_advisory_lock(99)")
        self.victim = self._new_victim()
        self.untouched = self.state()

    @property
    def reader_url(self) -> str:
        return make_url(self.url).set(username="reader", password="choose-one").render_as_string(hide_password=False)

    def state(self) -> dict[str, Any]:
        found = {query: self.admin.execute(query.encode()).fetchall() for query in _POSTGRESQL_STATE}
        return found | {"files": _files(self.folder, ("data/base", "data/pg_wal", "data/pg_stat", "data/global"))}

    def mend(self) -> None:
        """Undo what statements that only a role can stop have done."""
        (self.folder / "evil").unlink(missing_ok=True)
        self.admin.execute("DELETE FROM pets WHERE name = 'x'")
        self._set_sequence()
        self.admin.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        self.victim.close()
        self._await_no_victim()
        self.victim = self._new_victim()

    def _set_sequence(self) -> None:
        self.admin.execute("SELECT setval('pets_id_seq', 1000)")

    def _await_no_victim(self) -> None:
        """A session is gone when its process is, which on a busy machine is later than it was closed."""
        ends = time.monotonic() + _PATIENCE
        while self.admin.execute(_VICTIMS.encode()).fetchall() != [(0,)]:
            assert time.monotonic() < ends, "the session that was closed is still there"
            time.sleep(0.01)

    def _new_victim(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(_plain(self.url), autocommit=True, application_name="victim")

    def prove(self, sql: str) -> None:
        """Run a statement as the admin in a transaction that is rolled back; raises where it is not real."""
        with closing(psycopg.connect(_plain(self.url), autocommit=True)) as connection:
            connection.execute("SET statement_timeout = '100ms'")
            connection.execute("BEGIN")
            connection.execute(sql.encode())

    def close(self) -> None:
        self.holder.close()
        self.victim.close()
        self.admin.execute("DROP OWNED BY reader; DROP ROLE reader")
        self.admin.close()


class MariadbStage:
    """A database with a user that may only read two of its tables, and a session that holds a lock."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.url = url
        self.admin = _mariadb(make_url(url))
        self._fill(self.admin)
        for statement in advised_role("MariaDB", make_url(url).database).strip().split(";\n"):
            self.admin.cursor().execute(statement)
        self.holder = _mariadb(make_url(url))
        self.holder.cursor().execute("SELECT GET_LOCK('held', 0)")
        self.untouched = self.state()

    @staticmethod
    def _fill(connection: Any) -> None:
        cursor = connection.cursor()
        for statement in _MARIADB_TABLES:
            cursor.execute(statement)
        cursor.executemany("INSERT INTO pets VALUES (%s, %s, %s, %s)", PETS)

    @property
    def reader_url(self) -> str:
        return make_url(self.url).set(username="reader", password="choose-one").render_as_string(hide_password=False)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        cursor = self.admin.cursor()
        for query in _MARIADB_STATE:
            cursor.execute(query)
            found[query] = cursor.fetchall()
        return found | {"files": _files(self.folder, ("data/aria_log", "data/#", "data/ib", "#"))}

    def mend(self) -> None:
        """Nothing that only a role can stop changes anything here."""

    def prove(self, sql: str) -> None:
        """Run a statement as the admin in a database of its own; raises where it is not real."""
        cursor = self.admin.cursor()
        cursor.execute("CREATE DATABASE scratch")
        try:
            several = make_url(self.url).set(database="scratch")
            with closing(_mariadb(several, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)) as connection:
                scratch = connection.cursor()
                scratch.execute("SET SESSION default_storage_engine = MyISAM")  # quicker to make
                self._fill(connection)
                scratch.execute("SET SESSION max_statement_time = 0.1")
                scratch.execute(sql)
                while scratch.nextset():
                    pass
        finally:
            cursor.execute("DROP DATABASE scratch")
            cursor.execute("SET GLOBAL max_connections = DEFAULT")

    def close(self) -> None:
        self.holder.close()
        self.admin.cursor().execute("DROP USER reader@localhost")
        self.admin.close()


def advised_role(kind: str, database: str | None) -> str:
    """The statements of docs/explain/safety.md that make a restricted role, for a database."""
    guide = (Path(__file__).parents[3] / "docs" / "explain" / "safety.md").read_text(encoding="utf-8")
    section = guide.split(f"| {kind}, as a")[1]
    return section.split("```sql\n")[1].split("```")[0].replace("shop", str(database))


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _mariadb(url: URL, **options: Any) -> Any:
    socket = str(url.query["unix_socket"])
    return pymysql.connect(user=url.username, database=url.database, unix_socket=socket, autocommit=True, **options)


def _files(folder: Path, volatile: tuple[str, ...]) -> list[str]:
    """Every file of a server but those it makes and removes at its own pace."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in names if not name.startswith(volatile))


_VICTIMS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim'"
_POSTGRESQL_STATE = (
    "SELECT * FROM pets ORDER BY id",
    "SELECT * FROM owners",
    "SELECT last_value, is_called FROM pets_id_seq",
    "SELECT relname, relkind, relacl::text FROM pg_class WHERE relname !~ '^pg_toast' ORDER BY oid",
    "SELECT proname FROM pg_proc ORDER BY oid",
    "SELECT attrelid, attname FROM pg_attribute ORDER BY 1, 2",
    "SELECT rolname, rolsuper FROM pg_roles ORDER BY oid",
    "SELECT datname FROM pg_database ORDER BY oid",
    "SELECT nspname FROM pg_namespace WHERE nspname !~ 'temp' ORDER BY oid",
    "SELECT tgname FROM pg_trigger ORDER BY oid",
    "SELECT description FROM pg_description WHERE objoid = 'pets'::regclass",
    "SELECT loid, data FROM pg_largeobject ORDER BY 1",
    "SELECT name, setting FROM pg_file_settings",
    "SELECT slot_name FROM pg_replication_slots",
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1",
    "SELECT gid FROM pg_prepared_xacts",
    _VICTIMS,
)
_MARIADB_TABLES = (
    "CREATE TABLE pets (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50), age INT, owner INT)",
    "CREATE TABLE owners (id INT PRIMARY KEY, name VARCHAR(50))",
    "CREATE TABLE plain (a INT) ENGINE=MyISAM",
    "CREATE TABLE secrets (word TEXT)",
    "CREATE SEQUENCE numbers",
    "CREATE FUNCTION grow() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO plain VALUES (9); RETURN 1; END",
    "CREATE PROCEDURE grow_all() BEGIN COMMIT; START TRANSACTION READ WRITE; INSERT INTO plain VALUES (9); COMMIT; END",
)
_MARIADB_STATE = (
    "SELECT * FROM pets ORDER BY id",
    "SELECT * FROM owners",
    "SELECT * FROM plain",
    "SELECT next_not_cached_value FROM numbers",
    "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1, 2",
    "SELECT schema_name FROM information_schema.schemata ORDER BY 1",
    "SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
    "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1",
    "SELECT event_name FROM information_schema.events ORDER BY 1",
    "SELECT plugin_name FROM information_schema.plugins ORDER BY 1",
    "SELECT host, user, priv FROM mysql.global_priv ORDER BY 1, 2",
    "SELECT variable_name, variable_value FROM information_schema.global_variables ORDER BY 1",
    "SELECT IS_FREE_LOCK('evil'), IS_FREE_LOCK('held')",
    "SELECT COUNT(*) FROM information_schema.innodb_trx",
)
