"""What a question names becomes a slot, and a question with more than that gives no template."""

import pytest

from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.maker import make_template
from dtfixup.sql.synthesis.templates.template import Template, TemplateSlot
from tests.sql.pets import EXAMPLES, template_text


def template_of(question: str, query: str, database: DatabaseInputs) -> Template:
    return make_template(Example("kennels", question, query), 0, database, SqlReader(database.schema))


@pytest.mark.parametrize(
    ("question", "query", "expected"),
    [
        (
            "What are the colors of dogs with weight above 20?",
            "SELECT color FROM dog WHERE weight > 20",
            "What are the [column s] of [table s] with [column] above [value]?",
        ),
        (
            "Find the city of the owner named 'Boris'.",
            "SELECT city FROM owner WHERE name = 'Boris'",
            "Find the [column] of the [table] with [column] '[value]'.",
        ),
        (
            "How many owners from Oslo are there?",
            "SELECT count(*) FROM owner WHERE city = 'Oslo'",
            "How many [table s] with [column] [value] are there?",
        ),
        (
            "How many white dogs are there?",
            "SELECT count(*) FROM dog WHERE color = 'white'",
            "How many [table s] with [column] [value] are there?",
        ),
        (
            "Which owners own dogs?",
            "SELECT DISTINCT T1.name FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "word left: own",
        ),
        (
            "Show the names of owners who feed dogs.",
            "SELECT DISTINCT T1.name FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "Show the [column s] of [table s] that have [table s].",
        ),
        (
            "What are the cities of dogs?",
            "SELECT T1.city FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "What are the [column s] of [table s]?",
        ),
        (
            "What are the colors of owners?",
            "SELECT T2.color FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "column of a table that is not named",
        ),
        (
            "Show the name and id of each owner and the number of dogs.",
            "SELECT T1.name, T2.owner_id, count(*) FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id "
            "GROUP BY T2.owner_id",
            "Show the [column] and [column] of each [table] and the number of [table s].",
        ),
        ("What is the weight of each hairy dog?", "SELECT weight FROM dog", "word left: hairy"),
        ("What is the first weight of dogs?", "SELECT weight FROM dog", "word left: first"),
        ("How many dogs are there?", "SELECT color FROM dog", "column not named"),
        (
            "How many dogs have the breed 'pug'?",
            "SELECT count(*) FROM dog WHERE breed = 'poodle'",
            "value not in the question",
        ),
        ("Show the name.", "SELECT nothing FROM dog", "query outside the grammar"),
    ],
)
def test_a_template_has_slots_for_all_that_is_named(
    question: str, query: str, expected: str, kennels: DatabaseInputs
) -> None:
    assert template_text(lambda: template_of(question, query, kennels)) == expected


def test_keys_of_a_join_need_no_name(kennels: DatabaseInputs) -> None:
    _, question, query = EXAMPLES[4]
    template = template_of(question, query, kennels)
    assert template.links == ((1, 0),)
    assert [need.is_named for need in template.columns if need.is_key] == [False]
    assert sum(isinstance(piece, TemplateSlot) for piece in template.question) == 4
