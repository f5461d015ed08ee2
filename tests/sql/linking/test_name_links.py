"""Links of questions to names; `fixtures/links.txt`, read by `test_links.py`, has more."""

import pytest

from dtfixup.sql.database.schema import ColumnType, Table, assemble
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.name_links import Item, MatchKind, link_names, name_index
from tests.sql.record_shop import SCHEMA


def _named(question: str) -> set[str]:
    links = link_names(split_words(question), SCHEMA)
    columns = {f"{SCHEMA.qualified(link.index)} {link.kind}" for link in links if link.item is Item.COLUMN}
    return columns | {f"{SCHEMA.tables[link.index].name} {link.kind}" for link in links if link.item is Item.TABLE}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("song name", {"song.song_name exact", "song exact", "artist.name partial"}),
        ("relese date", {"album.release_date exact"}),
        ("the oldest", {"artist.age partial"}),
        ("is the of", set()),
    ],
    ids=["a name inside a longer one", "mistyped", "a word of degree", "small words"],
)
def test_names_of_a_question(question: str, expected: set[str]) -> None:
    named = _named(question)
    assert named >= expected if expected else not named


def test_a_schema_of_350_columns() -> None:
    columns = [(f"part_{number}", f"part number {number}", ColumnType.NUMBER) for number in range(349)]
    wide = assemble("wide", [Table("wide", "wide")], [[*columns, ("note", "note", ColumnType.TEXT)]], [[]], [])
    links = link_names(split_words("the note of part number 17"), wide)
    assert [link.index for link in links if link.kind is MatchKind.EXACT] == [350, 18]


def test_lemmas_of_a_schema() -> None:
    index = name_index(SCHEMA)
    assert {"artist", "album", "touring", "id"} - index.lemmas == {"touring"}, "lemmas, not forms"
    assert {"tour", "price", "id", "name", "artist"} & index.distinctive == {"tour", "price"}
