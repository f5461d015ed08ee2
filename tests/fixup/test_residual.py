"""A skip connection joins a branch to the stream by the formula of its strategy, and starts as it should.

Legend: B batch, L length, D width.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dtfixup.fixup import STRATEGIES

Branch = Callable[[Tensor], Tensor]


def normalise(x_BLD: Tensor) -> Tensor:
    centred_BLD = x_BLD - x_BLD.mean(-1, keepdim=True)
    return centred_BLD / (centred_BLD.square().mean(-1, keepdim=True) + 1e-5).sqrt()


# x, the branch F, the learned skip weight or gate -> the stream after the branch; N = 3
FORMULAS: dict[str, Callable[[Tensor, Branch, Tensor], Tensor]] = {
    "dt-fixup": lambda x, F, _: x + F(x),
    "t-fixup": lambda x, F, _: x + F(x),
    "unscaled": lambda x, F, _: x + F(x),
    "standard": lambda x, F, _: normalise(x + F(x)),
    "pre-ln": lambda x, F, _: x + F(normalise(x)),
    "rezero": lambda x, F, gate: x + gate * F(x),
    "deepnorm": lambda x, F, _: normalise(1.5650845800732873 * x + F(x)),
    "admin": lambda x, F, omega: normalise(omega * x + F(x)),
}


def test_every_strategy_has_a_formula_here() -> None:
    assert FORMULAS.keys() == STRATEGIES.keys()


@pytest.mark.parametrize("strategy", FORMULAS)
@torch.no_grad()
def test_a_branch_joins_by_the_formula_of_the_strategy(strategy: str) -> None:
    residual = STRATEGIES[strategy].residual(6, layers=3).double()
    x_BLD, weight_DD = 2 * torch.randn(2, 4, 6, dtype=torch.float64), torch.randn(6, 6, dtype=torch.float64)
    learned = residual.gate if residual.weight_D is None else residual.weight_D
    if learned is not None:
        assert learned.requires_grad
        assert (learned == (0 if strategy == "rezero" else 1)).all()
        learned.copy_(torch.randn(learned.shape, dtype=torch.float64))
    y_BLD = residual.leave(x_BLD, residual.enter(x_BLD) @ weight_DD)
    torch.testing.assert_close(y_BLD, FORMULAS[strategy](x_BLD, lambda x: x @ weight_DD, learned))
    assert residual.plain is (strategy not in ("rezero", "deepnorm", "admin"))
