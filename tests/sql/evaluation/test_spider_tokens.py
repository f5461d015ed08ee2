"""How the official Spider script splits the text of a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.evaluation.spider_tokens import tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a >= 5", ["a", ">=", "5"]),
        ("a > = 5", ["a", ">=", "5"]),
        ("a>=5", ["a", ">", "=5"]),
        ("a != 5", ["a", "!=", "5"]),
        ("a<>5", ["a", "<", ">", "5"]),
        ("a=5", ["a=5"]),
        ("b='x y'", ["b=__val_1__"]),
        ("b = 'x  Y'", ["b", "=", '"x  Y"']),
        ('b = "it"', ["b", "=", '"it"']),
        ("b = ''", ["b", "=", '""']),
        ("count(*)", ["count", "(", "*", ")"]),
        ("T1.*", ["t1.", "*"]),
        ("a,b", ["a", ",", "b"]),
        ("a,1", ["a,1"]),
        ("(1,2)", ["(", "1,2", ")"]),
        ("1.5", ["1.5"]),
        ("a > 5.", ["a", ">", "5", "."]),
        ("a > 5. AND", ["a", ">", "5", ".", "and"]),
        ("a > 5. and", ["a", ">", "5.", "and"]),
        ("a+b a - b a/b", ["a+b", "a", "-", "b", "a/b"]),
        ("a--b", ["a", "--", "b"]),
        ("`a`", ["`", "a", "`"]),
        ("[a] ;", ["[", "a", "]", ";"]),
        ("a\n\tb", ["a", "b"]),
        ("cannot", ["can", "not"]),
        ("cannots", ["cannots"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@given(st.text(alphabet=st.characters(exclude_characters="'\"")))
def test_a_string_is_one_word_whatever_is_in_it(content: str) -> None:
    assert tokenize(f"a = '{content}' and") == ["a", "=", f'"{content}"', "and"]


def test_quotes_of_both_kinds_close_each_other() -> None:
    assert tokenize("a = 'x\"")[-1] == '"x"'
    with pytest.raises(SqlError, match="not closed"):
        tokenize("a = 'it's'")
