"""Natural names: how identifiers are read, what a user's file changes, and how near Spider's own names are."""

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import DataError, SchemaError
from dtfixup.sql.database import names as module
from dtfixup.sql.database.names import ABBREVIATIONS, Names, name_schema, natural_name, read_names
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, read_tables_json

SPOKEN = {
    "singer": "singer",
    "SINGER": "singer",
    "singer_name": "singer name",
    "singerName": "singer name",
    "SingerName": "singer name",
    "SINGER_NAME": "singer name",
    "singer-name": "singer name",
    "dotted.name": "dotted name",
    "  two  words ": "two words",
    "__private__": "private",
    # acronyms
    "HTTPStatus": "http status",
    "getURL": "get url",
    "stuID": "student id",
    "playerIDs": "player ids",
    "IDs": "ids",
    "PDFsOfUser": "pdfs of user",
    "isAVA": "is ava",
    "WiFi": "wifi",
    # digits
    "address1": "address 1",
    "Line_2": "line 2",
    "addr2Id": "address 2 id",
    "q1": "q1",
    "Q1Sales": "q1 sales",
    "g_1b": "g 1b",
    "2nd_place": "2nd place",
    "Change_2007": "change 2007",
    "100meters": "100 meters",
    # abbreviations
    "ORDER_QTY": "order quantity",
    "EMP_DOB": "employee date of birth",
    "cust_addr": "customer address",
    "dept_avg_amt": "department average amount",
    "tel_no": "telephone number",
    "no": "number",
    "no_of_loans": "number of loans",
    "no_2": "number 2",
    "no_show": "no show",
    "Fname": "first name",
    "LName": "last name",
    "empLName": "employee last name",
    "l_name": "last name",
    "job_desc": "job description",
    "pct_change": "percent change",
    "%_Change": "percent change",
    "long": "longitude",
    "long_name": "long name",
    "max_id": "max id",
    "tbl_users": "users",
    "tbl": "tbl",
    # words written together
    "userid": "user id",
    "USERID": "user id",
    "custid": "customer id",
    "empno": "employee number",
    "hiredate": "hire date",
    "valid": "valid",
    "monkey": "monkey",
    "username": "username",
    "casino": "casino",
    "xyzid": "xyzid",
    # other scripts and symbols
    "Größe_ÜberAlles": "größe über alles",
    "学生_姓名": "学生 姓名",
    "e\u0301cole_nom": "école nom",
    "हिन्दी_नाम": "हिन्दी नाम",
    "driver's_licence": "driver's licence",
    "'quoted'": "quoted",
    "???": "???",
    "": "unnamed",
    " \t": "unnamed",
}


@pytest.mark.parametrize("identifier", SPOKEN)
def test_how_an_identifier_is_read(identifier: str) -> None:
    assert natural_name(identifier) == SPOKEN[identifier]


@given(st.text())
def test_a_natural_name_is_one_line_of_lower_case_words(identifier: str) -> None:
    name = natural_name(identifier)
    assert name
    assert name == " ".join(name.split())
    assert name == name.lower()


@given(st.lists(st.sampled_from(["singer", "country", "ticket", "price", "stadium"]), min_size=1, max_size=4))
def test_every_way_of_writing_the_same_words_is_read_alike(words: list[str]) -> None:
    camel = words[0] + "".join(map(str.title, words[1:]))
    for identifier in (
        "_".join(words),
        "_".join(words).upper(),
        camel,
        "".join(map(str.title, words)),
        "-".join(words),
    ):
        assert natural_name(identifier) == " ".join(words)


def test_bundled_abbreviations_are_lower_case() -> None:
    for short, words in ABBREVIATIONS.items():
        assert (short, words) == (short.lower(), " ".join(words.lower().split()))


def test_own_abbreviations_alone() -> None:
    assert natural_name("emp_qty", {"qty": "how many"}) == "emp how many"


def _schema() -> Schema:
    text = ColumnType.TEXT
    tables = [Table("Movie", ""), Table("Rating", ""), Table("Genres", ""), Table("issues", ""), Table("a.b", "")]
    names = [
        ["mID", "title", "s_id"],
        ["mID", "rID", "stars"],
        ["g_name", "genr_name"],
        ["is_id", "iss_id"],
        ["c", "b.c"],
    ]
    columns = [[(name, "", text) for name in own] for own in names]
    return assemble("films", tables, columns, [["mID"], [], [], [], []], [((1, ["mID"]), (0, ["mID"]))])


def _naturals(schema: Schema) -> dict[str, str]:
    columns = {schema.qualified(index): column.natural for index, column in enumerate(schema.columns)}
    return {table.name: table.natural for table in schema.tables} | columns


def test_a_key_may_shorten_the_name_of_its_table() -> None:
    spoken = _naturals(name_schema(_schema()))
    assert spoken["Movie.mID"] == spoken["Rating.mID"] == "movie id"  # the second by its foreign key
    assert spoken["Rating.rID"] == "rating id"
    assert spoken["Genres.g_name"] == "genre name"
    assert spoken["Genres.genr_name"] == "genr name"  # too near the whole word to be its abbreviation
    assert spoken["Movie.s_id"] == "s id"
    assert spoken["issues.is_id"] == "is id"
    assert spoken["issues.iss_id"] == "issue id"
    assert spoken["Movie.*"] == "*"
    assert spoken["Genres"] == "genres"


def test_foreign_keys_in_a_circle_do_not_hang() -> None:
    columns = [[("x_id", "", ColumnType.NUMBER)]] * 2
    keys = [((0, ["x_id"]), (1, ["x_id"])), ((1, ["x_id"]), (0, ["x_id"]))]
    schema = assemble("d", [Table("wells", ""), Table("yards", "")], columns, [[], []], keys)
    assert {column.natural for column in name_schema(schema).columns} == {"*", "x id"}


def _file(folder: Path, text: str) -> Path:
    path = folder / "names.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_users_file_overrides(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "abbreviations:\n  no: none\n  Qty: how  many\n  tbl:\n  id: identifier\n"
        "names:\n  movie: Feature film\n  MOVIE.title: what it is called\n  a.b: a table\n  a.b.c: a column\n",
    )
    names = read_names(path)
    assert natural_name("emp_no", names.abbreviations) == "employee none"  # `no` is a word, not YAML's False
    assert natural_name("tbl_qty", names.abbreviations) == "how many"
    spoken = _naturals(name_schema(_schema(), Names(names.abbreviations, {**names.names, "a.b.b.c": "b dot c"})))
    assert spoken["Movie"] == "Feature film"
    assert spoken["Movie.title"] == "what it is called"
    assert spoken["a.b"] == "a table"
    assert spoken["a.b.c"] == "a column"
    assert spoken["a.b.b.c"] == "b dot c"
    assert spoken["Rating.stars"] == "stars"


def test_the_file_that_the_documentation_shows(tmp_path: Path) -> None:
    shown = str(module.__doc__).split("\n\n")[-1]
    names = read_names(_file(tmp_path, textwrap.dedent(shown)))
    assert names.abbreviations["acct"] == "account"
    assert names.names == {"stadium": "arena", "singer.net_worth_millions": "net worth in millions"}


def test_a_name_for_what_does_not_exist_is_refused() -> None:
    for key in ("film", "movie.length", "movie.*", "movie."):
        with pytest.raises(SchemaError, match="names: 'films' has no table or column"):
            name_schema(_schema(), Names(names={key: "x"}))
    tables = [Table("a", ""), Table("a.b", "")]
    columns = [[("b", "", ColumnType.TEXT)], [("c", "", ColumnType.TEXT)]]
    with pytest.raises(SchemaError, match=r"names: 'a\.b' could be more than one"):
        name_schema(assemble("d", tables, columns, [[], []], []), Names(names={"a.b": "x"}))


MALFORMED = {
    "unknown key": (
        "abbreviation:\n  qty: quantity\n",
        "unknown key 'abbreviation'; known are abbreviations and names",
    ),
    "not a mapping": ("- qty\n", "expected the keys abbreviations and names"),
    "empty": ("", "expected the keys abbreviations and names"),
    "part not a mapping": ("names:\n  - singer\n", "names: expected lines of the form"),
    "words not text": ("names:\n  singer: [a, b]\n", "names: 'singer': expected text, got ['a', 'b']"),
    "name empty": ("names:\n  singer:\n", "names: 'singer' is empty; write what it is called"),
    "key twice": ("abbreviations:\n  qty: a\n  qty: b\n", "line 3: 'qty' occurs twice"),
    "key a list": ("abbreviations:\n  ? [a]\n  : b\n", "line 2: a key must be text"),
    "not YAML": ("names: {", "is not YAML"),
    "a tag": ("names: !!python/object/apply:os.getcwd []\n", "names: expected lines of the form"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files_are_refused(tmp_path: Path, case: str) -> None:
    text, words = MALFORMED[case]
    path = _file(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_names(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_names(tmp_path / "missing.yaml")
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"names: {singer: caf\xe9}")
    with pytest.raises(DataError, match="cannot be read"):
        read_names(path)


def test_spiders_own_names(spider_folder: Path) -> None:
    """Most of what differs is Spider's: `num of shops` stays short there, `store_1` has its names mixed up."""
    equal = total = 0
    for schema in read_tables_json(spider_folder / "tables.json").values():
        theirs, ours = _naturals(schema), _naturals(name_schema(schema))
        stars = len(schema.tables)
        equal += sum(theirs[name] == ours[name] for name in theirs) - stars
        total += len(theirs) - stars
    assert total == 5379
    assert equal / total > 0.965
