"""The arrays of the bundled dataset hold what was read and linked."""

from dtfixup.encoders import load_tokenizer
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import Choice, sql_grammar
from dtfixup.sql.grammar.tree import Child, Literal, Node, literals
from dtfixup.sql.linking.inputs import describe_database, describe_question
from dtfixup.sql.model.predictions import tree_from
from tests.sql.tiny_model import prepared_sample


def without_literals(child: Child) -> Child:
    if isinstance(child, Node):
        return Node(child.rule, tuple(map(without_literals, child.children)))
    return None if isinstance(child, Literal) else child


def test_every_example_is_what_was_made_for_it() -> None:
    prepared, dataset, tokenizer = prepared_sample(), open_dataset(sample_folder()), load_tokenizer("minilm")
    unknown = 0
    for split in ("train", "dev"):
        for row, example in zip(prepared.split(split), dataset.split(split), strict=True):
            database = int(prepared.arrays["example.database"][row])
            assert prepared.databases[database] == example.database
            assert prepared.text("question", "questions", row) == example.question
            assert prepared.text("query", "queries", row) == example.query
            schema = dataset.schemas[example.database]
            inputs = describe_database(schema, open_content(schema, dataset.database_file(example.database)))
            question = describe_question(example.question, inputs)
            assert prepared.arrays["example.words"][row] == len(question.words)
            assert (prepared.row("link", "links", row) == question.codes.reshape(-1)).all()
            assert (prepared.row("relation", "relations", database) == inputs.relations.reshape(-1)).all()
            assert tuple(prepared.row("column.kind", "columns", database)) == inputs.kinds
            ids = [tokenizer.pieces([word.text])[0] for word in question.words]
            assert list(prepared.row("token.id", "tokens", row)) == [piece for pieces in ids for piece in pieces]
            owners = [position for position, pieces in enumerate(ids) for _ in pieces]
            assert list(prepared.row("token.word", "tokens", row)) == owners
            first, last = prepared.arrays["values.start"][row : row + 2]
            texts = [prepared.text("value_text", "value_texts", value) for value in range(first, last)]
            assert texts == [candidate.text for candidate in question.candidates]
            choices, indices = (prepared.row(f"step.{name}", "steps", row).tolist() for name in ("choice", "index"))
            if (Choice.VALUE, -1) in zip(choices, indices, strict=True):
                unknown += 1
                continue
            candidates = [Literal(candidate.text, candidate.kind) for candidate in question.candidates]
            stored = tree_from(list(zip(choices, indices, strict=True)), candidates)
            gold = SqlReader(schema).read(example.query)
            assert without_literals(stored) == without_literals(gold)
            for literal, wanted in zip(literals(stored), literals(gold), strict=True):
                assert literal.text == wanted.text or float(literal.text) == float(wanted.text)
    assert unknown == 1


def test_a_step_names_its_state_parent_and_field() -> None:
    grammar, prepared = sql_grammar(), prepared_sample()
    for row in range(len(prepared.arrays["example.database"])):
        states, parents, children, fields, indices, choices = (
            prepared.row(f"step.{name}", "steps", row)
            for name in ("state", "parent", "child", "field", "index", "choice")
        )
        assert states[0] == grammar.start
        assert parents[0] == -1
        for step in range(1, len(states)):
            parent = parents[step]
            assert parent < step
            assert choices[parent] == Choice.RULE
            assert grammar.children_SRC[states[parent], indices[parent], children[step]] == states[step]
        assert (fields == grammar.field_S[states]).all()
        assert (choices == grammar.choice_S[states]).all()


def test_items_are_columns_then_tables() -> None:
    tokenizer, prepared = load_tokenizer("minilm"), prepared_sample()
    for database, schema in enumerate(prepared.schemas):
        first, last = prepared.arrays["items.start"][database : database + 2]
        assert last - first == len(schema.columns) + len(schema.tables)
        table = schema.tables[0].natural.split()
        star = [piece for word in ("*", *table) for piece in tokenizer.pieces([word])[0]]
        assert list(prepared.row("item_token.id", "item_tokens", first)) == star
        assert list(prepared.row("column.table", "columns", database)) == [column.table for column in schema.columns]
