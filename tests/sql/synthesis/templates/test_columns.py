"""Traits of columns, and names in singular and plural."""

from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.columns import Trait, inflect, is_plain_name, plural, singular, title_of, traits_of


def test_traits_tell_what_a_column_is_like(kennels: DatabaseInputs) -> None:
    schema = kennels.schema
    found = {schema.qualified(column): traits_of(column, kennels) for column in range(len(schema.columns))}
    assert found["owner.owner_id"] == {Trait.LABEL, Trait.PRIMARY}
    assert found["dog.owner_id"] == {Trait.LABEL, Trait.FOREIGN}
    assert found["dog.weight"] == {Trait.NUMBER}
    assert found["dog.breed"] == {Trait.TEXT}
    assert title_of(0, schema) == schema.find_column(0, "name")
    assert title_of(1, schema) is None


@given(st.sampled_from(["city", "dog", "branch", "person", "box", "day", "class", "status", "child", "name", "price"]))
def test_the_singular_of_a_plural_is_the_word(word: str) -> None:
    assert plural(word) != word
    assert singular(plural(word)) == word
    assert plural(plural(word)) == plural(word)


def test_names_as_people_say_them() -> None:
    assert inflect("Date of Birth", is_plural=True) == "dates of birth"
    assert inflect("total points", is_plural=False, is_measure=True) == "total points"
    assert inflect("headquarters", is_plural=True) == "headquarters"
    assert is_plain_name("first name")
    assert not any(map(is_plain_name, ["organized by", "opened", "from", "attr 3", "", "xqzt"]))
