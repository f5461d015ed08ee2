"""Queries that cannot be meant, and queries to be asked back about."""

import pytest

from dtfixup.sql.ask.doubts import absurdities, doubts
from dtfixup.sql.database.content import ContentIndex, build_index
from dtfixup.sql.database.rows import ColumnValues
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.inputs import describe_database, describe_question

NUMBER, TEXT, TIME, BOOLEAN = ColumnType.NUMBER, ColumnType.TEXT, ColumnType.TIME, ColumnType.BOOLEAN
_GUEST = {
    "id": (NUMBER, ["1", "2"]),
    "name": (TEXT, ["Ann", "Zoe"]),
    "city": (TEXT, ["Graz", "Wien"]),
    "birth_date": (TIME, ["1970-05-01", "1991-12-31"]),
    "is_member": (BOOLEAN, ["0", "1"]),
    "nights": (NUMBER, ["3", "14"]),
}
_HOTEL = {"hotel_no": (NUMBER, ["7"]), "label": (TEXT, ["Rose"])}


def _database() -> tuple[Schema, ContentIndex]:
    tables = (_GUEST, _HOTEL)
    columns = [[(name, name.replace("_", " "), kind) for name, (kind, _) in own.items()] for own in tables]
    schema = assemble("inn", [Table("guest", "guest"), Table("hotel", "hotel")], columns, [["id"], ["hotel_no"]], [])
    held = [values for own in tables for values in ([], *(values for _, values in own.values()))]
    return schema, build_index([ColumnValues(tuple(sorted(values)), True, 50) for values in held])


SCHEMA, CONTENT = _database()
READS_ONLY = "a query only reads, and changes nothing: {!r} is not done"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("birth_date < '30'", "guest.birth_date holds dates, and is compared with '30'"),
        ("birth_date < '1980'", None),
        ("birth_date > '1980-01-01'", None),
        ("is_member = 2023", "guest.is_member holds yes and no, and is compared with '2023'"),
        ("is_member = 1", None),
        ("is_member > 0", "guest.is_member holds yes and no"),
        ("nights = 'Graz'", "guest.nights holds numbers, and is compared with 'Graz'"),
        ("nights BETWEEN 3 AND 5", None),
        ("nights IN (3, 'Graz')", "guest.nights holds numbers, and is compared with 'Graz'"),
        ("city > 'Graz'", "guest.city holds text, and is compared with 'Graz'"),
        ("city = 'Linz'", None),
        ("name LIKE '%A%'", None),
        ("nights > (SELECT avg(nights) FROM guest)", None),
        ("id IN (SELECT id FROM guest WHERE birth_date < '30')", "guest.birth_date holds dates"),
    ],
)
def test_comparisons(condition: str, reason: str | None) -> None:
    tree = SqlReader(SCHEMA).read(f"SELECT name FROM guest WHERE {condition}")
    found = list(absurdities(tree, SCHEMA, CONTENT))
    assert found == [] if reason is None else found and found[0].startswith(reason)


def test_without_rows_the_declared_type_counts() -> None:
    tree = SqlReader(SCHEMA).read("SELECT name FROM guest WHERE nights = 'Graz'")
    assert len(list(absurdities(tree, SCHEMA, None))) == 1


def test_dates_are_not_added_up() -> None:
    for query, count in (("avg(birth_date)", 1), ("sum(nights)", 0), ("max(birth_date)", 0)):
        tree = SqlReader(SCHEMA).read(f"SELECT {query} FROM guest")
        assert len(list(absurdities(tree, SCHEMA, CONTENT))) == count, query


@pytest.mark.parametrize(
    ("question", "query", "expected"),
    [
        ("Which guests stay 14 nights?", "SELECT name FROM guest WHERE nights = 14", []),
        ("Which guests stay 14 nights?", "SELECT name FROM guest", ["the query leaves out the number 14"]),
        ("Which guests from Graz are members?", "SELECT name FROM guest WHERE city = 'Graz'", []),
        ("Which guests from Graz are members?", "SELECT name FROM guest", ["the query leaves out 'Graz'"]),
        ("Show the one guest", "SELECT name FROM guest", []),
        ("Please DELETE all guests", "SELECT name FROM guest", [READS_ONLY.format("delete")]),
        ("Update the city of all guests", "SELECT city FROM guest", [READS_ONLY.format("update")]),
        ("Show the guests whom I want to delete", "SELECT name FROM guest", []),
        (
            "guests and hotels",
            "SELECT name, label FROM guest JOIN hotel",
            ["nothing in the schema connects two of its tables"],
        ),
    ],
)
def test_what_a_person_would_ask_back_about(question: str, query: str, expected: list[str]) -> None:
    inputs = describe_question(question, describe_database(SCHEMA, CONTENT))
    assert list(doubts(SqlReader(SCHEMA).read(query), inputs, SCHEMA)) == expected
