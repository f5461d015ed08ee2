"""How far each kind of value link is to be trusted."""

import pytest

from dtfixup.sql.database.content import build_index
from dtfixup.sql.database.rows import ColumnValues
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.links import link
from dtfixup.sql.linking.value_links import STRONG, ValueLink

TEXT, NUMBER = ColumnType.TEXT, ColumnType.NUMBER
_Columns = dict[str, list[str]]


def _links(question: str, tables: dict[str, _Columns]) -> tuple[Schema, tuple[ValueLink, ...]]:
    """Columns of figures are numbers; every table has 50 rows."""
    columns = [
        [
            (name, name.replace("_", " "), NUMBER if all(map(str.isdecimal, values)) else TEXT)
            for name, values in own.items()
        ]
        for own in tables.values()
    ]
    schema = assemble("db", [Table(name, name) for name in tables], columns, [[] for _ in tables], [])
    held = [[(), *map(tuple, own.values())] for own in tables.values()]
    content = build_index([ColumnValues(tuple(sorted(values)), True, 50) for own in held for values in own])
    return schema, link(split_words(question), schema, content).values


def _strong(question: str, tables: dict[str, _Columns]) -> set[str]:
    schema, links = _links(question, tables)
    return {f"{schema.qualified(row.column)} {row.value}" for row in links if row.strength >= STRONG}


def _weak(question: str, tables: dict[str, _Columns]) -> set[str]:
    schema, links = _links(question, tables)
    return {f"{schema.qualified(row.column)} {row.value}" for row in links if row.strength < STRONG}


BANKS = {"bank": {"state": ["Utah"], "funds": ["500", "1990"]}, "person": {"home": ["Utah"], "funds": ["500"]}}


def test_the_column_of_a_named_table_is_preferred() -> None:
    assert _strong("every bank of Utah", BANKS) == {"bank.state Utah"}
    assert _weak("every bank of Utah", BANKS) == {"person.home Utah"}
    assert _strong("everything in Utah", BANKS) == {"bank.state Utah", "person.home Utah"}
    assert _strong("each bank and each person of Utah", BANKS) == {"bank.state Utah", "person.home Utah"}


def test_a_number_goes_to_the_column_named_best() -> None:
    assert _strong("the bank with funds of 500", BANKS) == {"bank.funds 500"}
    assert _strong("funds of 500", BANKS) == {"bank.funds 500", "person.funds 500"}
    assert _strong("banks that hold 500", BANKS) == set()
    assert _strong("banks that hold 1990", BANKS) == {"bank.funds 1990"}  # only one column holds it


def test_numbers_beside_a_name_need_not_be_stored() -> None:
    assert _strong("bank funds over 80000", BANKS) == {"bank.funds 80000"}
    assert _strong("bank funds over 3", BANKS) == set()


def test_years_are_asked_of_columns_of_years() -> None:
    films = {"film": {"release_year": ["1999", "2004"], "seats": ["1999", "120"], "title": ["1984"]}}
    assert _strong("films of 1999", films) == {"film.release_year 1999"}
    assert _strong("films after 2010", films) == {"film.release_year 2010"}
    assert _strong("films with 3000 extras", films) == set()


def test_words_of_the_schema_say_values_weakly() -> None:
    catalog = {"product": {"level": ["product", "category"], "name": ["Rope"]}}
    assert _strong("all products of a category", catalog) == {"product.level category"}
    assert _weak("all products of a category", catalog) == {"product.level product"}
    assert _strong("the level 'product'", catalog) == {"product.level product"}
    assert _strong("the level Product", catalog) == {"product.level product"}


def test_codes_count_in_columns_about_their_topic() -> None:
    people = {"person": {"sex": ["F", "M"], "grade": ["A", "F", "M", "X", "Y", "Z"]}}
    assert _strong("the women", people) == {"person.sex F"}
    states = {"shop": {"state": ["CA", "IN", "NY"], "section": ["CA", "QQ", "ZZ", "XX"]}}
    assert _strong("shops of California", states) == {"shop.state CA"}


def test_yes_and_no_are_asked_for_by_distinctive_names() -> None:
    tongues = {"language": {"is_official": ["F", "T"], "language_name": ["Dutch"]}}
    assert _strong("the official languages", tongues) == {"language.is_official T"}
    students = {"student": {"student_transfer": ["0", "1"], "student_name": ["Ann"]}}
    assert _strong("every student", students) == set()
    assert _strong("every transfer student", students) == {"student.student_transfer 1"}


@pytest.mark.parametrize("question", ["shops in or near it", "tell me or ok them", "as an or"])
def test_small_words_are_not_codes(question: str) -> None:
    states = {"shop": {"state": ["IN", "ME", "OK", "OR"], "town": ["Asan", "Or"]}}
    assert not {link for link in _strong(question, states) if not link.endswith("OK")}


def test_small_words_may_make_a_value() -> None:
    visits = {"visit": {"status": ["done", "no-show"], "band": ["The Who", "Asan"]}}
    assert _strong("every no-show", visits) == {"visit.status no-show"}
    assert _strong("visits by The Who", visits) == {"visit.band The Who"}
    assert _strong("no show the who as an", visits) == set()


def test_parts_of_values() -> None:
    firms = {"maker": {"full_name": ["ford motor company", "General Motors", "Kia"], "maker_code": ["x1", "x2"]}}
    assert _strong("cars by Ford", firms) == {"maker.full_name ford motor company"}
    assert _weak("cars by ford", firms) == {"maker.full_name ford motor company"}
    assert _strong("cars by ford motor", firms) == {"maker.full_name ford motor company"}
    assert _strong("a full name with 'otor'", firms) == {"maker.full_name otor"}
    assert _strong("the Maker", firms) == set()


def test_inside_a_longer_value_a_shorter_one_is_weak() -> None:
    places = {"campus": {"location": ["San Jose"], "title": ["San Jose State University"]}}
    assert _strong("students of San Jose State University", places) == {"campus.title San Jose State University"}
    assert "campus.location San Jose" in _weak("students of San Jose State University", places)
    assert _strong("students in San Jose", places) == {"campus.location San Jose"}


def test_what_is_stored_as_said_comes_before_what_means_the_same() -> None:
    races = {"driver": {"nationality": ["German", "French"]}, "circuit": {"country": ["Germany", "Spain"]}}
    assert _strong("the German one", races) == {"driver.nationality German"}
    assert _strong("the Spanish one", races) == {"circuit.country Spain"}


def test_minutes_are_a_clock_time_only_where_one_is_stored() -> None:
    songs = {"song": {"length": ["3:45", "4:12", "4:50"]}, "screening": {"start_time": ["19:30", "21:00", "14:15"]}}
    assert _strong("songs of 4 minutes", songs) | _weak("songs of 4 minutes", songs) == {"song.length 4:"}
    assert _strong("longer than 100 minutes", songs) | _weak("longer than 100 minutes", songs) == set()
