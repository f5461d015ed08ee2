"""Predictions: the SQL of gold derivations is the gold query to Spider's script; what cannot be written is left out."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, ValueKind, kind_index, sql_grammar
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.model.predictions import Prediction, literals_of, predictions_of, tree_from
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.search import BeamSearch, Hypothesis
from tests.sql.tiny_model import batch_of, prepared_from, prepared_sample, sample_corpus, tiny_model

Actions = tuple[tuple[int, int], ...]


def gold_actions(prepared: Prepared, example: int) -> Actions:
    choices, indices = (prepared.row(f"step.{name}", "steps", example).tolist() for name in ("choice", "index"))
    return tuple(zip(choices, indices, strict=True))


def test_the_gold_derivations_of_the_sample_are_right() -> None:
    prepared = prepared_sample()
    uncovered = unread = 0
    for example in range(240):
        gold = gold_actions(prepared, example)
        found = predictions_of([Hypothesis(-1.5, gold)], literals_of(prepared, example), prepared.schema_of(example))
        if (Choice.VALUE, -1) in gold:
            assert found == []
            uncovered += 1
            continue
        (prediction,) = found
        assert prediction.score == -1.5
        query, schema = prepared.text("query", "queries", example), prepared.schema_of(example)
        try:
            assert judge(query, prediction.sql, schema).exact, prediction.sql
        except SqlError:  # Spider's script reads no IS NULL
            assert SqlReader(schema).read(prediction.sql) == SqlReader(schema).read(query)
            unread += 1
    assert uncovered == 1
    assert unread < 20


def test_values_are_written_as_they_were_asked_for() -> None:
    prepared = prepared_sample()
    for example in range(0, 240, 7):
        schema, literals = prepared.schema_of(example), literals_of(prepared, example)
        gold = SqlReader(schema).read(prepared.text("query", "queries", example))
        assert without_places(tree_from(gold_actions(prepared, example), literals)) == without_places(gold)


def without_places(node: Node) -> tuple[object, ...]:
    """A tree, its literals by their text alone."""
    return (
        node.rule,
        *(
            without_places(child) if isinstance(child, Node) else child.text if isinstance(child, Literal) else child
            for child in node.children
        ),
    )


def test_candidates_keep_their_order_and_kind() -> None:
    prepared = prepared_sample()
    counts = 0
    for example in range(240):
        kinds = prepared.row("value.kind", "values", example).tolist()
        literals = literals_of(prepared, example)
        assert [kind_index(literal.kind, literal.text) for literal in literals] == kinds
        assert all(literal.kind is not ValueKind.COUNT for literal in literals), "a count is a number that counts"
        first = int(prepared.arrays["values.start"][example])
        texts = [prepared.text("value_text", "value_texts", first + place) for place in range(len(kinds))]
        assert [literal.text for literal in literals] == texts
        counts += kinds.count(VALUE_KINDS.index(ValueKind.COUNT))
    assert counts > 240


# What cannot be written, and what was written before.


@dataclass(frozen=True)
class Made:
    prepared: Prepared
    schema: Schema

    def column(self, name: str) -> int:
        return [self.schema.qualified(column) for column in range(len(self.schema.columns))].index(name)

    def select(self, *columns: str) -> Actions:
        """SELECT of one or two columns, and nothing else."""
        rules = sql_grammar().rule_index
        names = ("One", "Two")
        chosen = [((Choice.RULE, rules["Column"]), (Choice.COLUMN, self.column(name))) for name in columns]
        return (
            (Choice.RULE, rules["Plain"]),
            (Choice.RULE, rules[names[len(columns) - 1]]),
            *(action for pair in chosen for action in pair),
            *[(Choice.RULE, 0)] * 3,
        )

    def where(self, column: str, value: int) -> Actions:
        """SELECT column WHERE column = value."""
        rules = sql_grammar().rule_index
        head = self.select(column)[:-3]
        compared = ((Choice.RULE, rules["Column"]), (Choice.COLUMN, self.column(column)))
        right = ((Choice.RULE, rules["Value"]), (Choice.VALUE, value))
        return (*head, (Choice.RULE, rules["Equal"]), *compared, *right, (Choice.RULE, 0), (Choice.RULE, 0))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    script = """
        CREATE TABLE bird (name text, colour text); INSERT INTO bird VALUES ('wren', 'brown'), ('robin', 'red');
        CREATE TABLE "far land" (song text); INSERT INTO "far land" VALUES ('trill');
    """
    prepared = prepared_from(tmp_path_factory.mktemp("made"), script, [("List names .", "SELECT name FROM bird")])
    return Made(prepared, prepared.schemas[0])


def test_unwritable_hypotheses_are_left_out(made: Made) -> None:
    literals = [Literal("re\0d", ValueKind.TEXT), Literal("red", ValueKind.TEXT)]
    unwritable, name, song = made.where("bird.colour", 0), made.where("bird.colour", 1), made.select("far land.song")
    actions = (unwritable, name, unwritable, song)
    found = [Hypothesis(-float(place), own) for place, own in enumerate(actions)]
    assert [prediction.score for prediction in predictions_of(found, literals, made.schema)] == [-1.0, -3.0]
    assert predictions_of(found[:1], literals, made.schema) == []
    assert predictions_of([], literals, made.schema) == []


def test_names_are_quoted_where_asked_for_and_needed(made: Made) -> None:
    found = [Hypothesis(-1.0, made.select("bird.name")), Hypothesis(-2.0, made.select("far land.song"))]
    plain = predictions_of(found, [], made.schema)
    quoted = predictions_of(found, [], made.schema, quote_names=True)
    assert plain == [Prediction("SELECT name FROM bird", -1.0), Prediction("SELECT song FROM far land", -2.0)]
    assert quoted == [Prediction("SELECT name FROM bird", -1.0), Prediction('SELECT song FROM "far land"', -2.0)]


def test_no_text_comes_twice(made: Made) -> None:
    """Two candidates with one text are two derivations of one query: the better one counts."""
    literals = [Literal("red", ValueKind.TEXT), Literal("wren", ValueKind.TEXT), Literal("red", ValueKind.TEXT)]
    found = [Hypothesis(-float(place), made.where("bird.colour", value)) for place, value in enumerate((2, 1, 0, 2))]
    predictions = predictions_of(found, literals, made.schema)
    assert [prediction.score for prediction in predictions] == [0.0, -1.0]
    assert "red" in predictions[0].sql
    assert "wren" in predictions[1].sql


def test_a_literal_that_is_not_a_candidate_cannot_be_written(made: Made) -> None:
    literals = [Literal("red", ValueKind.TEXT)]
    unknown = made.where("bird.colour", -1)
    with pytest.raises(SqlError, match="is not a candidate"):
        tree_from(unknown, literals)
    assert predictions_of([Hypothesis(-1.0, unknown)], literals, made.schema) == []


def test_an_unfinished_derivation_is_no_tree(made: Made) -> None:
    with pytest.raises(SqlError, match="not complete"):
        tree_from(made.select("bird.name")[:-1], [])


def test_what_a_search_finds_is_sql_that_the_database_takes() -> None:
    corpus, prepared = sample_corpus(), prepared_sample()
    dataset = open_dataset(sample_folder())
    examples = [3, 99, 170]
    batch = batch_of(corpus, examples)
    written = 0
    for seed in range(3):
        for example, found in zip(examples, BeamSearch(tiny_model(seed), beam=5, limit=14)(batch), strict=True):
            schema = prepared.schema_of(example)
            predictions = predictions_of(found, literals_of(prepared, example), schema, quote_names=True)
            assert len({prediction.sql for prediction in predictions}) == len(predictions)
            assert [p.score for p in predictions] == sorted((p.score for p in predictions), reverse=True)
            with closing(sqlite3.connect(dataset.database_file(schema.database))) as connection:
                for prediction in predictions:
                    connection.execute(f"EXPLAIN {prediction.sql}")
                    written += 1
    assert written > 10
