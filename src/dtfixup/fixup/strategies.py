"""Ways to make a deep stack trainable, behind one interface.

A strategy defines where its layers normalise, how branches join the stream, whether its schedule needs a warm-up,
and how its weights start. `TransformerStack(config, strategy)` builds the layers for it;
`strategy.initialise_(stack, ...)` sets the weights. DT-Fixup, T-Fixup and unscaled Xavier only remove layer norms,
so they apply to any supported stack.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch
from torch import Tensor, nn

from dtfixup.errors import InputNormError, StrategyError
from dtfixup.fixup.apply import dt_fixup_, initialise_stack_
from dtfixup.fixup.calls import call_arguments, evaluation_mode, stack_input
from dtfixup.fixup.input_norm import InputNorm
from dtfixup.fixup.layers import LayerWeights, Stack, first_module, layers_of, modules_of, padding_keep
from dtfixup.fixup.report import FixupReport
from dtfixup.fixup.residual import NormPlacement, Residual, SkipKind
from dtfixup.fixup.scaling import admin_skips, deepnorm_gain, deepnorm_skip, t_fixup_factor


class Warmup(StrEnum):
    """The warm-up that a strategy needs."""

    NONE = "none"
    SHORT = "short"
    FULL = "full"


class Rule(StrEnum):
    """How the weights are initialised."""

    XAVIER = "xavier"
    DT_FIXUP = "dt-fixup"
    T_FIXUP = "t-fixup"
    DEEPNORM = "deepnorm"
    ADMIN = "admin"


@dataclass(frozen=True)
class Strategy:
    """Normalisation, initialisation and schedule needs of one method."""

    name: str
    norm: NormPlacement
    skip: SkipKind
    warmup: Warmup
    rule: Rule

    @property
    def needs_input_norm(self) -> bool:
        return self.rule is Rule.DT_FIXUP

    @property
    def fits_any_stack(self) -> bool:
        """Whether it applies to layers that `TransformerStack` did not build."""
        return self.norm is NormPlacement.NONE and self.skip is SkipKind.PLAIN

    def residual(self, dim: int, layers: int) -> Residual:
        """A skip connection of this strategy, for a stack of `layers` layers."""
        constant = deepnorm_skip(layers) if self.skip is SkipKind.CONSTANT else 1.0
        return Residual(dim, self.norm, self.skip, strategy_name=self.name, constant=constant)

    def initialise_(
        self,
        stack: Stack,
        *,
        input_norm: InputNorm | float | None = None,
        profile: Callable[[], object] | None = None,
        generator: torch.Generator | None = None,
    ) -> FixupReport:
        """Set the weights of a stack that was built for this strategy.

        Args:
            stack: the new layers.
            input_norm: mu; only DT-Fixup needs it.
            profile: runs the model on some batches; Admin needs it to measure its branches.
            generator: the random stream of the new weights.
        """
        self._require_fit(stack)
        if self.rule is Rule.DT_FIXUP:
            if input_norm is None:
                raise InputNormError("dt-fixup needs input_norm=measure_input_norm(model, stack, batches)")
            return dt_fixup_(stack, input_norm, generator=generator)
        then = None
        if self.rule is Rule.ADMIN:
            if profile is None:
                raise StrategyError("admin needs profile=, a function that runs the model on some batches")
            then = partial(_set_admin_skips_, stack, profile)
        return initialise_stack_(
            stack,
            self._factor,
            strategy=self.name,
            remove_norms=self.fits_any_stack,
            generator=generator,
            then=then,
        )

    def _factor(self, layers: int, weights: LayerWeights) -> float:
        if self.rule is Rule.T_FIXUP:
            return t_fixup_factor(layers)
        return deepnorm_gain(layers) if self.rule is Rule.DEEPNORM else 1.0

    def _require_fit(self, stack: Stack) -> None:
        if self.fits_any_stack:
            return
        built_for = {module.strategy_name for _, module in modules_of(stack) if isinstance(module, Residual)}
        if built_for != {self.name}:
            raise StrategyError(
                f"{self.name} needs layers that were built for it: TransformerStack(config, {self.name!r}); "
                f"this stack was built for {', '.join(sorted(built_for)) or 'no strategy'}"
            )


def _set_admin_skips_(stack: Stack, profile: Callable[[], object]) -> None:
    """Measure Var[x_0] and the variance of every branch with w = 1, then set w (Liu et al. 2020, section 4.3).

    Padding is left out if the stack is called with a mask.
    """
    variances: dict[int, list[Tensor]] = {}
    keep: list[Tensor | None] = [None]

    def add(index: int, x: Tensor) -> None:
        real = x.detach() if keep[0] is None else x.detach()[keep[0].bool()]
        variances.setdefault(index, []).append(real.double().var())

    def enter(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        arguments = call_arguments(module, args, kwargs)
        keep[0] = padding_keep(stack, arguments)
        add(0, stack_input(module, arguments))

    def leave(index: int) -> Callable[[nn.Module, object, Tensor], None]:
        return lambda module, args, output: add(index, output)

    branches = [branch for _, _, weights in layers_of(stack) for branch in weights.branches]
    residuals = [module for _, module in modules_of(stack) if isinstance(module, Residual)]
    with ExitStack() as hooks, evaluation_mode(module for _, module in modules_of(stack)), torch.no_grad():
        hooks.callback(first_module(stack).register_forward_pre_hook(enter, with_kwargs=True).remove)
        for index, branch in enumerate(branches, start=1):
            hooks.callback(branch.register_forward_hook(leave(index)).remove)
        profile()
    if len(variances) != len(branches) + 1:
        raise StrategyError("profile= did not run the stack: it must call the model on at least one batch")
    means = [float(torch.stack(variances[index]).mean()) for index in range(len(branches) + 1)]
    with torch.no_grad():
        for residual, skip in zip(residuals, admin_skips(means[0], means[1:]), strict=True):
            assert residual.weight_D is not None  # _require_fit checked that the stack was built for Admin
            residual.weight_D.fill_(skip)


DT_FIXUP = Strategy("dt-fixup", NormPlacement.NONE, SkipKind.PLAIN, Warmup.NONE, Rule.DT_FIXUP)
STANDARD = Strategy("standard", NormPlacement.POST, SkipKind.PLAIN, Warmup.FULL, Rule.XAVIER)
PRE_LN = Strategy("pre-ln", NormPlacement.PRE, SkipKind.PLAIN, Warmup.NONE, Rule.XAVIER)
T_FIXUP = Strategy("t-fixup", NormPlacement.NONE, SkipKind.PLAIN, Warmup.NONE, Rule.T_FIXUP)
REZERO = Strategy("rezero", NormPlacement.NONE, SkipKind.GATED, Warmup.NONE, Rule.XAVIER)
ADMIN = Strategy("admin", NormPlacement.POST, SkipKind.LEARNED, Warmup.FULL, Rule.ADMIN)
DEEPNORM = Strategy("deepnorm", NormPlacement.POST, SkipKind.CONSTANT, Warmup.SHORT, Rule.DEEPNORM)
UNSCALED = Strategy("unscaled", NormPlacement.NONE, SkipKind.PLAIN, Warmup.NONE, Rule.XAVIER)

STRATEGIES = {
    strategy.name: strategy for strategy in (DT_FIXUP, STANDARD, PRE_LN, T_FIXUP, REZERO, ADMIN, DEEPNORM, UNSCALED)
}


def strategy_named(name: str) -> Strategy:
    """The strategy of that name.

    >>> strategy_named("pre-ln").warmup
    <Warmup.NONE: 'none'>
    """
    if name not in STRATEGIES:
        raise StrategyError(f"there is no strategy {name!r}: choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
