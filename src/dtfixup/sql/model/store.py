"""Load a trained SQL-SP model from its file.

In: a run's folder, or a file of weights that a run or `pack_model` wrote. Out: `TrainedModel`, in evaluation mode and
float32. The encoder's frozen tables are not in the file; they come from the encoder that it names.
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

from dtfixup.encoders import load_frozen_encoder
from dtfixup.errors import CheckpointError
from dtfixup.sql.grammar.rules import VALUE_KINDS, ColumnKind, sql_grammar
from dtfixup.sql.linking.relations import Relation
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.model import ModelConfig, SqlSpModel
from dtfixup.training.config import from_json
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import load_trained, weights_file

VOCABULARY = "vocabulary"
"""Key of `vocabulary_sha256` in a file's content."""


@dataclass(frozen=True)
class TrainedModel:
    """A model for use."""

    model: SqlSpModel
    encoder: str
    content: dict[str, Any]
    """The file's description of the run: configuration, data, evaluation."""


def load_model(path: str | Path, device: torch.device | str = "cpu") -> TrainedModel:
    """Load the model of a run's folder or of a file of weights."""
    file = weights_file(path)
    content = read_content(file)
    try:
        settings = content["fingerprint"]
        config = from_json(ModelConfig, settings["model"])
        Order(settings["order"])  # an error for an order of another version
        name = settings["encoder"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} has no SQL-SP model: {error}") from error
    if content.get(VOCABULARY, vocabulary_sha256()) != vocabulary_sha256():  # only packed files state it
        raise CheckpointError(
            f"{file} was made for another grammar than this version's: use dtfixup {content.get('version')}, or train "
            "the model again"
        )
    with _WithoutRandomInit():
        model = SqlSpModel(config, load_frozen_encoder(name))
    load_trained(file, model, model.encoder, settings)
    return TrainedModel(model.to(device).eval(), name, content)


def vocabulary_sha256() -> str:
    """Hash the names behind the rows of a model's tables: rules and states of the grammar, relations, kinds.

    A table of the same shape whose rows mean something else would load without an error, and give nonsense.
    """
    grammar = sql_grammar()
    names = [grammar.rules, [str(state) for state in grammar.states], [relation.name for relation in Relation]]
    names += [[kind.name for kind in ColumnKind], [kind.value for kind in VALUE_KINDS]]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


class _WithoutRandomInit(TorchFunctionMode):
    """Build modules without drawing their weights, which takes half the time of loading: the file replaces every
    tensor. The meta device does the same, but imports torch's compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _INITIALISERS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


# Some of torch's initialisers pass through the mode themselves, others only through the tensor methods they call.
_INITIALISERS = frozenset(
    {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, torch.Tensor.uniform_, torch.Tensor.normal_}
)
