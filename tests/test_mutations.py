"""A change of any constant or operator in a formula is caught.

Mutated are, inside functions:
- scaling.py: every number;
- the attention modules: every number that is an operand of arithmetic or of a comparison. That
  leaves out what only names an axis (arguments of transpose, indices of shape), where another number
  is another shape and not another formula;
- in all three: arithmetic operators, and comparisons at their boundary.
A mutant is the module with one such change, and its module's check must fail on it.
"""

import ast
import copy
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import dtfixup
from dtfixup.errors import ConfigError, InputNormError, RelationError

Check = Callable[[ModuleType], None]
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Mult: ast.Add,
    ast.Pow: ast.Mult,
    ast.Div: ast.Mult,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.NotEq: ast.Eq,
}


def check_scaling(module: ModuleType) -> None:
    for factor, arguments, expected in (
        (module.relation_factor, (22, 2.0), 1 / 22),
        (module.relation_factor, (1, 0.5), 1 / 2),
        (module.vanilla_factor, (16, 3.0), 1 / 24),
        (module.vanilla_factor, (1, 0.5), 1.0),
        (module.t_fixup_factor, (81,), 0.67 / 3),
        (module.deepnorm_skip, (648,), 6.0),
        (module.deepnorm_gain, (162,), 1 / 6),
        (module.admin_skips, (4.0, [5.0, 7.0, 9.0]), [2.0, 3.0, 4.0]),
    ):
        assert factor(*arguments) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ConfigError):
        module.deepnorm_skip(0)
    for norm in (0.0, 1e-30, 1e30):
        with pytest.raises(InputNormError):
            module.vanilla_factor(1, norm)


def check_attention(module: ModuleType) -> None:
    with pytest.raises(ConfigError):
        module.Attention(9, 2)
    with pytest.raises(ConfigError):
        module.Attention(9, 0)
    for kernel in ("plain", "auto"):
        layer = identity_projections(module.Attention(9, 1, kernel=kernel))
        x_BLD = torch.zeros(1, 2, 9)
        x_BLD[0, 0, 0] = x_BLD[0, 1, 1] = 3.0
        odds = math.exp(3)  # 3 * 3 / sqrt(9) with itself, 0 with the other
        for i in (0, 1):
            assert layer(x_BLD)[0, i, i].item() == pytest.approx(3 * odds / (odds + 1))
            assert layer(x_BLD)[0, i, 1 - i].item() == pytest.approx(3 / (odds + 1))
        hidden = layer(x_BLD, torch.tensor([[True, False]]))
        assert hidden[0, :, 0].tolist() == [3.0, 3.0]


def check_relation_attention(module: ModuleType) -> None:
    with pytest.raises(ConfigError):
        module.RelationAttention(9, 1, 0)
    module.RelationAttention(9, 1, 1)
    relation_BLL = torch.tensor([[[0, 2], [1, 0]]])
    x_BLD = torch.zeros(1, 2, 9)
    x_BLD[0, 0, 0] = x_BLD[0, 1, 1] = 3.0
    for kernel in (module.Kernel.PLAIN, module.Kernel.TABLES):
        layer = identity_projections(module.RelationAttention(9, 1, 3, kernel=kernel))
        with torch.no_grad():
            layer.relation_key_RZ.zero_()[2, 0] = 1.0
            layer.relation_value_RZ.zero_()[2, 5] = 7.0
        y_LD = layer(x_BLD, None, relation_BLL)[0]
        mine, other = math.exp(3), math.exp(1)  # 3 * 3 / sqrt(9), and 3 * (0 + 1) / sqrt(9)
        expected = [3 * mine, 3 * other, 0.0, 0.0, 0.0, 7 * other, 0.0, 0.0, 0.0]
        assert y_LD[0].tolist() == pytest.approx([part / (mine + other) for part in expected])
        assert torch.equal(layer(x_BLD, None, relation_BLL, add_input=True)[0], x_BLD[0] + y_LD)
        for wrong, shown in ((-1, "-1 to 2"), (3, "0 to 3")):
            with pytest.raises(RelationError, match=f"run from {shown}, but this layer has 0 to 2"):
                layer(x_BLD, None, torch.tensor([[[0, wrong], [2, 0]]]))
        with pytest.raises(RelationError, match="shape"):
            layer(x_BLD, None, relation_BLL[0])


def identity_projections(layer: torch.nn.Module) -> torch.nn.Module:
    for linear in (layer.query, layer.key, layer.value, layer.output):
        torch.nn.init.eye_(linear.weight)
    return layer.requires_grad_(False)


CHECKS: dict[str, Check] = {
    "fixup/scaling.py": check_scaling,
    "transformer/attention.py": check_attention,
    "transformer/relation_attention.py": check_relation_attention,
}


def nodes_in_functions(tree: ast.Module) -> list[ast.AST]:
    bodies = [part for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in node.body]
    return list({node: None for part in bodies for node in ast.walk(part)})


def formula_numbers(name: str, nodes: list[ast.AST]) -> set[ast.AST]:
    """The nodes that are numbers of a formula, by the rule at the top."""
    candidates = nodes if name == "fixup/scaling.py" else [side for node in nodes for side in operands(node)]
    return {node for node in candidates if isinstance(node, ast.Constant) and type(node.value) in (int, float)}


def operands(node: ast.AST) -> list[ast.expr]:
    sides: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    return [side.operand if isinstance(side, ast.UnaryOp) else side for side in sides]


def changes(node: ast.AST, is_formula_number: bool) -> Iterator[tuple[str, object]]:
    """Each field of the node that is mutated, with its new value."""
    if is_formula_number:
        for value in sorted({node.value + 1, node.value * 1.5, -node.value} - {node.value}):
            yield "value", value
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield "ops", [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield "op", OPERATORS[type(node.op)]()


def mutations() -> Iterator[object]:
    for name in CHECKS:
        nodes = nodes_in_functions(parse(name))
        numbers = formula_numbers(name, nodes)
        for place, node in enumerate(nodes):
            for field, value in changes(node, node in numbers):
                mutated = copy.copy(node)
                setattr(mutated, field, value)
                where = f"{Path(name).name}:{node.lineno}:{node.col_offset}"
                label = f"{where} {ast.unparse(node)} -> {ast.unparse(mutated)}"
                yield pytest.param(name, place, field, value, id=label)


def parse(name: str) -> ast.Module:
    return ast.parse((Path(dtfixup.__file__).parent / name).read_text())


def load(tree: ast.Module) -> ModuleType:
    module = ModuleType("mutant")
    exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", CHECKS)
def test_the_check_passes_on_the_module_as_it_is(name: str) -> None:
    CHECKS[name](load(parse(name)))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("fixup/scaling.py", {0.25, 0.5, 0.67, 1, 2, 4, 8}),
        ("transformer/attention.py", {0.5}),
        ("transformer/relation_attention.py", {0, 0.5, 1}),
    ],
)
def test_the_numbers_of_the_formulas_are_found(name: str, numbers: set[float]) -> None:
    assert {node.value for node in formula_numbers(name, nodes_in_functions(parse(name)))} >= numbers


@pytest.mark.parametrize(("name", "place", "field", "value"), mutations())
def test_the_check_fails_on_every_mutant(name: str, place: int, field: str, value: object) -> None:
    tree = parse(name)
    setattr(nodes_in_functions(tree)[place], field, value)
    mutant = load(tree)
    try:
        CHECKS[name](mutant)
    except (Exception, pytest.fail.Exception):
        return
    pytest.fail("the mutant survives: no check notices this change")
