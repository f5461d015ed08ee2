"""Ask a database in English: the trained parser as a library.

In: a model, a question, a database. Out: `Answer`. Words are linked, the model is run and queries are written by the
code that `dtfixup sql prepare` and `dtfixup sql predict` use, on a dataset of one question.

>>> parser = TextToSql.load("runs/first")  # doctest: +SKIP
>>> shop = open_database("postgresql://reader@localhost/shop")  # doctest: +SKIP
>>> parser.ask("Which pets are older than 3?", shop).sql  # doctest: +SKIP
'SELECT "name" FROM "pets" WHERE "age" > 3'
"""

import time
from collections.abc import Iterator, Sequence
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
    has_link,
    is_linked,
    probabilities,
    verdict_of,
)
from dtfixup.sql.ask.opened import OpenedDatabase, Reading, open_database
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.transitions import STEP_LIMIT
from dtfixup.sql.grammar.tree import Node
from dtfixup.sql.linking.inputs import DatabaseInputs, QuestionInputs, describe_question
from dtfixup.sql.linking.plausibility import absurdities, doubts
from dtfixup.sql.model.decoding import corpus_for, search_all
from dtfixup.sql.model.predictions import Prediction, literals_of, predictions_of
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.store import TrainedModel, load_model
from dtfixup.sql.preparation.assembly import assemble_question

__all__ = ["MOST_CHARACTERS", "Answer", "TextToSql", "Verdict", "default_model", "open_database"]

MOST_CHARACTERS = 2000
"""The longest question."""
SHIPPED = "sql-sp-minilm.safetensors"
"""The file of the model that comes with the package, made by `dtfixup sql pack`."""
_KNOWN_WORDS = 50_000


def default_model() -> Path:
    """The model that is used where none is named: the file that comes with the package."""
    shipped = Path(str(files("dtfixup.sql") / "shipped" / SHIPPED))
    if not shipped.is_file():
        raise CheckpointError(
            f"no model is shipped with this copy of dtfixup: sql/shipped/{SHIPPED} is missing. Install the whole "
            "package, or train one with `dtfixup sql train --data SPIDER --out runs/first` (minutes on a GPU; "
            "`--preset smoke` for a trial on a CPU) and give it as --model runs/first"
        )
    return shipped


class TextToSql:
    """A trained model that turns questions into SQL; one may serve several threads."""

    steps: int = STEP_LIMIT
    """The most steps of a derivation: no query is longer, and no question takes longer."""

    def __init__(self, trained: TrainedModel, tokenizer: Tokenizer) -> None:
        self.trained = trained
        self.device = next(trained.model.parameters()).device
        self.sure_above = _sure_above(trained)
        self._tokenizer = _KnownWords(tokenizer)
        self._index = {
            "encoder": {"cls": tokenizer.cls_id, "sep": tokenizer.sep_id, "pad": tokenizer.pad_id},
            "splits": {"asked": [0, 1]},
        }

    @classmethod
    def load(cls, path_or_name: str | Path | None = None, device: torch.device | str = "cpu") -> "TextToSql":
        """The model of a finished run by its folder, or of a file of weights; `default_model` where none is named."""
        path = default_model() if path_or_name is None else path_or_name
        trained = load_model(path, device)
        tokenizer = load_tokenizer(trained.encoder)
        if trained.content["fingerprint"].get("tokenizer", tokenizer.sha256) != tokenizer.sha256:
            raise CheckpointError(
                f"{path} was trained with another tokenizer than {trained.encoder} has here: use the encoder that it "
                "was trained on"
            )
        return cls(trained, tokenizer)

    def ask(self, question: str, database: DatabaseLike, beam: int = 5) -> Answer:
        """Answer a question; `beam` is how many queries are looked for.

        A path or URL is opened for this question alone: pass what `open_database` returns to ask more than one.
        """
        text = _checked(question)
        if beam < 1:
            raise ConfigError(f"a beam holds at least one query, got {beam}")
        moments = [time.perf_counter()]
        opened = database if isinstance(database, OpenedDatabase) else open_database(database)
        reading = opened.read()
        moments.append(time.perf_counter())
        inputs = describe_question(text, reading.inputs)
        moments.append(time.perf_counter())
        queries = self.predict(text, inputs, reading.inputs, beam) if inputs.words else []
        moments.append(time.perf_counter())
        alternatives, against = _alternatives(queries, reading)
        found = (*against, *(_doubts(alternatives[0].tree, inputs, reading.schema) if alternatives else ()))
        moments.append(time.perf_counter())
        answers = is_linked(inputs.words, inputs.links, reading.schema)
        return Answer(
            question=text,
            verdict=verdict_of(alternatives, self.sure_above, found) if answers else Verdict.NO_LINK,
            doubts=found,
            alternatives=alternatives,
            words=inputs.words,
            links=inputs.links,
            schema=reading.schema,
            dialect=opened.dialect,
            timing=Timing(*np.diff(moments).tolist()),
        )

    def predict(self, text: str, question: QuestionInputs, database: DatabaseInputs, beam: int) -> list[Prediction]:
        """Queries in SQLite's dialect, the likeliest first."""
        arrays = assemble_question(text, question, database, self._tokenizer.pieces)
        prepared = Prepared(Path(), self._index, arrays)
        self._check_length(prepared)
        model = self.trained.model
        corpus = corpus_for(model, prepared, self.device)
        only = np.zeros(1, np.int64)
        [found] = search_all(model, corpus, only, beam=beam, limit=self.steps)
        return predictions_of(found, literals_of(prepared, 0), database.schema, quote_names=True)

    def _check_length(self, prepared: Prepared) -> None:
        """Half of what the encoder reads at once is left for the schema."""
        tokens, most = len(prepared.arrays["token.id"]), self.trained.model.encoder.max_tokens // 2
        if tokens > most:
            raise DataError(f"the question has {tokens} subwords, and the model reads {most}: ask it in fewer words")


def _checked(question: str) -> str:
    if len(question) > MOST_CHARACTERS:
        raise DataError(
            f"the question has {len(question):,} characters, and {MOST_CHARACTERS:,} are read: ask it in fewer words"
        )
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the question is not text: half a surrogate pair at character {error.start}") from None
    if not question.strip():
        raise DataError("the question is empty: ask something, such as 'How many pets are there?'")
    return question.strip()


def _alternatives(queries: Sequence[Prediction], reading: Reading) -> tuple[tuple[Alternative, ...], tuple[str, ...]]:
    """The queries in the database's dialect, and what speaks against the likeliest; left out, the others share the sum.

    Left out is what the dialect cannot say, and what no column is made for, unless there is nothing else.
    """
    written: dict[str, tuple[Prediction, Node]] = {}
    for query in queries:
        if query.tree is None:
            continue
        try:
            written.setdefault(reading.translator.translate(query.sql), (query, query.tree))
        except (SqlError, GuardError):
            continue
    reasons = {
        sql: tuple(absurdities(tree, reading.schema, reading.inputs.content)) for sql, (_, tree) in written.items()
    }
    against = next(iter(reasons.values()), ())
    if not all(reasons.values()):
        against = tuple(f"in a likelier query {reason}" for reason in against)
        written = {sql: each for sql, each in written.items() if not reasons[sql]}
    shares = probabilities([query for query, _ in written.values()])
    found = tuple(
        Alternative(sql, share, query.score, tree)
        for (sql, (query, tree)), share in zip(written.items(), shares, strict=True)
    )
    return found, against


def _doubts(tree: Node, question: QuestionInputs, schema: Schema) -> Iterator[str]:
    if not has_link(question.words, question.links, schema):
        yield "no word names a table, a column or a whole stored value"
    yield from doubts(tree, question, schema)


def _sure_above(trained: TrainedModel) -> float:
    """The threshold that the model's file names, or ours."""
    value = trained.content.get("sure_above", SURE_ABOVE)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise CheckpointError(f"the model's file says sure_above = {value!r}; expected a number from 0 to 1")
    return float(value)


class _KnownWords:
    """A tokenizer that cuts a word once: those of a schema come with every question."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, bool], list[int]] = {}

    def pieces(self, words: Sequence[str], *, spaced: bool = True) -> list[list[int]]:
        new = [word for word in words if (word, spaced) not in self._known]
        cut = dict(zip(new, self._tokenizer.pieces(new, spaced=spaced), strict=True))
        found = [cut[word] if word in cut else self._known[word, spaced] for word in words]
        if len(self._known) < _KNOWN_WORDS:
            self._known |= {(word, spaced): ids for word, ids in cut.items()}
        return found
