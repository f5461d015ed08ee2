"""Forward and backward of relation-aware layers: the textbook form, tables, the fused kernel, and no relations.

    python benchmarks/relation_attention.py [--layers N] [--lengths N ...] [--json FILE]

On a GPU in bfloat16 as training runs it (all weights cast together), eager and as one CUDA graph; elsewhere in float32,
with smaller sizes unless told otherwise. All forms get the same input, mask and weights; the one without relations uses
PyTorch's own fused attention. Legend: B batch, L length, D width.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from measure import Benchmark, best_device
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from dtfixup import dt_fixup_
from dtfixup.provenance import hardware
from dtfixup.training.casting import call_cast, cast_names
from dtfixup.transformer import Attention, Kernel, StackConfig, TransformerStack

SEED = 0
TITLES = {"plain": "textbook", "tables": "tables", "fused": "fused", "no_relations": "no relations, SDPA"}
Run = Callable[[], Sequence[Tensor]]


@dataclass(frozen=True)
class Sizes:
    """What is measured."""

    layers: int
    batch: int
    lengths: tuple[int, ...]
    repeats: int
    dim: int = 256
    heads: int = 8
    relations: int = 56


ON_A_GPU = Sizes(layers=24, batch=16, lengths=(100, 256, 512), repeats=20)
ON_A_CPU = Sizes(layers=2, batch=4, lengths=(32, 64), repeats=5)


@dataclass(frozen=True)
class Figures:
    """The median of one form at one length; what does not apply is None."""

    form: str
    length: int
    eager_ms: float
    graph_ms: float | None
    peak_gib: float | None

    @property
    def ms(self) -> float:
        return self.eager_ms if self.graph_ms is None else self.graph_ms


class VanillaSdpa(Attention):
    """Attention without relations, by PyTorch's kernels."""

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None) -> Tensor:
        q_BHLZ, k_BHLZ, v_BHLZ = (self.split(project(x_BLD)) for project in (self.query, self.key, self.value))
        mask_B11L = None if keep_BL is None else keep_BL[:, None, None]
        z_BHLZ = scaled_dot_product_attention(q_BHLZ, k_BHLZ, v_BHLZ, mask_B11L)
        branch_BLD: Tensor = self.output(self.merge(z_BHLZ))
        return branch_BLD


def build_stack(form: str, sizes: Sizes, device: torch.device) -> TransformerStack:
    torch.manual_seed(SEED)
    vanilla = form == "no_relations"
    kernel = Kernel.AUTO if vanilla else Kernel(form)
    relations = 0 if vanilla else sizes.relations
    stack = TransformerStack(StackConfig(sizes.layers, sizes.dim, sizes.heads, relations=relations, kernel=kernel))
    if vanilla:
        for layer in stack.layers:
            layer.attention = VanillaSdpa(sizes.dim, sizes.heads)
    dt_fixup_(stack, sizes.dim**0.5)
    return stack.to(device)


def forward_and_backward(form: str, length: int, sizes: Sizes, device: torch.device) -> Run:
    """A call that returns the gradients of the input and of every weight."""
    stack = build_stack(form, sizes, device)
    random = torch.Generator().manual_seed(SEED)
    x_BLD = torch.randn(sizes.batch, length, sizes.dim, generator=random).to(device).requires_grad_()
    real_B = torch.randint(length // 2, length + 1, (sizes.batch,), generator=random)
    keep_BL = (torch.arange(length) < real_B[:, None]).to(device)
    ids_BLL = torch.randint(sizes.relations, (sizes.batch, length, length), dtype=torch.uint8, generator=random)
    relation = () if form == "no_relations" else (ids_BLL.to(device),)
    wanted = (x_BLD, *stack.parameters())
    names = cast_names(stack)

    def run() -> Sequence[Tensor]:
        if device.type == "cuda":
            with torch.autocast(device.type, torch.bfloat16):
                y_BLD = call_cast(stack, torch.bfloat16, names, x_BLD, keep_BL, *relation)
        else:
            y_BLD = stack(x_BLD, keep_BL, *relation)
        return torch.autograd.grad(y_BLD, wanted, torch.ones_like(y_BLD))

    return run


def measure_on_cpu(forms: Sequence[str], length: int, sizes: Sizes) -> list[Figures]:
    """The forms take turns, so that what else this machine does meets all of them."""
    runs = {form: forward_and_backward(form, length, sizes, torch.device("cpu")) for form in forms}
    times: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(1 + sizes.repeats):
        for form, run in runs.items():
            started = time.perf_counter()
            run()
            times[form].append(1000 * (time.perf_counter() - started))
    return [Figures(form, length, statistics.median(times[form][1:]), None, None) for form in forms]


def measure_on_gpu(form: str, length: int, sizes: Sizes, device: torch.device) -> Figures:
    """Time of the eager run and of its graph, memory of the eager run."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    run = forward_and_backward(form, length, sizes, device)
    eager_ms = median_ms(run, sizes.repeats)
    peak_gib = torch.cuda.max_memory_allocated(device) / 2**30
    torch.cuda.empty_cache()  # a graph has memory of its own
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradients = run()
    graph_ms = median_ms(graph.replay, sizes.repeats)
    del gradients  # what the graph writes lives as long as it runs
    return Figures(form, length, eager_ms, graph_ms, peak_gib)


def median_ms(run: Callable[[], object], repeats: int) -> float:
    for _ in range(2):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(float(start.elapsed_time(end)) for start, end in events)


def measure_all(sizes: Sizes, forms: Sequence[str], device: torch.device, console: Console) -> list[Figures]:
    found = []
    for length in sizes.lengths:
        if device.type == "cpu":
            found += measure_on_cpu(forms, length, sizes)
            continue
        for form in forms:
            try:
                found.append(measure_on_gpu(form, length, sizes, device))
            except torch.OutOfMemoryError:
                console.print(f"n = {length}: {TITLES[form]} is left out, the memory of this GPU does not suffice")
    return found


def table_of(found: Sequence[Figures], sizes: Sizes, ours: str) -> Table:
    title = f"forward + backward, {sizes.layers} layers, d {sizes.dim}, {sizes.heads} heads, B = {sizes.batch}"
    table = Table(title=title, caption=hardware())
    for heading in ("n", "form", "eager ms", "graph ms", "peak GiB", f"time over {TITLES[ours]}"):
        table.add_column(heading, justify="left" if heading == "form" else "right")
    base = {figures.length: figures.ms for figures in found if figures.form == ours}
    for figures in found:
        graph = "" if figures.graph_ms is None else f"{figures.graph_ms:.2f}"
        peak = "" if figures.peak_gib is None else f"{figures.peak_gib:.2f}"
        ratio = f"{figures.ms / base[figures.length]:.2f}" if figures.length in base else ""
        table.add_row(str(figures.length), TITLES[figures.form], f"{figures.eager_ms:.2f}", graph, peak, ratio)
    return table


def metrics_of(found: Sequence[Figures], ours: str) -> dict[str, float]:
    """A flat map of numbers: `fused_n100_ms` is the graph's time where there is one."""
    base = {figures.length: figures.ms for figures in found if figures.form == ours}
    metrics = {}
    for figures in found:
        name = f"{figures.form}_n{figures.length}"
        metrics[f"{name}_ms"] = figures.ms
        metrics[f"{name}_eager_ms"] = figures.eager_ms
        if figures.peak_gib is not None:
            metrics[f"{name}_peak_gib"] = figures.peak_gib
        if figures.length in base:
            metrics[f"{name}_over_{ours}"] = figures.ms / base[figures.length]
    return {name: round(number, 4) for name, number in metrics.items()}


def main() -> None:
    device = best_device()
    on_gpu = device.type == "cuda"
    usual = ON_A_GPU if on_gpu else ON_A_CPU
    benchmark = Benchmark(__doc__)
    benchmark.option("--layers", type=int, default=usual.layers)
    benchmark.option("--batch", type=int, default=usual.batch)
    benchmark.option("--lengths", type=int, nargs="+", default=usual.lengths)
    benchmark.option("--repeats", type=int, default=usual.repeats)
    benchmark.option("--relations", type=int, default=usual.relations)
    options = benchmark.start()
    sizes = Sizes(options.layers, options.batch, tuple(options.lengths), options.repeats, relations=options.relations)
    ours = "fused" if on_gpu else "tables"
    forms = [form for form in TITLES if on_gpu or form != "fused"]
    console = Console()
    figures = measure_all(sizes, forms, device, console)
    console.print(table_of(figures, sizes, ours))
    dtype = "bfloat16" if on_gpu else "float32"
    metrics = metrics_of(figures, ours)
    benchmark.finish("relation-attention", metrics, seed=SEED, encoder=None, config=asdict(sizes), dtype=dtype)


if __name__ == "__main__":
    main()
