"""Encoders small enough for tests, with tokenizers of their own, and questions made up for them."""

import atexit
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel, BertTokenizer, RobertaConfig, RobertaModel, RobertaTokenizer

from dtfixup.encoders import Encoder, load_encoder
from dtfixup.reading.examples import ReadingData, ReadingExample
from dtfixup.reading.model import ReadingConfig, ReadingModel
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.task import ReadingTask
from dtfixup.training.config import TrainingConfig
from dtfixup.training.update import UpdateConfig

NOUNS = ("apple", "boat", "cloud", "door", "engine", "flute", "garden", "hammer")
FILLING = ("the", "a", "is", "in", "of", "and", "which", "one", "here", "it", "was", "not", "?", ".", "##s")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLING, *NOUNS)
BYTES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz.?", "\u0120", "\u0120a", "an")
POSITIONS = 64
MODEL = ReadingConfig(layers=2, dim=32, heads=2, mlp_dim=32, input_dropout=0.0, dropout=0.0, max_tokens=48)
TINY = ReadingRunConfig(
    encoder="tiny",
    encoder_factor=1.0,
    model=MODEL,
    training=TrainingConfig(
        epochs=3,
        batch_size=8,
        log_every=1,
        evaluate_every=0,
        power=1.0,
        update=UpdateConfig(learning_rate=3e-3, betas=(0.9, 0.98), epsilon=1e-6, weight_decay=0.01),
    ),
)
_SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.3,  # states that differ from word to word
}


def write_encoder(folder: Path, seed: int = 0) -> Path:
    """A random BERT on disk that knows a few words."""
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=POSITIONS, **_SHAPE)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    BertTokenizer(vocab={word: place for place, word in enumerate(WORDS)}).save_pretrained(folder)
    return folder


def write_roberta(folder: Path) -> Path:
    """A random RoBERTa on disk that reads letters, and spaces before words."""
    torch.manual_seed(0)
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
    config = RobertaConfig(vocab_size=len(BYTES), max_position_embeddings=2 * POSITIONS + 2, **special, **_SHAPE)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    vocabulary = {token: place for place, token in enumerate(BYTES)}
    RobertaTokenizer(vocab=vocabulary, merges=[("\u0120", "a"), ("a", "n")]).save_pretrained(folder)
    return folder


@cache
def encoder_folder(kind: str = "bert") -> Path:
    """The folder of a tiny encoder, made once for all tests of a run."""
    folder = TemporaryDirectory(prefix="dtfixup-tiny-")
    atexit.register(folder.cleanup)
    return (write_encoder if kind == "bert" else write_roberta)(Path(folder.name))


def tiny_encoder(kind: str = "bert") -> Encoder:
    """A fresh copy: training changes it."""
    return load_encoder(encoder_folder(kind))


def tiny_model(kind: str = "bert", seed: int = 0, **changes: Any) -> ReadingModel:
    """A model in evaluation mode whose scores are far from even; `changes` are those of its configuration."""
    torch.manual_seed(seed)
    model = ReadingModel(replace(MODEL, **changes), tiny_encoder(kind)).eval()
    with torch.no_grad():
        model.score.weight.mul_(5.0)
    return model


def made_up(count: int, seed: int = 0, *, options: tuple[int, ...] = (3,), longest: int = 6) -> list[ReadingExample]:
    """Questions whose right option, and no other, says a noun of the context; contexts of many lengths."""
    random = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        nouns = random.permutation(NOUNS)
        size = int(random.choice(options))
        label = int(random.integers(size))
        answers = [f"the {noun}" for noun in nouns[1:size]]
        answers.insert(label, f"the {nouns[0]}")
        rest = " ".join(random.choice(FILLING[:-1], int(random.integers(1, longest))))
        context = f"the {nouns[0]} is here {rest} ."
        examples.append(ReadingExample(context, "which one is in it ?", tuple(answers), label, f"made_{number}"))
    return examples


def made_data(train: int = 40, val: int = 12, **how: Any) -> ReadingData:
    return ReadingData(tuple(made_up(train, 0, **how)), tuple(made_up(val, 1, **how)), "made-up")


def task_of(config: ReadingRunConfig = TINY, data: ReadingData | None = None) -> ReadingTask:
    return ReadingTask(config, data or made_data(), tiny_encoder(), torch.device("cpu"))
