"""Forward and backward of relation-aware layers: the textbook form, tables, the fused kernel, and no relations.

    python benchmarks/relation_attention.py [--layers N] [--lengths N ...] [--json FILE]

On a GPU in bfloat16 as training runs it (all weights cast together), eager and as one CUDA graph; elsewhere in float32,
with smaller sizes unless told otherwise. All forms get the same input, mask and weights; the one without relations uses
PyTorch's own fused attention. Legend: B batch, L length, D width.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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


Numbers = dict[str, float]
"""Medians of one form at one length: `ms` is the graph's time where there is one."""


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


def measure_on_cpu(forms: Sequence[str], length: int, sizes: Sizes) -> dict[str, Numbers]:
    """The forms take turns, so that other load on the machine affects all alike."""
    runs = {form: forward_and_backward(form, length, sizes, torch.device("cpu")) for form in forms}
    times: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(1 + sizes.repeats):
        for form, run in runs.items():
            started = time.perf_counter()
            run()
            times[form].append(1000 * (time.perf_counter() - started))
    medians = {form: statistics.median(taken[1:]) for form, taken in times.items()}
    return {form: {"eager_ms": taken, "ms": taken} for form, taken in medians.items()}


def measure_on_gpu(form: str, length: int, sizes: Sizes, device: torch.device) -> Numbers:
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
    return {"eager_ms": eager_ms, "ms": graph_ms, "peak_gib": peak_gib}


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


def measure_all(
    sizes: Sizes, forms: Sequence[str], ours: str, device: torch.device, console: Console
) -> dict[tuple[str, int], Numbers]:
    """The numbers of every form at every length, with its time over that of ours."""
    measured: dict[tuple[str, int], Numbers] = {}
    for length in sizes.lengths:
        if device.type == "cpu":
            measured |= {(form, length): row for form, row in measure_on_cpu(forms, length, sizes).items()}
            continue
        for form in forms:
            try:
                measured[form, length] = measure_on_gpu(form, length, sizes, device)
            except torch.OutOfMemoryError:
                console.print(f"n = {length}: {TITLES[form]} is left out, the memory of this GPU does not suffice")
    for (_, length), row in measured.items():
        if (ours, length) in measured:
            row[f"over_{ours}"] = row["ms"] / measured[ours, length]["ms"]
    return measured


def table_of(measured: Mapping[tuple[str, int], Numbers], sizes: Sizes, ours: str) -> Table:
    title = f"forward + backward, {sizes.layers} layers, d {sizes.dim}, {sizes.heads} heads, B = {sizes.batch}"
    table = Table(title=title, caption=hardware())
    columns = {"eager_ms": "eager ms", "ms": "ms", "peak_gib": "peak GiB", f"over_{ours}": f"time over {TITLES[ours]}"}
    for heading in ("n", "form", *columns.values()):
        table.add_column(heading, justify="left" if heading == "form" else "right")
    for (form, length), row in measured.items():
        table.add_row(str(length), TITLES[form], *(f"{row[name]:.2f}" if name in row else "" for name in columns))
    return table


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
    measured = measure_all(sizes, forms, ours, device, console)
    console.print(table_of(measured, sizes, ours))
    dtype = "bfloat16" if on_gpu else "float32"
    metrics = {
        f"{form}_n{length}_{name}": round(number, 4)
        for (form, length), row in measured.items()
        for name, number in row.items()
    }
    benchmark.finish("relation-attention", metrics, seed=SEED, encoder=None, config=asdict(sizes), dtype=dtype)


if __name__ == "__main__":
    main()
