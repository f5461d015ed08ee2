"""A trained SQL-SP model from its file, ready for use.

In: a run's folder, or a file of weights that a run or `pack_model` wrote. Out: `TrainedModel`: the model in evaluation
mode, in float32, and how it reads a schema. The encoder's own frozen tables are not in the file; they come from the
encoder it names.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from dtfixup.encoders import Encoder, LeanEncoder, load_reader
from dtfixup.errors import CheckpointError
from dtfixup.sql.grammar.rules import VALUE_KINDS, ColumnKind, sql_grammar
from dtfixup.sql.linking.relations import Relation
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.model import ModelConfig, SqlSpModel
from dtfixup.training.config import from_json
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import load_trained, weights_file

VOCABULARY = "vocabulary"
"""The key of a content that holds `vocabulary_sha256`."""


@dataclass(frozen=True)
class TrainedModel:
    """A model for use."""

    model: SqlSpModel
    encoder: str
    content: dict[str, Any]
    """What the file says of itself: configuration, data, evaluation."""


def load_model(
    path: str | Path, device: torch.device | str = "cpu", *, encoder: Encoder | LeanEncoder | None = None
) -> TrainedModel:
    """Read a model; `encoder` stands in for the one that the file names."""
    file = weights_file(path)
    content = read_content(file)
    try:
        settings = content["fingerprint"]
        config = from_json(ModelConfig, settings["model"])
        Order(settings["order"])  # no other order is known here
        name = settings["encoder"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} holds no SQL-SP model: {error}") from error
    _require_vocabulary(content, file)
    with _Undrawn():
        model = SqlSpModel(config, load_reader(name) if encoder is None else encoder)
    load_trained(file, model, model.encoder, settings)
    return TrainedModel(model.to(device).eval(), name, content)


def vocabulary_sha256() -> str:
    """Of the names behind the numbers of a model's tables: rules and states of the grammar, relations, kinds.

    A table of the same shape whose rows mean something else would be read without an error, and give nonsense.
    """
    grammar = sql_grammar()
    names = [grammar.rules, [str(state) for state in grammar.states], [each.name for each in Relation]]
    names += [[each.name for each in ColumnKind], [kind.value for kind in VALUE_KINDS]]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _require_vocabulary(content: Mapping[str, Any], file: Path) -> None:
    """Refuse a file that was packed with another grammar; a run's own file does not say."""
    if content.get(VOCABULARY, vocabulary_sha256()) != vocabulary_sha256():
        raise CheckpointError(
            f"{file} was made for another grammar than this version has: use dtfixup {content.get('version')}, or "
            "train the model again"
        )


class _Undrawn(TorchFunctionMode):
    """New modules keep whatever their memory holds: random numbers take half the time of loading, and the file, which
    must name every tensor, replaces them. torch's own way to this, the meta device, imports its compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


# Some of torch's initialisers say that they were called, of others only what they call can be seen.
_DRAWS = frozenset(
    {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, torch.Tensor.uniform_, torch.Tensor.normal_}
)
