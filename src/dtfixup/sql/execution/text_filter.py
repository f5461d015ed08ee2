"""The second layer of the guard: refuse a statement whose text is not one plain query.

In: SQL text and its dialect. Out: nothing, or `RefusedError`. Reading text can be fooled, so nothing relies on this. It
gives clear messages early, and refuses functions that otherwise only a restricted role could stop.
"""

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dtfixup.errors import RefusedError
from dtfixup.sql.database.dialect import Dialect

MAX_STATEMENT = 100_000
"""Characters in a statement."""
MAX_DEPTH = 40
"""Levels of nesting. sqlglot recurses, and its compiled form ends the process when the stack overflows."""


def check_statement(sql: str, dialect: Dialect) -> None:
    """Refuse everything but one query that only reads.

    >>> check_statement("SELECT name FROM pets -- all of them", Dialect.SQLITE)
    >>> check_statement("DROP TABLE pets", Dialect.SQLITE)
    Traceback (most recent call last):
    dtfixup.errors.RefusedError: refused: DROP is not a query
    """
    _check_words(sql, dialect)
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect.value) if tree is not None]
    except SqlglotError as error:
        reason = _TOKEN.sub(r"'\1'", str(error).splitlines()[0])
        raise RefusedError(f"refused: the statement cannot be read: {reason}") from None
    except RecursionError:
        raise RefusedError("refused: the statement is nested too deeply") from None
    if len(trees) != 1:
        raise RefusedError(f"refused: expected one statement, got {len(trees)}")
    _check_tree(trees[0], dialect)


def _check_words(sql: str, dialect: Dialect) -> None:
    """Check what needs no parser: the first word, the depth, comments that the server executes."""
    if len(sql) > MAX_STATEMENT:
        raise RefusedError(f"refused: the statement has {len(sql)} characters; {MAX_STATEMENT} are allowed")
    first = last = ""
    depth = run = chained = deepest = 0
    for match in _LEXEMES[dialect].finditer(sql):
        kind, text = match.lastgroup, match.group().upper()
        if kind == "comment":
            if dialect is Dialect.MARIADB and text.startswith(("/*!", "/*M!", "/*+")):
                raise RefusedError(f"refused: a comment that begins with {text[:3]} is read by the server")
            continue
        first = first or (text if kind == "word" else "")
        depth += (text in _OPENING) - (text in _CLOSING)
        run = run + 1 if kind != "other" and (text == last or (text in _PREFIXES and last in _PREFIXES)) else 0
        chained += text in _CHAINED or kind == "type"
        deepest = max(deepest, depth, run, chained)
        last = text
    if first not in _QUERIES:
        raise RefusedError(f"refused: {first} is not a query" if first else "refused: the statement says nothing")
    if deepest > MAX_DEPTH:
        raise RefusedError(f"refused: the statement is nested more than {MAX_DEPTH} levels deep")


def _check_tree(tree: exp.Expr, dialect: Dialect) -> None:
    if not isinstance(tree, exp.Query | exp.Values):
        raise RefusedError(f"refused: {tree.key.upper()} is not a query")
    for node in tree.walk():
        if isinstance(node, exp.Lock):
            raise RefusedError("refused: FOR UPDATE and FOR SHARE lock rows")
        if isinstance(node, _NOT_READING):
            raise RefusedError(f"refused: {node.key.upper()} is not reading")
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if _FUNCTIONS[dialect].fullmatch(name):
                raise RefusedError(f"refused: the function {name} does more than read the database")


def _lexemes(comment: str, text: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?P<comment>{comment}|/\*.*?(?:\*/|\Z))
        |(?P<quoted>'(?:{text}|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
        |(?P<type>(?:ARRAY|STRUCT|MAP)\s*<)
        |(?P<word>[^\W\d][\w$]*)
        |(?P<operator>:=|[-+~!@(\[{{)\]}}])
        |(?P<other>\S)""",
        re.VERBOSE | re.DOTALL | re.IGNORECASE,
    )


_TOKEN = re.compile(r"<Token token_type: .*?, text: (.*?), line: .*?>")  # in sqlglot's messages
_LEXEMES = {
    Dialect.SQLITE: _lexemes(r"--[^\n]*", r"[^']"),
    Dialect.POSTGRESQL: _lexemes(r"--[^\n]*", r"[^']"),
    Dialect.MARIADB: _lexemes(r"--[^\n]*|\#[^\n]*", r"[^'\\]|\\."),
}
_OPENING = frozenset({"(", "[", "{", "CASE"})
_CLOSING = frozenset({")", "]", "}", "END"})
_PREFIXES = frozenset({"-", "+", "~", "!", "@", "NOT"})
# Each of these takes the parser one level down without a bracket.
_CHAINED = frozenset({":=", "ZONE"})
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_NOT_READING = (exp.DML, exp.DDL, exp.Drop, exp.Command, exp.Into, exp.Alter, exp.Set)
_FUNCTIONS = {
    Dialect.SQLITE: re.compile("load_extension|fts3_tokenizer|readfile|writefile|edit"),
    Dialect.POSTGRESQL: re.compile(
        "dblink.*|lo_.*|loread|lowrite|nextval|setval|set_config|ts_stat"
        "|(query|cursor|table|schema|database)_to_xml.*"
        "|pg_(sleep|advisory|try_advisory|read_|ls_|stat_file|stat_reset|file_|logdir_ls|notify|terminate_|cancel_"
        "|reload_|rotate_|switch_|create_|drop_|copy_|logical_|replication_|backup_|promote|wal_|export_|import_"
        "|log_).*"
    ),
    Dialect.MARIADB: re.compile(
        "load_file|sleep|benchmark|get_lock|release_lock|release_all_locks|master_pos_wait|master_gtid_wait"
        "|sys_exec|sys_eval|nextval|setval|lastval"
    ),
}
