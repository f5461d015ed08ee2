"""`FixupReport`: a summary by role, a table of every tensor, and JSON."""

import json
import math

import pytest
from torch import nn

from dtfixup.fixup import dt_fixup_
from dtfixup.transformer import StackConfig, TransformerStack

N, MU = 3, 3.7


def stack_of(relations: int = 4) -> TransformerStack:
    return TransformerStack(StackConfig(layers=N, dim=32, heads=2, mlp_dim=48, relations=relations, bias=True))


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


def test_the_printed_report_has_a_line_for_each_role() -> None:
    stack = stack_of()
    report = dt_fixup_(stack, MU)
    lines = {role: numbers for role, *numbers in cells(str(report))}
    assert list(lines) == ["value", "output", "mlp", "relation value", "unscaled", "bias"]
    assert [line[0] for line in lines.values()] == ["3", "3", "6", "3", "9", "18"]
    factor = 1 / math.sqrt(N * (4 * MU * MU + 2 * MU + 2))
    up_down = [matrix for layer in stack.layers for matrix in (layer.mlp.up.weight, layer.mlp.down.weight)]
    now = math.hypot(*(matrix.norm().item() for matrix in up_down))
    assert float(lines["mlp"][2]) == pytest.approx(factor, rel=1e-5)
    assert float(lines["mlp"][3]) == pytest.approx(now, abs=1e-4)
    assert float(lines["mlp"][1]) == pytest.approx(now / factor, rel=1e-3)
    assert str(report).startswith("dt-fixup: 3 layers (3 relation-aware, 0 vanilla), input norm mu = 3.7\n")
    assert str(report).endswith("layer norms removed: 0; every tensor: report.table()")


def test_a_role_with_two_factors_shows_both() -> None:
    report = dt_fixup_(nn.ModuleList([stack_of().layers[0], stack_of(relations=0).layers[0]]), MU)
    (line,) = (line for line in cells(str(report)) if line[0] == "value")
    vanilla, relation = 1 / (2 * MU * math.sqrt(2)), 1 / math.sqrt(2 * (4 * MU * MU + 2 * MU + 2))
    assert line[3] == f"{relation:.6g} to {vanilla:.6g}"


def test_the_table_has_a_row_for_every_tensor() -> None:
    stack = stack_of()
    report = dt_fixup_(stack, MU)
    lines = cells(report.table())
    parameters = dict(stack.named_parameters())
    assert {line[0] for line in lines} == parameters.keys()
    for line, row in zip(lines, report.tensors, strict=True):
        shape = " x ".join(map(str, parameters[row.name].shape))
        numbers = [f"{row.norm_before:.4f}", f"{row.factor:.6g}", f"{row.norm_after:.4f}"]
        assert line == [row.name, row.role.value, shape, *numbers]
        assert row.norm_after == pytest.approx(parameters[row.name].norm().item(), rel=1e-5)
    assert report.table().endswith("layer norms removed: none")


def test_the_report_survives_json() -> None:
    layer = nn.TransformerEncoderLayer(32, 2, 48, batch_first=True)
    report = dt_fixup_(nn.TransformerEncoder(layer, N, norm=nn.LayerNorm(32)), MU)
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert found["input_norm"] == MU
    assert found["norms_removed"][0] == "norm"
    assert [row["name"] for row in found["tensors"]] == [row.name for row in report.tensors]
    assert found["tensors"][0]["role"] == "value"
