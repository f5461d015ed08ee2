"""What grows in a deep stack without layer norms while it trains: SQL-SP with and without its guards.

    python benchmarks/stability.py --data PREPARED --out FILE.json [--plot FILE.png] [--steps N] [--rate R] [--bare]
                                   [--limit FACTOR]

Every `--every` steps a fixed batch goes through the model, and these are recorded:

- input norm: the longest stack input, over mu;
- growth: the longest vector after any layer, over the longest input;
- the largest attention logit, and the largest singular value of a head's query times key;
- gain: the gradient's norm at the stack's input, over that at its output;
- the size of Adam's last step over the learning rate, for new layers and encoder;
- drift: how far encoder and new layers are from their start, as a share of their norm;
- of the steps since the last probe: the highest gradient norm, how many were skipped, and the last loss.

`--bare` clips nothing and skips nothing; `--limit` shortens vectors of the stream that are longer than so many mu.
Several files drawn together: `python benchmarks/stability.py --draw A.json B.json --plot FILE.png`.
Legend: B batch, L length, D width, H heads, Z width of a head, R relations.
"""

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gradient_gain import gain_of
from measure import Benchmark, best_device
from rich.progress import track
from torch import Tensor, nn

from dtfixup.encoders import load_encoder
from dtfixup.files import read_json, write_atomically
from dtfixup.fixup import FixupReport
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.fixup.monitor import watch
from dtfixup.sql.model.config import minilm
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.shapes import Shape
from dtfixup.sql.model.task import SqlTask
from dtfixup.training.config import changed, to_json
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.precision import autocast, float32_products
from dtfixup.training.schedule import anneal
from dtfixup.training.seeds import stream_seed
from dtfixup.training.steps import EagerSteps, GraphSteps, StepLog
from dtfixup.training.update import Updater
from dtfixup.transformer import RelationAttention
from dtfixup.transformer.layer import TransformerLayer

Steps = GraphSteps[Shape] | EagerSteps[Shape]
UNGUARDED = 1e30
PANELS = {
    "loss": "loss",
    "gradient_norm": "gradient norm",
    "input_norm_over_mu": "input norm over mu",
    "growth": "residual stream, over input",
    "largest_logit": "largest attention logit",
    "query_key": "query times key of a head, largest singular value",
    "gain": "gradient at the stack's input over output",
    "skipped": "steps skipped",
    "adam_step_new": "Adam's step over the rate, new layers",
    "adam_step_encoder": "Adam's step over the rate, encoder",
    "drift_encoder": "encoder, distance from start",
    "drift_new": "new layers, distance from start",
}


def main() -> None:
    preset = minilm()
    benchmark = Benchmark(__doc__)
    benchmark.option("--data", type=Path, help="prepared dataset")
    benchmark.option("--plot", type=Path, help="PNG file")
    benchmark.option("--draw", type=Path, nargs="+", help="result files to draw, instead of training")
    benchmark.option("--encoder", type=Path, default=Path(preset.encoder))
    benchmark.option("--layers", type=int, default=preset.model.layers)
    benchmark.option("--batch-size", type=int, default=preset.training.batch_size)
    benchmark.option("--rate", type=float, default=preset.training.update.learning_rate)
    benchmark.option("--encoder-factor", type=float, default=preset.encoder_factor)
    benchmark.option("--steps", type=int, default=6000, help="length of the whole schedule")
    benchmark.option("--every", type=int, default=100, help="steps between two probes")
    benchmark.option("--limit", type=float, default=preset.model.stream_limit, help="of the stream, in mu; 0: none")
    benchmark.option("--bare", action="store_true", help="no clipping, no skipping")
    benchmark.option("--seed", type=int, default=1)
    options = benchmark.start()
    if not options.draw:
        if options.data is None or options.out is None:
            benchmark.refuse("--data and --out are needed")
        train(benchmark, options)
    elif options.plot is None:
        benchmark.refuse("--draw needs --plot FILE.png")
    if options.plot:
        print(f"picture: {draw([read_json(path) for path in options.draw or [options.out]], options.plot)}")


def train(benchmark: Benchmark, options: Namespace) -> None:
    """One training run, into the result file."""
    update = {"learning_rate": options.rate} | ({"clip": UNGUARDED, "spike": UNGUARDED} if options.bare else {})
    config = changed(
        minilm(),
        {
            "encoder": str(options.encoder),
            "encoder_factor": options.encoder_factor,
            "synthetic": 0.0,
            "model": {"layers": options.layers, "stream_limit": options.limit},
            "training": {"batch_size": options.batch_size, "seed": options.seed, "update": update},
        },
    )
    device, prepared = best_device(), open_prepared(options.data)
    torch.manual_seed(stream_seed(options.seed, "model"))
    task = SqlTask(config, prepared, load_encoder(options.encoder), device)
    with float32_products(config.training.precision):
        report = task.initialise(torch.Generator(device).manual_seed(stream_seed(options.seed, "init")))
        assert report is not None  # there are new layers
        curve, ending = follow(task, report, options.steps, options.every)
    print(ending)
    benchmark.finish(
        "stability" + ("-bare" if options.bare else "") + (f"-limit{options.limit:g}" if options.limit else ""),
        {"steps": curve[-1]["step"]} | {f"highest_{name}": highest(curve, name) for name in PANELS},
        seed=options.seed,
        encoder=options.encoder,
        data_hash=prepared.index["data_hash"],
        dtype=str(config.training.precision),
        config=to_json(config) | {"encoder": options.encoder.name},
        ending=ending,
        curve=curve,
    )


def highest(curve: Sequence[Mapping[str, float]], name: str) -> float:
    """The highest finite number."""
    return max((row[name] for row in curve if math.isfinite(row[name])), default=0.0)


@contextmanager
def engine_steps(task: SqlTask, report: FixupReport, log_size: int) -> Iterator[tuple[Steps, Updater, StepLog]]:
    """The engine's step on a batch, its update and its log; a CUDA graph on a GPU, with the stack watched."""
    training, device = task.config.training, task.corpus.device

    def loss_sum(example_B: Tensor, shape: Shape) -> Tensor:
        with autocast(training.precision, device):
            return task.loss_sum(example_B, shape)

    updater, log = Updater(task.parameter_groups(), training.update), StepLog(log_size, device)
    task.model.train()
    with watch(task.stack, report, every=training.log_every).to(device) as monitor:
        eager = EagerSteps(loss_sum, updater, log, monitor)
        yield GraphSteps(eager) if device.type == "cuda" else eager, updater, log


def follow(task: SqlTask, report: FixupReport, steps: int, every: int) -> tuple[list[dict[str, float]], str]:
    """Train, and probe every `every` steps; stop once the loss is not finite."""
    planned = batches_of(task)
    curve: list[dict[str, float]] = []
    with engine_steps(task, report, every) as (run, updater, log):
        probe = Probe(task, report, updater)
        for step in track(range(1, steps + 1), description="training"):
            rate = anneal(step - 1, steps, power=task.config.training.power)
            updater.set_rate(rate)
            batch = next(planned)
            if step % every and step > 1:
                run(torch.from_numpy(batch.examples), batch.shape)
                continue
            with probe.last_step(rate):
                run(torch.from_numpy(batch.examples), batch.shape)
            rows = log.read(min(step, every))
            curve.append({"step": step, "loss": rows[-1][0], "gradient_norm": max(norm for _, norm, _ in rows)})
            curve[-1] |= {"skipped": sum(skipped for _, _, skipped in rows), **probe.measure()}
            if not math.isfinite(rows[-1][0]):
                return curve, f"the loss was not finite any more at step {step:,}"
    return curve, f"all {steps:,} steps were taken, {int(sum(row['skipped'] for row in curve))} of them skipped"


def batches_of(task: SqlTask) -> Iterator[PlannedBatch[Shape]]:
    epoch = 0
    while True:
        random = np.random.default_rng(stream_seed(task.config.training.seed, f"data of epoch {epoch}"))
        yield from task.batches(epoch, random)
        epoch += 1


class Probe:
    """Measures a fixed batch and the parameters, between two steps."""

    def __init__(self, task: SqlTask, report: FixupReport, updater: Updater) -> None:
        self.task, self.updater = task, updater
        self.mu = report.input_norm or 1.0
        batches = task.batches(0, np.random.default_rng(0))
        shape = Counter(batch.shape for batch in batches).most_common(1)[0][0]
        self.batch = next(batch for batch in batches if batch.shape == shape)
        self.parts = {group.name: group.parameters for group in updater.groups}
        self.first = {name: copies(parameters) for name, parameters in self.parts.items()}
        self.steps: dict[str, float] = {}

    @contextmanager
    def last_step(self, rate: float) -> Iterator[None]:
        """Measures what the step in this block changes."""
        before = {name: copies(parameters) for name, parameters in self.parts.items()}
        yield
        for group in self.updater.groups:
            count = sum(parameter.numel() for parameter in group.parameters)
            size = distance(group.parameters, before[group.name]) / count**0.5
            scale = self.task.config.training.update.learning_rate * group.factor * rate
            self.steps[f"adam_step_{group.name}"] = size / scale if scale else 0.0

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        measured: dict[str, float] = {"adam_step_encoder": 0.0, "drift_encoder": 0.0, **self.steps}
        for name, parameters in self.parts.items():
            size = distance(self.first[name], [torch.zeros_like(each) for each in self.first[name]])
            measured[f"drift_{name}"] = distance(parameters, self.first[name]) / size
        stream: list[float] = []
        logits: list[float] = []
        layers = [layer for layer in self.task.model.stack.layers if isinstance(layer, TransformerLayer)]
        hooks = [layer.register_forward_pre_hook(lambda _, x: stream.append(longest(x[0], x[1]))) for layer in layers]
        hooks += [layer.register_forward_hook(lambda _, x, y: stream.append(longest(y, x[1]))) for layer in layers[-1:]]
        hooks += [
            layer.attention.register_forward_pre_hook(lambda module, x: logits.append(largest_logit(module, *x)))
            for layer in layers
        ]
        try:
            with evaluation_mode(self.task.model.modules()):
                self.task.encode(self.batch)
        finally:
            for hook in hooks:
                hook.remove()
        return measured | {
            "input_norm_over_mu": stream[0] / self.mu,
            "growth": max(stream) / stream[0],
            "largest_logit": max(logits),
            "query_key": max(query_key_norm(layer.attention) for layer in layers),
            "gain": gain_of(self.task, self.batch),
        }


def copies(parameters: Sequence[nn.Parameter] | Sequence[Tensor]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]


def distance(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    differences = torch._foreach_sub([tensor.detach() for tensor in left], list(right))
    return float(torch.stack(torch._foreach_norm(differences)).norm())


def longest(x_BLD: Tensor, keep_BL: Tensor) -> float:
    return float(x_BLD[keep_BL].norm(dim=-1).max())


def largest_logit(module: nn.Module, x_BLD: Tensor, keep_BL: Tensor, relation_BLL: Tensor) -> float:
    """The logit farthest from 0 between two real vectors, by the textbook."""
    assert isinstance(module, RelationAttention)
    q_BHLZ, k_BHLZ = module.split(module.query(x_BLD)), module.split(module.key(x_BLD))
    table_BHLR = q_BHLZ @ module.relation_key_RZ.T
    ids_BHLL = relation_BLL.long()[:, None].expand(-1, q_BHLZ.shape[1], -1, -1)
    logits_BHLL = (q_BHLZ @ k_BHLZ.mT + table_BHLR.gather(-1, ids_BHLL)) / q_BHLZ.shape[-1] ** 0.5
    both_BLL = keep_BL[:, :, None] & keep_BL[:, None]
    return float(logits_BHLL.abs().masked_fill(~both_BLL[:, None], 0.0).max())


def query_key_norm(module: nn.Module) -> float:
    """The largest singular value of query times key, over heads: a logit is this form of two vectors."""
    assert isinstance(module, RelationAttention)
    query_HZD, key_HZD = (
        weight.unflatten(0, (module.heads, -1)) for weight in (module.query.weight, module.key.weight)
    )
    return float(torch.linalg.matrix_norm(query_HZD.mT @ key_HZD, 2).max())


def draw(records: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """A panel for each quantity, a line for each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 4, figsize=(16, 9), sharex=True, layout="constrained")
    for axis, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        for record in records:
            rows = [row for row in record["curve"] if math.isfinite(row[name])]
            axis.plot([row["step"] for row in rows], [row[name] for row in rows], label=label_of(record), linewidth=1.2)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
        if name not in ("loss", "drift_encoder", "drift_new", "skipped"):
            axis.set_yscale("log")
    for axis in axes[-1]:
        axis.set_xlabel("step")
    axes[0, 0].legend(fontsize=8)
    written = write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130, format="png"))
    pyplot.close(figure)
    return written


def label_of(record: Mapping[str, Any]) -> str:
    update = record["config"]["training"]["update"]
    guards = "no guards" if update["clip"] >= UNGUARDED else "guards"
    limit = record["config"]["model"]["stream_limit"]
    stream = f"stream up to {limit:g} mu" if limit else "no limit"
    return f"rate {update['learning_rate']:g}, encoder {record['config']['encoder_factor']:g}, {guards}, {stream}"


if __name__ == "__main__":
    main()
