"""The derivations of a search → trees and SQL text.

In: the `Hypothesis` list and the candidates of an example. Out: `Prediction`s, as Spider's script reads them or quoted.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dtfixup.errors import SqlError
from dtfixup.files import write_atomically
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, ValueKind
from dtfixup.sql.grammar.transitions import Action, ApplyRule, SelectColumn, SelectValue, tree_of
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.model.prepared import ExampleArrays
from dtfixup.sql.model.search import Hypothesis


@dataclass(frozen=True)
class Prediction:
    """A query and its log-probability."""

    sql: str
    score: float
    """Log-probability of the derivation."""
    tree: Node | None = field(default=None, compare=False, repr=False)
    """The tree that the text was written from, if it is known."""


def likeliest(beams: Sequence[Sequence[Prediction]]) -> list[str]:
    """The best query of each beam; "" for an empty beam."""
    return [beam[0].sql if beam else "" for beam in beams]


def write_beams(path: str | Path, examples: Iterable[int], beams: Iterable[Sequence[Prediction]]) -> Path:
    """Write JSON lines: the number of each example, and its queries with their log-probabilities."""
    lines = "".join(
        json.dumps({"example": int(example), "beam": [[query.sql, round(query.score, 4)] for query in beam]}) + "\n"
        for example, beam in zip(examples, beams, strict=True)
    )
    return write_atomically(path, lambda temporary: temporary.write_text(lines, encoding="utf-8"))


def literals_of(examples: ExampleArrays, example: int) -> list[Literal]:
    """The literal candidates of an example, in their order."""
    first, last = examples.arrays["values.start"][example : example + 2]
    literals = []
    for row in range(first, last):
        kind = VALUE_KINDS[examples.arrays["value.kind"][row]]
        text = examples.text("value_text", "value_texts", row)
        literals.append(Literal(text, ValueKind.NUMBER if kind is ValueKind.COUNT else kind))
    return literals


def tree_from(actions: Sequence[tuple[int, int]], literals: Sequence[Literal]) -> Node:
    """The tree of a derivation."""

    def action(choice: int, index: int) -> Action:
        if choice == Choice.RULE:
            return ApplyRule(index)
        if choice == Choice.COLUMN:
            return SelectColumn(index)
        if index < 0:
            raise SqlError("the derivation has a literal that is not a candidate, so it cannot be written")
        return SelectValue(literals[index])

    return tree_of(action(choice, index) for choice, index in actions)


def predictions_of(
    hypotheses: Sequence[Hypothesis], literals: Sequence[Literal], schema: Schema, *, quote_names: bool = False
) -> list[Prediction]:
    """The SQL of every derivation that can be written, best first, without repetitions."""
    writer = SqlWriter(schema, quote_names=quote_names)
    predictions: dict[str, Prediction] = {}
    for hypothesis in hypotheses:
        try:
            tree = tree_from(hypothesis.actions, literals)
            sql = writer.write(tree)
        except SqlError:  # such as a literal that SQL text cannot hold
            continue
        predictions.setdefault(sql, Prediction(sql, hypothesis.score, tree))
    return list(predictions.values())
