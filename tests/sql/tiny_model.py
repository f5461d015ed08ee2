"""A model small enough for tests, and datasets to run it on: the bundled sample, and ones made on the spot."""

import atexit
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

from dtfixup.encoders import Encoder
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import write_tables_json
from dtfixup.sql.grammar.rules import Grammar
from dtfixup.sql.model.batches import Batch, Corpus, Order
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.decoder import DecoderConfig
from dtfixup.sql.model.model import ModelConfig, SqlSpModel
from dtfixup.sql.model.prepared import Prepared, open_prepared
from dtfixup.sql.model.shapes import Shape
from dtfixup.sql.model.task import SqlTask
from dtfixup.sql.preparation.prepare import prepare
from dtfixup.training.config import TrainingConfig
from dtfixup.training.update import UpdateConfig

DECODER = DecoderConfig(action_dim=8, node_dim=4, lstm_dim=16, heads=2, dropout=0.0, label_smoothing=0.0)
CONFIG = ModelConfig(layers=2, dim=32, heads=2, mlp_dim=32, input_dropout=0.0, decoder=DECODER)
TINY = SqlSpConfig(
    encoder="tiny",
    model=CONFIG,
    training=TrainingConfig(
        epochs=5, batch_size=16, log_every=1, evaluate_every=0, update=UpdateConfig(learning_rate=2e-3, average=0.9)
    ),
    order=Order.STORED,
    beam=2,
)


@cache
def prepared_sample(synthetic: int = 0) -> Prepared:
    """The bundled dataset, prepared once for all tests of a run."""
    folder = TemporaryDirectory(prefix="dtfixup-sample-")
    atexit.register(folder.cleanup)
    prepare(sample_folder(), folder.name, synthetic=synthetic, workers=1, show_progress=False)
    return open_prepared(folder.name)


@cache
def sample_corpus(max_tokens: int = 512) -> Corpus:
    return Corpus(prepared_sample(), max_tokens=max_tokens)


def prepared_from(folder: Path, script: str, pairs: Sequence[tuple[str, str]]) -> Prepared:
    """A dataset of its own: one database, made by a SQL script, and questions with their queries."""
    file = folder / "data" / "database" / "made" / "made.sqlite"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    write_tables_json([reflect(file)], folder / "data" / "tables.json")
    rows = [{"db_id": "made", "question": question, "query": query} for question, query in pairs]
    (folder / "data" / "train.json").write_text(json.dumps(rows))
    prepare(folder / "data", folder / "prepared", splits=["train"], workers=1, show_progress=False)
    return open_prepared(folder / "prepared")


def prepared_extract(data: Path, folder: Path, databases: Sequence[str], examples: int) -> Prepared:
    """The first questions of a larger dataset over each of some of its databases."""
    rows = [row for file in ("train_spider.json", "dev.json") for row in json.loads((data / file).read_text())]
    chosen = [row for name in databases for row in [row for row in rows if row["db_id"] == name][:examples]]
    folder.mkdir()
    (folder / "train.json").write_text(json.dumps(chosen))
    (folder / "tables.json").write_bytes((data / "tables.json").read_bytes())
    (folder / "database").symlink_to(data / "database")
    prepare(folder, folder / "prepared", splits=["train"], workers=1, show_progress=False)
    return open_prepared(folder / "prepared")


def tiny_encoder(seed: int = 0, *, dim: int = 32, layers: int = 1) -> Encoder:
    """A random BERT with MiniLM's vocabulary."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=dim,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,  # states that differ from word to word
    )
    no_tokenizer = cast(PreTrainedTokenizerBase, None)  # tokens come from the prepared dataset
    return Encoder(BertModel(config, add_pooling_layer=False), no_tokenizer, no_tokenizer, "tiny")


def tiny_model(seed: int = 0, *, grammar: Grammar | None = None, **changes: Any) -> SqlSpModel:
    """A model in evaluation mode whose scores are far from even; `changes` are those of its configuration."""
    model = SqlSpModel(replace(CONFIG, **changes), tiny_encoder(seed), grammar).eval()
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.mul_(3.0)
    return model


def batch_of(corpus: Corpus, examples: Sequence[int], order: Order = Order.STORED) -> Batch:
    """The examples in the smallest shape that holds them."""
    return corpus.assemble(torch.tensor(examples), corpus.shape_of([e for e in examples if e >= 0]), order)


def task_of(config: SqlSpConfig = TINY) -> SqlTask:
    return SqlTask(config, prepared_sample(), tiny_encoder(), torch.device("cpu"))


def larger(shape: Shape, extra: Sequence[int]) -> Shape:
    return Shape(*(size + more for size, more in zip(astuple(shape), extra, strict=True)))


def holds(shape: Shape, other: Shape) -> bool:
    return all(size >= needed for size, needed in zip(astuple(shape), astuple(other), strict=True))
