"""A model is called on batches as they come; a batch that does not fit is explained."""

import re

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import InputNormError
from dtfixup.fixup import measure_input_norm
from dtfixup.fixup.calls import map_tensors, run_model


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.new_layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.new_layers(x)


X, Y = torch.ones(2, 3, 4), torch.ones(2)


@pytest.mark.parametrize(
    ("batch", "kind", "call"),
    [((X, Y), "sequence of 2", "*batch"), ({"x": X, "y": Y}, "mapping with keys x, y", "**batch")],
)
def test_a_batch_with_labels_is_explained(batch: object, kind: str, call: str) -> None:
    model = Head()
    message = f"a batch is a {kind} and is passed as model({call}), but Head.forward takes (x: "
    with pytest.raises(
        InputNormError, match=re.escape(message) + r".*forward=lambda model, batch: model\(batch\[0\]\)"
    ):
        measure_input_norm(model, model.new_layers, [batch], progress=False)


def test_forward_takes_the_inputs_out_of_a_batch_with_labels() -> None:
    model = Head()
    found = measure_input_norm(
        model, model.new_layers, [(X, Y)], forward=lambda model, batch: model(batch[0]), progress=False
    )
    assert found.max == pytest.approx(2.0)


def test_a_type_error_of_the_model_itself_stays_as_it_is() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        run_model(Broken(), X, None)


def test_tensors_are_changed_wherever_they_are_in_a_batch() -> None:
    changed = map_tensors({"a": [X, "text"], "b": (Y, None)}, lambda tensor: 2 * tensor)
    assert torch.equal(changed["a"][0], 2 * X)
    assert changed["a"][1] == "text"
    assert torch.equal(changed["b"][0], 2 * Y)
    assert changed["b"][1] is None
