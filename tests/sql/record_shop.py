"""A small schema with content for the tests of linking and candidates, and questions about it."""

from pathlib import Path

from hypothesis import strategies as st

from dtfixup.sql.database.content import ContentIndex, build_index
from dtfixup.sql.database.rows import ColumnValues
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble

NUMBER, TEXT, TIME = ColumnType.NUMBER, ColumnType.TEXT, ColumnType.TIME

_TABLES: dict[str, list[tuple[str, str, ColumnType, list[str]]]] = {
    "artist": [
        ("artist_id", "artist id", NUMBER, ["1", "2", "3", "4"]),
        ("name", "name", TEXT, ["Ella Björk", "Nancy Edwards", "The Who", "Zoé"]),
        ("country", "country", TEXT, ["France", "South Korea", "USA"]),
        ("birth_year", "birth year", NUMBER, ["1944", "1970", "1985"]),
        ("age", "age", NUMBER, ["23", "55"]),
        ("sex", "sex", TEXT, ["F", "M"]),
        ("is_touring", "is touring", TEXT, ["F", "T"]),
    ],
    "album": [
        ("album_id", "album id", NUMBER, ["10", "11", "12"]),
        ("title", "title", TEXT, ["Balls to the Wall", "Hey You", "Northern Lights"]),
        ("artist_id", "artist id", NUMBER, ["1", "2", "3"]),
        ("release_date", "release date", TIME, ["2007-11-05", "2012-03-01", "2018-01-20"]),
        ("genre", "genre", TEXT, ["Comp. Jazz", "pop", "rock"]),
        ("list_price", "price", NUMBER, ["10", "12.5", "20"]),
    ],
    "song": [
        ("song_name", "song name", TEXT, ["Hey", "Shark"]),
        ("length", "length", TIME, ["3:45", "4:12"]),
    ],
    "record_shop": [
        ("shop_id", "shop id", NUMBER, ["1", "2"]),
        ("name", "name", TEXT, ["Motor City Records", "Sound House"]),
        ("state", "state", TEXT, ["CA", "IN", "NY"]),
        ("opened", "opened", TEXT, ["1/15/2001", "8/3/2010"]),
        ("phone", "phone", TEXT, ["00123456", "00987654"]),
    ],
}

SCHEMA: Schema = assemble(
    "record_shop",
    [Table(name, name.replace("_", " ")) for name in _TABLES],
    [[(name, natural, kind) for name, natural, kind, _ in columns] for columns in _TABLES.values()],
    [["artist_id"], ["album_id"], [], ["shop_id"]],
    [((1, ["artist_id"]), (0, ["artist_id"]))],
)

CONTENT: ContentIndex = build_index(
    [
        values
        for columns in _TABLES.values()
        for values in [ColumnValues((), True, 8), *(ColumnValues(tuple(held), True, 8) for *_, held in columns)]
    ]
)

EMPTY: ContentIndex = build_index([ColumnValues((), True, 0) for _ in SCHEMA.columns])

_WORDS = """
    French artists who are touring older than 30 albums by Nancy Edwards cost more at least two 12.5 'Hey' " ' the Who
    IN The November 5th , 2007 August 4 minutes song name named letter w contains male CA 00123456 Norther artits null
    xanadu - ? . '' "" 1,000 -4 half 1980s comp jazz Balls to Wall
"""
QUESTIONS = st.one_of(st.text(), st.lists(st.sampled_from(_WORDS.split()), max_size=20).map(" ".join))
CONTENTS = st.sampled_from([CONTENT, EMPTY, None])


def read_cases(name: str) -> list[list[str]]:
    """The blocks of a fixture: a question and what is expected, line by line."""
    text = (Path(__file__).parent / "fixtures" / name).read_text(encoding="utf-8")
    return [block.splitlines() for block in text.split("\n\n") if block.strip() and not block.startswith("#")]
