"""What a trained stack without layer norms makes of a gradient, against the length of its inputs, and by which way.

    python benchmarks/gradient_gain.py --model DIR --data PREPARED [--batches N] [--json FILE]

The inputs of the stack are multiplied by a factor. A table shows the gradient's norm at the first layer's input over
that at the stack's output, the highest over some training batches: as the model is; without a gradient through the
attention logits, through their queries, or through their keys; and with the stream limited to 2 and to 1 times mu,
which is the longest input of these batches.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch
from measure import Benchmark, best_device
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from dtfixup.encoders import load_encoder
from dtfixup.fixup import StreamLimit
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.sql.model.config import minilm
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.shapes import Shape
from dtfixup.sql.model.store import load_model
from dtfixup.sql.model.task import SqlTask
from dtfixup.training.config import changed, to_json
from dtfixup.training.plan import PlannedBatch

FACTORS = (1.0, 1.5, 2.0, 3.0)
WAYS = {
    "as it is": ((), 0.0),
    "logits pass no gradient": (("query", "key"), 0.0),
    "queries pass no gradient": (("query",), 0.0),
    "keys pass no gradient": (("key",), 0.0),
    "stream up to 2 mu": ((), 2.0),
    "stream up to 1 mu": ((), 1.0),
}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path, required=True)
    benchmark.option("--data", type=Path, required=True, help="prepared dataset")
    benchmark.option("--batches", type=int, default=8, help="of eight examples each")
    options = benchmark.start()
    device = best_device()
    trained, prepared = load_model(options.model, device), open_prepared(options.data)
    config = changed(minilm(), {"model": to_json(trained.model.config), "training": {"batch_size": 8}})
    task = SqlTask(config, prepared, load_encoder(trained.encoder), device)
    task.model.load_state_dict(trained.model.state_dict(), strict=False)  # the encoder's tables are there already
    batches = task.batches(0, np.random.default_rng(0))
    chosen = [batches[place] for place in np.random.default_rng(1).choice(len(batches), options.batches, replace=False)]
    mu = max(longest_input(task, batch) for batch in chosen)
    table = Table("", *(f"inputs × {factor:g}" for factor in FACTORS), title="gradient at the input over the output")
    metrics: dict[str, float] = {"mu": mu}
    for way, (cut, limit) in track(WAYS.items(), description="measuring"):
        gains = [max(gain(task, batch, factor, cut, limit * mu) for batch in chosen) for factor in FACTORS]
        table.add_row(way, *(f"{value:,.1f}" for value in gains))
        name = way.replace(" ", "_")
        metrics |= {f"{name}_x{factor:g}": value for factor, value in zip(FACTORS, gains, strict=True)}
    Console().print(table)
    benchmark.finish(
        "gradient-gain",
        metrics,
        encoder=trained.encoder,
        data_hash=prepared.index["data_hash"],
        config=to_json(trained.model.config),
    )


@contextmanager
def longer_inputs(stack: nn.Module, factor: float) -> Iterator[None]:
    """Inputs times a factor, before any limit."""
    hook = stack.register_forward_pre_hook(lambda _, x: (x[0] * factor, *x[1:]))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def without_gradient(modules: list[nn.Module]) -> Iterator[None]:
    """Their inputs are constants."""
    hooks = [module.register_forward_pre_hook(lambda _, x: (x[0].detach(),)) for module in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def gain(task: SqlTask, batch: PlannedBatch[Shape], factor: float, cut: tuple[str, ...], longest: float) -> float:
    stack = task.model.stack
    cut_modules = [getattr(layer.attention, name) for layer in stack.layers for name in cut]
    before = stack.limit
    stack.limit = limit_of(longest, before)
    with ExitStack() as changes:
        changes.callback(setattr, stack, "limit", before)
        changes.enter_context(longer_inputs(stack, factor))
        changes.enter_context(without_gradient(cut_modules))
        return gain_of(task, batch)


def gain_of(task: SqlTask, batch: PlannedBatch[Shape]) -> float:
    """The norm of the loss's gradient at the first layer's input over that at the stack's output."""
    stack = task.model.stack
    ends: list[Tensor] = []
    hooks = [
        stack.layers[0].register_forward_pre_hook(lambda _, x: ends.append(x[0])),
        stack.register_forward_hook(lambda _, x, y: ends.append(y)),
    ]
    try:
        with torch.enable_grad(), evaluation_mode(task.model.modules()):
            loss = task.loss_sum(torch.from_numpy(batch.examples).to(task.corpus.device), batch.shape)
            below, above = torch.autograd.grad(loss, ends)
    finally:
        for hook in hooks:
            hook.remove()
    return float(below.norm() / above.norm())


def limit_of(longest: float, before: StreamLimit | None) -> StreamLimit | None:
    if not longest:
        return before
    limit = StreamLimit(1.0)
    limit.set_(longest)
    return limit


@torch.no_grad()
def longest_input(task: SqlTask, batch: PlannedBatch[Shape]) -> float:
    found = [-math.inf]
    hook = task.model.stack.register_forward_pre_hook(lambda _, x: found.append(float(x[0][x[1]].norm(dim=-1).max())))
    try:
        task.encode(batch)
    finally:
        hook.remove()
    return max(found)


if __name__ == "__main__":
    main()
