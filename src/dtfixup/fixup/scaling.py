"""One pure function per formula: numbers in, a number out. No tensors, no modules.

Symbols as in the paper: N is the number of transformer layers, mu the input norm, L = 2N the number
of residual branches. Every constant here is covered by a mutation test.
"""

import math
from collections.abc import Sequence

from dtfixup.errors import ConfigError, InputNormError

_SMALLEST_NORM, _LARGEST_NORM = 1e-30, 1e30


def relation_factor(layers: int, input_norm: float) -> float:
    """DT-Fixup's factor for relation-aware layers (Theorem 3.1).

    >>> round(relation_factor(24, 10.0), 8)
    0.00993661
    """
    _require_depth(layers)
    mu = _require_norm(input_norm)
    return float((layers * (4 * mu**2 + 2 * mu + 2)) ** -0.5)  # (N (4 mu^2 + 2 mu + 2))^(-1/2)


def vanilla_factor(layers: int, input_norm: float) -> float:
    """DT-Fixup's factor for vanilla layers (Theorem 3.1).

    >>> vanilla_factor(25, 10.0)
    0.01
    """
    _require_depth(layers)
    return float(layers**-0.5 / (2 * _require_norm(input_norm)))  # N^(-1/2) / (2 mu)


def t_fixup_factor(layers: int) -> float:
    """T-Fixup's encoder factor, 0.67 N^(-1/4) (Huang et al. 2020, section 3.3).

    >>> t_fixup_factor(16)
    0.335
    """
    _require_depth(layers)
    return float(0.67 * layers**-0.25)


def deepnorm_skip(layers: int) -> float:
    """DeepNorm's weight alpha of the skip connection, (2N)^(1/4) (Wang et al. 2022, encoder only).

    >>> deepnorm_skip(8)
    2.0
    """
    _require_depth(layers)
    return float((2 * layers) ** 0.25)


def deepnorm_gain(layers: int) -> float:
    """DeepNorm's Xavier gain beta of value, output and MLP weights, (8N)^(-1/4).

    >>> deepnorm_gain(2)
    0.5
    """
    _require_depth(layers)
    return float((8 * layers) ** -0.25)


def admin_skips(input_variance: float, branch_variances: Sequence[float]) -> list[float]:
    """Admin's skip weights: omega_i = sqrt(Var[x_0] + sum over j < i of Var[f_j]) (Liu et al. 2020).

    >>> admin_skips(1.0, [3.0, 5.0])
    [1.0, 2.0]
    """
    skips, total = [], input_variance
    for variance in branch_variances:
        skips.append(math.sqrt(total))
        total += variance
    return skips


def _require_depth(layers: int) -> None:
    if layers < 1:
        raise ConfigError(f"the number of layers must be at least 1, got {layers}")


def _require_norm(input_norm: float) -> float:
    if not _SMALLEST_NORM < input_norm < _LARGEST_NORM:  # also false for NaN
        raise InputNormError(
            f"the input norm must be a positive finite number of a plausible size, got {input_norm}: "
            "take it from measure_input_norm(model, stack, batches)"
        )
    return input_norm
