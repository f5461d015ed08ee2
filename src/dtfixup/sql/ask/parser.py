"""Ask a database in English.

In: a question and a database. Out: `Answer`. `TextToSql.ask` has the steps in order: read the database, link the words
of the question, search for queries, write them in the database's dialect, drop the absurd ones, doubt the likeliest.

>>> parser = TextToSql.load("runs/first")  # doctest: +SKIP
>>> shop = open_database("postgresql://reader@localhost/shop")  # doctest: +SKIP
>>> parser.ask("Which pets are older than 3?", shop).sql  # doctest: +SKIP
'SELECT "name" FROM "pets" WHERE "age" > 3'
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from dtfixup.encoders import Tokenizer, load_tokenizer
from dtfixup.errors import CheckpointError, ConfigError, DataError, GuardError, SqlError
from dtfixup.sql.ask.answers import (
    SURE_ABOVE,
    Alternative,
    Answer,
    Timing,
    Verdict,
    has_any_link,
    has_strong_link,
    softmax,
    verdict_of,
)
from dtfixup.sql.ask.doubts import absurdities, doubts
from dtfixup.sql.ask.opened import OpenedDatabase, Reading, open_database
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.transitions import STEP_LIMIT
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.inputs import DatabaseInputs, QuestionInputs, describe_question
from dtfixup.sql.model.predictions import Prediction, predictions_of
from dtfixup.sql.model.prepared import ExampleArrays, SpecialIds
from dtfixup.sql.model.search import corpus_for, search_all
from dtfixup.sql.model.store import TrainedModel, load_model
from dtfixup.sql.preparation.assembly import assemble_question

__all__ = ["MOST_CHARACTERS", "Answer", "TextToSql", "Verdict", "default_model", "open_database"]

MOST_CHARACTERS = 2000
"""The longest question."""
SHIPPED = "sql-sp-minilm.safetensors"
"""The file of the shipped model, which `dtfixup sql pack` wrote."""
_CACHED_WORDS = 50_000


def default_model() -> Path:
    """The file of the shipped model, which is used if none is named."""
    shipped = Path(str(files("dtfixup.sql") / "shipped" / SHIPPED))
    if not shipped.is_file():
        raise CheckpointError(
            f"no model is shipped with this copy of dtfixup: sql/shipped/{SHIPPED} is missing. Install the whole "
            "package, or train a model with `dtfixup sql train --data SPIDER --out runs/first` (minutes on a GPU; "
            "`--preset smoke` for a trial on a CPU) and give it as --model runs/first"
        )
    return shipped


class TextToSql:
    """A trained model that turns questions into SQL; one may serve several threads."""

    steps: int = STEP_LIMIT
    """The largest number of steps of a query, which bounds the time of a question."""

    def __init__(self, trained: TrainedModel, tokenizer: Tokenizer) -> None:
        self.trained = trained
        self.device = next(trained.model.parameters()).device
        self.sure_above = _sure_above(trained)
        self.tokenizer = tokenizer
        self._cut_words = _WordCache(tokenizer)
        self._special = SpecialIds(tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)

    @classmethod
    def load(cls, path_or_name: str | Path | None = None, device: torch.device | str = "cpu") -> "TextToSql":
        """Load the model of a finished run's folder or of a file of weights; by default the shipped one."""
        path = default_model() if path_or_name is None else path_or_name
        trained = load_model(path, device)
        tokenizer = load_tokenizer(trained.encoder)
        if trained.content["fingerprint"].get("tokenizer", tokenizer.sha256) != tokenizer.sha256:
            raise CheckpointError(
                f"{path} was trained with another tokenizer than that of {trained.encoder} here: use the encoder that "
                "it was trained on"
            )
        return cls(trained, tokenizer)

    def ask(self, question: str, database: DatabaseLike, beam: int = 5) -> Answer:
        """Answer a question; `beam` is the number of queries that the search keeps.

        A path or URL is opened for this question only. To ask more than one, pass what `open_database` returns.
        """
        if beam < 1:
            raise ConfigError(f"a beam holds at least one query, got {beam}")
        text = self.require_readable(question)
        opened = database if isinstance(database, OpenedDatabase) else open_database(database)
        watch = _Stopwatch()
        reading = opened.read()
        watch.lap()
        inputs = describe_question(text, reading.inputs)
        watch.lap()
        queries = self.search(text, inputs, reading.inputs, beam)
        watch.lap()
        written = _write(queries, reading)
        alternatives, objections = _choose(written, reading)
        objections += tuple(_doubts(alternatives[0].tree, inputs, reading.schema)) if alternatives else ()
        is_linked = has_any_link(inputs.words, inputs.links, reading.schema)
        verdict = verdict_of(alternatives, self.sure_above, objections) if is_linked else Verdict.NO_LINK
        watch.lap()
        return Answer(
            question=text,
            verdict=verdict,
            doubts=objections,
            alternatives=alternatives,
            words=inputs.words,
            links=inputs.links,
            schema=reading.schema,
            dialect=opened.dialect,
            timing=Timing(*watch.seconds),
        )

    def search(self, text: str, question: QuestionInputs, database: DatabaseInputs, beam: int) -> list[Prediction]:
        """Queries in SQLite's dialect, the likeliest first."""
        arrays = assemble_question(text, question, database, self._cut_words)
        corpus = corpus_for(self.trained.model, ExampleArrays(arrays, self._special), self.device)
        [hypotheses] = search_all(self.trained.model, corpus, np.zeros(1, np.int64), beam=beam, limit=self.steps)
        literals = [Literal(candidate.text, candidate.kind) for candidate in question.candidates]
        return predictions_of(hypotheses, literals, database.schema, quote_names=True)

    def require_readable(self, question: str) -> str:
        """Return the question without blanks around it; an error says why the model cannot read it."""
        if len(question) > MOST_CHARACTERS:
            raise DataError(
                f"the question has {len(question):,} characters; the limit is {MOST_CHARACTERS:,}: ask it in fewer "
                "words"
            )
        try:
            question.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the question has half a surrogate pair at character {error.start}") from None
        text = question.strip()
        if not text:
            raise DataError("the question is empty: ask something, such as 'How many pets are there?'")
        tokens = sum(map(len, self._cut_words([word.text for word in split_words(text)])))
        most = self.trained.model.encoder.max_tokens // 2  # the other half is for the schema
        if tokens > most:
            raise DataError(f"the question has {tokens} subwords; the limit is {most}: ask it in fewer words")
        return text


class _Stopwatch:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.perf_counter()

    def lap(self) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now


def _write(queries: Sequence[Prediction], reading: Reading) -> dict[str, tuple[Prediction, Node]]:
    """The queries by their SQL in the database's dialect, except those that the dialect cannot express."""
    written: dict[str, tuple[Prediction, Node]] = {}
    for query in queries:
        if query.tree is None:
            continue
        with suppress(SqlError, GuardError):
            written.setdefault(reading.translator.translate(query.sql), (query, query.tree))
    return written


def _choose(
    written: dict[str, tuple[Prediction, Node]], reading: Reading
) -> tuple[tuple[Alternative, ...], tuple[str, ...]]:
    """The queries that make sense, or all if none does; and the reasons against the likeliest query of all."""
    schema, content = reading.schema, reading.inputs.content
    reasons = {sql: tuple(absurdities(tree, schema, content)) for sql, (_, tree) in written.items()}
    objections = next(iter(reasons.values()), ())
    if not all(reasons.values()):
        objections = tuple(f"in a likelier query {reason}" for reason in objections)
        written = {sql: pair for sql, pair in written.items() if not reasons[sql]}
    probabilities = softmax([query.score for query, _ in written.values()])
    alternatives = tuple(
        Alternative(sql, probability, query.score, tree)
        for (sql, (query, tree)), probability in zip(written.items(), probabilities, strict=True)
    )
    return alternatives, objections


def _doubts(tree: Node, question: QuestionInputs, schema: Schema) -> Iterator[str]:
    if not has_strong_link(question.words, question.links, schema):
        yield "no word names a table, a column or a whole stored value"
    yield from doubts(tree, question, schema)


def _sure_above(trained: TrainedModel) -> float:
    """The threshold in the model's file, or the default."""
    value = trained.content.get("sure_above", SURE_ABOVE)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise CheckpointError(f"the model's file has sure_above = {value!r}; expected a number from 0 to 1")
    return float(value)


class _WordCache:
    """`Tokenizer.pieces` with a cache, since the words of a schema return with every question."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cache: dict[tuple[str, bool], list[int]] = {}

    def __call__(self, words: Sequence[str], *, spaced: bool = True) -> list[list[int]]:
        new = [word for word in words if (word, spaced) not in self._cache]
        ids = dict(zip(new, self._tokenizer.pieces(new, spaced=spaced), strict=True))
        pieces = [ids[word] if word in ids else self._cache[word, spaced] for word in words]
        if len(self._cache) < _CACHED_WORDS:
            self._cache |= {(word, spaced): own for word, own in ids.items()}
        return pieces
