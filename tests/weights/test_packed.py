"""Tensors come back from a packed file within the rounding that they were stored with, or not at all."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dtfixup.errors import CheckpointError
from dtfixup.weights.packed import FORMAT, SCALE, Storage, pack_tensors, rounded, unpack_into


def drawn(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def model() -> dict[str, Tensor]:
    """A matrix like any other, one with a far outlier in each row, a bias, a narrow table, a counter."""
    spiky = drawn(64, 64, 1)
    spiky[:, 0] = 40.0
    return {
        "plain": drawn(128, 64),
        "spiky": spiky,
        "bias": drawn(1, 64)[0],
        "narrow": drawn(3000, 2),
        "count": torch.tensor(7),
    }


def empty_like(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.full_like(tensor, 3) for name, tensor in tensors.items()}


LEAST = 128 * 64 + 4 * 128 + 64 * 64 + 4 * 64 + 2 * 64 + 2 * 6000 + 8
"""Bytes of `model` with both matrices in 8 bits."""


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(-20, 4), st.integers(0, 1000))
def test_eight_bits_are_within_half_a_step_of_the_row(rows: int, columns: int, exponent: int, seed: int) -> None:
    matrix = drawn(rows, columns, seed) * 10.0**exponent
    matrix[0] = 0
    lost = (rounded(matrix, Storage.INT8) - matrix).abs()
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert (lost <= 0.5001 * step).all()
    assert not rounded(matrix, Storage.INT8)[0].any()


def test_the_largest_weight_of_a_row_is_kept() -> None:
    matrix = drawn(20, 300)
    place = matrix.abs().argmax(1, keepdim=True)
    torch.testing.assert_close(rounded(matrix, Storage.INT8).gather(1, place), matrix.gather(1, place))


def test_what_was_rounded_before_loses_nothing() -> None:
    once = rounded(drawn(20, 300), Storage.INT8)
    torch.testing.assert_close(rounded(once, Storage.INT8), once, rtol=1e-6, atol=0)


def test_without_room_to_spare_matrices_are_in_eight_bits_and_the_rest_in_half() -> None:
    packed = pack_tensors(model(), room=LEAST)
    assert packed.stored == {
        "plain": Storage.INT8,
        "spiky": Storage.INT8,
        "bias": Storage.HALF,
        "narrow": Storage.HALF,
        "count": Storage.PLAIN,
    }
    assert packed.bytes == LEAST
    assert packed.errors["spiky"] > 2 * packed.errors["plain"] > 20 * packed.errors["bias"] > 0


def test_room_goes_to_the_matrix_that_loses_most() -> None:
    saved = 64 * 64 - 4 * 64
    short, enough = (pack_tensors(model(), room=LEAST + room).stored for room in (saved - 1, saved))
    assert (short["spiky"], short["plain"]) == (Storage.INT8, Storage.INT8)
    assert (enough["spiky"], enough["plain"]) == (Storage.HALF, Storage.INT8)


def test_room_goes_to_the_first_before_others() -> None:
    stored = pack_tensors(model(), room=LEAST + 128 * 64 - 4 * 128, first=["plain"]).stored
    assert (stored["spiky"], stored["plain"]) == (Storage.INT8, Storage.HALF)


def test_half_precision_needs_no_room() -> None:
    assert set(pack_tensors(model(), room=None).stored.values()) == {Storage.HALF, Storage.PLAIN}


def test_too_little_room_says_how_much_is_needed() -> None:
    with pytest.raises(CheckpointError, match=r"at least 0\.0 MB, and 0\.0 MB are left for them: allow more"):
        pack_tensors(model(), room=LEAST - 1)


@pytest.mark.parametrize("room", [None, LEAST])
def test_weights_come_back(room: int | None) -> None:
    tensors = model()
    packed = pack_tensors(tensors, room=room)
    targets = empty_like(tensors)
    unpack_into(targets, packed.tensors, packed.description, "file")
    for name, tensor in tensors.items():
        assert targets[name].dtype == tensor.dtype
        lost = float((targets[name].double() - tensor.double()).norm() / tensor.double().norm())
        assert lost == pytest.approx(packed.errors[name], abs=1e-9)
        assert lost < (0.05 if packed.stored[name] is Storage.INT8 else 1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_packed(value: float) -> None:
    tensors = model()
    tensors["plain"][3, 5] = value
    with pytest.raises(CheckpointError, match="plain has weights that are not finite: the run broke"):
        pack_tensors(tensors, room=None)


def test_a_weight_too_large_for_half_precision_is_named() -> None:
    tensors = model()
    tensors["bias"][0] = 1e5
    with pytest.raises(CheckpointError, match="bias has a weight of 100000, too large for half precision"):
        pack_tensors(tensors, room=None)


def without(found: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key: tensor for key, tensor in found.items() if key != name}


HALF_BIAS = torch.zeros(64).half()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda found: without(found, "plain"), "file lacks plain: it was written by another model"),
        (lambda found: without(found, "plain" + SCALE), "file lacks plain/scale: it was written by another model"),
        (lambda found: {**found, "more": HALF_BIAS}, "file has more, unknown here"),
        (lambda found: {**found, "bias" + SCALE: HALF_BIAS}, "file has bias/scale, unknown here"),
        (lambda found: {**found, "bias": HALF_BIAS[:9]}, r"bias is float16 \[9\] in file, but float16 \[64\] here"),
        (lambda found: {**found, "bias": HALF_BIAS.float()}, r"bias is float32 \[64\] in file, but float16 \[64\]"),
        (lambda found: {**found, "plain": found["plain"].half()}, r"plain is float16 .* but int8 \[128, 64\] here"),
        (
            lambda found: {**found, "plain" + SCALE: torch.ones(127)},
            r"plain/scale is float32 \[127\] in file, but float32 \[128\] here",
        ),
        (lambda found: {**found, "bias": HALF_BIAS / 0}, "bias in file has weights that are not finite"),
        (
            lambda found: {**found, "plain" + SCALE: found["plain" + SCALE] / 0},
            "plain/scale in file has weights that are not finite",
        ),
    ],
)
def test_what_does_not_fit_changes_nothing(change: Any, complaint: str) -> None:
    tensors = model()
    packed = pack_tensors(tensors, room=LEAST)
    targets = empty_like(tensors)
    with pytest.raises(CheckpointError, match=complaint):
        unpack_into(targets, change(dict(packed.tensors)), packed.description, "file")
    assert all((tensor == 3).all() for tensor in targets.values())


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ({"format": FORMAT + 1, "tensors": {}}, rf"packed in format {FORMAT + 1}, and this version .* reads {FORMAT}"),
        ({"tensors": {}}, "packed in format None"),
        ([], "packed in format None"),
        ({"format": FORMAT}, "does not say how its tensors are stored"),
        ({"format": FORMAT, "tensors": ["plain"]}, "does not say how its tensors are stored"),
        ({"format": FORMAT, "tensors": {"plain": "int4"}}, "does not say how its tensors are stored.*int4"),
        ({"format": FORMAT, "tensors": {}}, "file lacks plain"),
    ],
)
def test_descriptions_of_others_are_refused(description: Any, complaint: str) -> None:
    packed = pack_tensors(model(), room=LEAST)
    with pytest.raises(CheckpointError, match=complaint):
        unpack_into(empty_like(model()), packed.tensors, description, "file")
