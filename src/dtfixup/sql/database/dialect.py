"""The dialects of SQL, and the kinds of URLs that lead to them.

A new dialect needs a reader of its catalogue (`catalogs.py`), its driver (`connections.py`), a guard
(`execution/guarded.py`), the rules of the text filter (`execution/text_filter.py`) and its translation
(`dialects/translate.py`).
"""

from enum import StrEnum


class Dialect(StrEnum):
    """The SQL that a database speaks; the value is sqlglot's name of it."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgres"
    MARIADB = "mysql"


DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql"}
"""The one driver that is used for each kind of URL."""

SERVERS = {"postgresql": Dialect.POSTGRESQL, "mysql": Dialect.MARIADB, "mariadb": Dialect.MARIADB}
"""The dialect of each kind of URL that names a server."""
