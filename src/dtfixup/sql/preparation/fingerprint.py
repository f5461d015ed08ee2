"""One hash of everything that a prepared dataset depends on.

In: data, tokenizer and settings. Out: a fingerprint that changes whenever the arrays might. It covers code without
docstrings and comments.
"""

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from importlib.resources import files

from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.model.prepared import FORMAT

LIBRARIES = ("rapidfuzz", "simplemma", "sqlglot")
ROOMS = ("language", "database", "grammar", "linking", "preparation")
"""Their code makes the arrays; `FORMAT` stands for how they are stored."""


def data_hash(dataset: Dataset, examples: Mapping[str, Sequence[Example]]) -> str:
    """Hash schemas, examples and databases."""
    digest = hashlib.sha256((dataset.folder / "tables.json").read_bytes())
    for split, members in examples.items():
        rows = [[example.database, example.question, example.query] for example in members]
        digest.update(json.dumps([split, rows]).encode())
    for database in databases_of(examples):
        with dataset.database_file(database).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def databases_of(examples: Mapping[str, Sequence[Example]]) -> list[str]:
    """The databases that examples ask about."""
    return sorted({example.database for members in examples.values() for example in members})


def fingerprint_of(data: str, tokenizer: str, synthetic: int, phrases: int) -> str:
    """Hash everything that the arrays are made from: data, tokenizer, code, versions of libraries."""
    libraries = [f"{name}=={metadata.version(name)}" for name in LIBRARIES]
    made_of = [str(FORMAT), data, tokenizer, code_digest(*ROOMS), *libraries]
    if synthetic:
        made_of += [f"{synthetic} synthetic", code_digest("synthesis.templates")]
    if phrases:
        made_of += [f"{phrases} phrases", code_digest("synthesis.phrases", "synthesis.templates")]
    return hashlib.sha256(" ".join(made_of).encode()).hexdigest()


@lru_cache
def code_digest(*rooms: str) -> str:
    """Hash the code and data files of packages of `dtfixup.sql`."""
    digest = hashlib.sha256()
    for room in rooms:
        for file in sorted(files(f"dtfixup.sql.{room}").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                digest.update(f"{room}/{file.name} {plain_code(file.read_text(encoding='utf-8'))}".encode())
            elif file.name.endswith((".txt", ".yaml")):
                digest.update(f"{room}/{file.name} ".encode() + file.read_bytes())
    return digest.hexdigest()


def plain_code(source: str) -> str:
    """Python code without comments, docstrings and layout.

    >>> plain_code("x = 1  # one") == plain_code("'''Numbers.'''\\nx = (1)")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_text(statement)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
