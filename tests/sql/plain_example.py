"""A prepared example read without tensors, which a batch is held against; and datasets of random sizes and content."""

from itertools import chain

import numpy as np

from dtfixup.sql.grammar.rules import Choice, ColumnKind
from dtfixup.sql.linking.relations import Match, Relation
from dtfixup.sql.model.batches import Batch
from dtfixup.sql.model.prepared import ExampleArrays, SpecialIds, starts
from dtfixup.sql.model.shapes import ANCHOR_TOKENS

CLS, SEP, PAD = 101, 102, 0
DISTANCES = (
    *(Relation.WORD_TWO_OR_MORE_BEFORE, Relation.WORD_BEFORE, Relation.WORD_SAME),
    *(Relation.WORD_AFTER, Relation.WORD_TWO_OR_MORE_AFTER),
)


class Plain:
    """One example, read without any tensor."""

    def __init__(self, prepared: ExampleArrays, example: int, *, anchors: bool = True) -> None:
        a = prepared.arrays
        self.prepared, self.example, self.anchors = prepared, example, anchors
        self.database = int(a["example.database"][example])
        self.words = int(a["example.words"][example])
        self.columns = len(prepared.row("column.kind", "columns", self.database))
        self.tables_of_columns = prepared.row("column.table", "columns", self.database).tolist()
        self.kinds = prepared.row("column.kind", "columns", self.database).tolist()
        first, last = (int(place) for place in a["items.start"][self.database : self.database + 2])
        self.items = last - first
        self.item_tokens = [prepared.row("item_token.id", "item_tokens", item).tolist() for item in range(first, last)]
        self.item_owners = [
            prepared.row("item_token.word", "item_tokens", item).tolist() for item in range(first, last)
        ]
        self.question = prepared.row("token.id", "tokens", example).tolist()
        self.question_owners = prepared.row("token.word", "tokens", example).tolist()

    def anchor(self, item: int) -> list[int]:
        """The start of the first candidate that is linked to a column."""
        first, last = (int(place) for place in self.prepared.arrays["values.start"][self.example : self.example + 2])
        for value in range(first, last):
            if self.anchors and self.prepared.arrays["value.column"][value] == item:
                return self.prepared.row("value_token.id", "value_tokens", value)[:ANCHOR_TOKENS].tolist()
        return []

    @property
    def length(self) -> int:
        """Tokens of all in one window."""
        items = sum(len(ids) + len(self.anchor(item)) + 1 for item, ids in enumerate(self.item_tokens))
        return len(self.question) + 2 + items

    def table_of(self, item: int) -> int:
        return self.tables_of_columns[item] if item < self.columns else item - self.columns

    @property
    def links(self) -> np.ndarray:
        return self.prepared.row("link", "links", self.example).reshape(self.words, self.items)

    def relations(self) -> np.ndarray:
        """The relation of every pair of words, columns and tables, by its name."""
        kinds = ["STAR" if kind == ColumnKind.STAR else "COLUMN" for kind in self.kinds]
        kinds += ["TABLE"] * (self.items - self.columns)
        among = self.prepared.row("relation", "relations", self.database).reshape(self.items, self.items)
        links, words = self.links, self.words
        relations = np.zeros((words + self.items, words + self.items), np.uint8)
        for one, other in np.ndindex(relations.shape):
            if max(one, other) < words:
                relation = DISTANCES[max(-2, min(other - one, 2)) + 2]
            elif one < words:
                relation = Relation[f"WORD_{kinds[other - words]}_{Match(links[one, other - words]).name}"]
            elif other < words:
                relation = Relation[f"{kinds[one - words]}_WORD_{Match(links[other, one - words]).name}"]
            else:
                relation = among[one - words, other - words]
            relations[one, other] = relation
        return relations

    def steps(self, name: str) -> list[int]:
        return self.prepared.row(f"step.{name}", "steps", self.example).tolist()

    @property
    def used(self) -> set[int]:
        """The columns of the derivation, and their tables."""
        columns = {
            index
            for choice, index in zip(self.steps("choice"), self.steps("index"), strict=True)
            if choice == Choice.COLUMN
        }
        return columns | {self.columns + self.tables_of_columns[column] for column in columns}


def read_windows(batch: Batch, row: int, plain: Plain, *, masked: bool = False) -> list[list[int]]:
    """The items of each window, in their order; checks that the window holds them, the question, and nothing else."""
    item_words = batch.item_word_keep_BIJ.shape[2]
    found: list[list[int]] = []
    for tokens, keeps, slots in zip(
        batch.token_BKT[row].tolist(), batch.token_keep_BKT[row].tolist(), batch.slot_BKT[row].tolist(), strict=True
    ):
        length = sum(keeps)
        assert keeps == [True] * length + [False] * (len(keeps) - length)
        assert set(tokens[length:]) <= {PAD}
        assert set(slots[length:]) <= {-1}
        if not length:
            continue
        head = len(plain.question) + 2
        assert tokens[0] == CLS
        assert masked or tokens[1 : head - 1] == plain.question
        assert tokens[head - 1] == SEP
        assert slots[:head] == [-1, *plain.question_owners, -1]
        window: list[int] = []
        place = head
        while place < length:
            item = (slots[place] - batch.words) // item_words
            ids, owners = plain.item_tokens[item], plain.item_owners[item]
            anchor = plain.anchor(item)
            end = place + len(ids) + len(anchor) + 1
            assert tokens[place:end] == [*ids, *anchor, SEP]
            wanted = [batch.words + item * item_words + owner for owner in owners]
            assert slots[place:end] == [*wanted, *[-1] * len(anchor), -1], "no word of the item"
            window.append(item)
            place = end
        assert place == length
        found.append(window)
    return found


def items_of(batch: Batch, row: int) -> list[int]:
    return batch.keep_BN[row, batch.words :].nonzero()[:, 0].tolist()


def random_examples(seed: int, *, longest: int = 3, words: int = 5, tables: int = 4) -> ExampleArrays:
    """Databases and examples of random sizes and random content."""
    random = np.random.default_rng(seed)
    databases, examples = 3, 6
    counts = [[int(random.integers(0, 5)) for _ in range(random.integers(1, tables + 1))] for _ in range(databases)]
    table_C = [[table for table, count in enumerate(own) for _ in range(count + 1)] for own in counts]
    kinds = [
        [kind for count in own for kind in [0, *random.integers(1, len(ColumnKind), count).tolist()]] for own in counts
    ]
    items = [len(own) + len(tables_) for own, tables_ in zip(table_C, counts, strict=True)]
    item_owners = [_owners(random, longest) for _ in range(sum(items))]
    database_N = random.integers(0, databases, examples)
    questions = [_owners(random, words) for _ in range(examples)]
    steps = [int(random.integers(0, 7)) for _ in range(examples)]
    values = [int(random.integers(0, 4)) for _ in range(examples)]
    value_tokens = [int(random.integers(1, ANCHOR_TOKENS + 3)) for _ in range(sum(values))]
    choices = [random.integers(0, 3, count) for count in steps]
    rows = zip(choices, database_N, values, strict=True)
    indices = [
        [int(random.integers([5, len(table_C[d]), v][c])) if c < 2 or v else -1 for c in row] for row, d, v in rows
    ]
    sizes = [own[-1] + 1 for own in questions]
    arrays = {
        "columns.start": starts([len(own) for own in table_C]),
        "column.table": np.array([*chain(*table_C)], np.int16),
        "column.kind": np.array([*chain(*kinds)], np.int8),
        "items.start": starts(items),
        "item_tokens.start": starts([len(own) for own in item_owners]),
        "item_token.id": random.integers(1000, 30000, sum(map(len, item_owners))).astype(np.int32),
        "item_token.word": np.concatenate(item_owners).astype(np.int16),
        "relations.start": starts([count * count for count in items]),
        "relation": random.integers(0, len(Relation), sum(count * count for count in items)).astype(np.uint8),
        "example.database": database_N.astype(np.int16),
        "example.words": np.array(sizes, np.int16),
        "tokens.start": starts([len(own) for own in questions]),
        "token.id": random.integers(1000, 30000, sum(map(len, questions))).astype(np.int32),
        "token.word": np.concatenate(questions).astype(np.int16),
        "links.start": starts([size * items[d] for size, d in zip(sizes, database_N, strict=True)]),
        "steps.start": starts(steps),
        "step.choice": np.concatenate(choices).astype(np.int8),
        "step.index": np.array([*chain(*indices)], np.int16),
        "step.state": random.integers(0, 9, sum(steps)).astype(np.int16),
        "step.parent": np.concatenate([np.arange(count) - 1 for count in steps]).astype(np.int16),
        "values.start": starts(values),
        **{f"value.{name}": random.integers(0, 4, sum(values)).astype(np.int16) for name in ("kind", "source")},
        **{f"value.{name}": random.integers(0, 4, sum(values)).astype(np.int16) for name in ("first", "last")},
        "value.column": np.array(
            [
                int(random.integers(-1, len(table_C[d])))
                for count, d in zip(values, database_N, strict=True)
                for _ in range(count)
            ],
            np.int16,
        ),
        "value_tokens.start": starts(value_tokens),
        "value_token.id": random.integers(1000, 30000, sum(value_tokens)).astype(np.int32),
    }
    links = int(arrays["links.start"][-1])
    arrays["link"] = random.integers(0, int(Match.EXACT) + 1, links).astype(np.uint8)
    return ExampleArrays(arrays, SpecialIds(CLS, SEP, PAD))


def _owners(random: np.random.Generator, longest: int) -> np.ndarray:
    """The word of each subword: each word has one or more, `longest` at most in all."""
    length = int(random.integers(1, longest + 1))
    return np.cumsum([0, *random.integers(0, 2, length - 1)])
