"""Natural names from the identifiers of a database: `CUST_DOB` → "customer date of birth".

In: identifiers and, if a user has one, a small YAML file. Out: natural names, which linking and the encoder read.

    abbreviations:            # added to the bundled ones, or in place of them; an empty text leaves the word out
      acct: account
      no: number
    names:                    # a table or a table.column, and what it is called
      stadium: arena
      singer.net_worth_millions: net worth in millions
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import simplemma
import yaml

from dtfixup.errors import DataError, SchemaError
from dtfixup.sql.database.schema import Schema

ABBREVIATIONS: Mapping[str, str] = yaml.load(
    resources.files("dtfixup.sql.database").joinpath("abbreviations.yaml").read_text(encoding="utf-8"),
    Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader),  # only texts
)
"""Abbreviations in lower case and the words they stand for."""


@dataclass(frozen=True)
class Names:
    """How identifiers are read: abbreviations in lower case, and natural names of tables and columns."""

    abbreviations: Mapping[str, str] = field(default_factory=lambda: ABBREVIATIONS)
    names: Mapping[str, str] = field(default_factory=dict)


def natural_name(identifier: str, abbreviations: Mapping[str, str] = ABBREVIATIONS) -> str:
    """Return what a person would call a table or column; never blank.

    >>> natural_name("stuID"), natural_name("HTTPStatus"), natural_name("ORDER_QTY"), natural_name("address1")
    ('student id', 'http status', 'order quantity', 'address 1')
    >>> natural_name("EMP_FNAME"), natural_name("custid"), natural_name("no_of_loans"), natural_name("no_show")
    ('employee first name', 'customer id', 'number of loans', 'no show')
    """
    whole = unicodedata.normalize("NFC", identifier)
    if abbreviations.get(whole.lower()):
        return abbreviations[whole.lower()]
    words: list[str] = []
    for piece in _pieces(whole, abbreviations):
        words += [piece.lower()] if piece.lower() in abbreviations else _split_case(piece, abbreviations)
    spoken = [_expand(words, index, abbreviations) for index in range(len(words))]
    return " ".join(filter(None, spoken)) or " ".join(identifier.lower().split()) or "unnamed"


def _pieces(identifier: str, abbreviations: Mapping[str, str]) -> list[str]:
    """Runs of letters and digits, and the symbols that have a word of their own, such as `%`."""
    text = ""
    for index, mark in enumerate(identifier):
        around = identifier[index - 1 : index] + identifier[index + 1 : index + 2]
        if unicodedata.category(mark)[0] in "LMN":  # \w leaves out the combining marks, which belong to their letter
            text += mark
        elif mark in abbreviations:
            text += f" {mark} "
        else:
            text += mark if mark in "'\u2019" and len(around) == 2 and around.isalpha() else " "
    return text.split()


_SHAPES = re.compile("U+(?=UL)|U?L+|U+|D+")


def _split_case(piece: str, abbreviations: Mapping[str, str]) -> list[str]:
    """`playerIDs` → player, ids; `LName` → lname, which is an abbreviation; `address2` → address, 2; `q1` → q1."""
    shape = "".join("D" if unicodedata.category(mark)[0] == "N" else "U" if mark.isupper() else "L" for mark in piece)
    for match in re.finditer("(?<=UU)L(?!L)", shape):
        if piece[match.start()] == "s":  # the plural of an acronym
            shape = shape[: match.start()] + "U" + shape[match.end() :]
    parts = [piece[match.start() : match.end()] for match in _SHAPES.finditer(shape)]
    words: list[str] = []
    for part in parts:
        before = words[-1] if words else ""
        if before and (
            (len(before) == 1 and (before + part).lower() in abbreviations)
            or (part.isdigit() and len(before) < 3)
            or (before[-1].isdigit() and part.islower() and len(part) < 3)
        ):
            words[-1] += part.lower()
        else:
            words.append(part.lower())
    return words


def _expand(words: list[str], index: int, abbreviations: Mapping[str, str]) -> str:
    word = words[index]
    following = words[index + 1] if index + 1 < len(words) else "of"
    if word == "no" and following != "of" and not following.isdigit():
        return word  # `no_show` is not a number
    if word in ("alt", "long") and len(words) > 1:
        return word  # `long_name` is not a longitude
    if word in abbreviations:
        return abbreviations[word]
    return _unglue(word, abbreviations)


_GLUED = ("ids", "id", "name", "code", "date", "type", "time", "number", "count", "key")
_GLUED_TO_ABBREVIATION = (*_GLUED, "no", "num", "nbr")


def _unglue(word: str, abbreviations: Mapping[str, str]) -> str:
    """`userid` → user id, `empno` → employee number; English words and ambiguous ones stay as they are."""
    for ending in _GLUED_TO_ABBREVIATION:
        stem = word.removesuffix(ending)
        if len(stem) < 3 or stem == word:
            continue
        if abbreviations.get(stem) and not _is_english(word):
            return f"{abbreviations[stem]} {abbreviations.get(ending, ending)}"
        if ending in _GLUED and _is_english(stem) and not _is_english(word):
            return f"{stem} {ending}"
    return word


def _is_english(word: str) -> bool:
    return simplemma.is_known(word, "en")


def name_schema(schema: Schema, names: Names | None = None) -> Schema:
    """Return the schema with natural names made from its identifiers, or taken from `names`.

    A key or a name may also shorten its table: `mID` and `g_name` are "movie id" in the table `Movie` and "genre name"
    in `genre`, and so is a foreign key of the same identifier that refers to them.
    """
    names = names or Names()
    tables = tuple(replace(table, natural=natural_name(table.name, names.abbreviations)) for table in schema.tables)
    columns = list(schema.columns)
    alike = {
        source: target
        for source, target in reversed(schema.foreign_pairs)
        if columns[source].name.lower() == columns[target].name.lower()
    }
    for index, column in enumerate(schema.columns):
        if not schema.is_star(index):
            words = natural_name(column.name, names.abbreviations).split()
            owner = tables[schema.columns[_origin(index, alike)].table].natural
            columns[index] = replace(column, natural=" ".join(_spell_out(words, owner)))
    return _override(replace(schema, tables=tables, columns=tuple(columns)), names.names)


def _origin(column: int, alike: Mapping[int, int]) -> int:
    """The last column on the way along foreign keys of the same identifier."""
    seen = {column}
    while column in alike and alike[column] not in seen:
        column = alike[column]
        seen.add(column)
    return column


def _spell_out(words: list[str], table: str) -> list[str]:
    """`m id` → movie id in the table `movies`."""
    if len(words) != 2 or words[1] not in ("id", "name") or " " in table:
        return words
    singular = simplemma.lemmatize(table, "en")
    short = words[0]
    # Two letters are as often a word (`is`, `to`), and what is nearly the table's word already needs no help.
    if len(short) not in (1, 3, 4) or not singular.startswith(short) or len(singular) < len(short) + 2:
        return words
    return [singular, words[1]]


def _override(schema: Schema, names: Mapping[str, str]) -> Schema:
    tables, columns = list(schema.tables), list(schema.columns)
    for key, natural in names.items():
        table, column = _named(schema, key)
        if column is not None:
            columns[column] = replace(columns[column], natural=natural)
        else:
            tables[table] = replace(tables[table], natural=natural)
    return replace(schema, tables=tuple(tables), columns=tuple(columns))


def _named(schema: Schema, key: str) -> tuple[int, int | None]:
    """The table, or the table and column, that `table` or `table.column` means; either may itself hold a dot."""
    table = schema.find_table(key)
    meanings: list[tuple[int, int | None]] = [] if table is None else [(table, None)]
    for dot in (position for position, mark in enumerate(key) if mark == "."):
        table = schema.find_table(key[:dot])
        column = None if table is None else schema.find_column(table, key[dot + 1 :])
        if table is not None and column is not None and not schema.is_star(column):
            meanings.append((table, column))
    if len(meanings) > 1:
        raise SchemaError(f"names: {key!r} could be more than one table or column of {schema.database!r}")
    if not meanings:
        raise SchemaError(
            f"names: {schema.database!r} has no table or column {key!r}; "
            f"write `table` or `table.column`, and its tables are {', '.join(table.name for table in schema.tables)}"
        )
    return meanings[0]


def read_names(path: str | Path) -> Names:
    """Read a user's YAML file (its form is at the top of this module) and add the bundled abbreviations.

    `name_schema` checks that the tables and columns exist.
    """
    content = _read_yaml(path)
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: expected the keys abbreviations and names, got {content!r}")
    unknown = [key for key in content if key not in ("abbreviations", "names")]
    if unknown:
        raise DataError(f"{path}: unknown key {unknown[0]!r}; known are abbreviations and names")
    parts: dict[str, dict[str, str]] = {}
    for part in ("abbreviations", "names"):
        entries = content.get(part, "")
        entries = {} if entries == "" else entries
        if not isinstance(entries, Mapping):
            raise DataError(f"{path}: {part}: expected lines of the form `short: words`, got {entries!r}")
        for key, words in entries.items():
            if not isinstance(words, str):
                raise DataError(f"{path}: {part}: {key!r}: expected text, got {words!r}")
            if part == "names" and not words.strip():
                raise DataError(f"{path}: names: {key!r} is empty; write what it is called")
        parts[part] = {key: " ".join(words.split()) for key, words in entries.items()}
    abbreviations = {key.lower(): words.lower() for key, words in parts["abbreviations"].items()}
    return Names({**ABBREVIATIONS, **abbreviations}, parts["names"])


class _TextLoader(yaml.BaseLoader):
    """Reads only text, lists and mappings, so that `no` is a word and not False, and refuses repeated keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        pairs = [(self.construct_object(key, deep=True), key.start_mark.line + 1) for key, _ in node.value]
        seen: set[Any] = set()
        for key, line in pairs:
            if not isinstance(key, str):
                raise DataError(f"line {line}: a key must be text, got {key!r}")
            if key in seen:
                raise DataError(f"line {line}: {key!r} occurs twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _read_yaml(path: str | Path) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
        return yaml.load(text, Loader=_TextLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not YAML: {error}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
