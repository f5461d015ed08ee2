"""Time and memory of one training step of the `paper` preset, on RoBERTa-large with random weights.

`python benchmarks/paper_step.py --data PREPARED [--steps N] [--batch-size N] [--out FILE]`. Only shapes count here, so
RoBERTa-large is built from its published configuration and nothing is downloaded; the data may be prepared for MiniLM,
whose token numbers RoBERTa's vocabulary holds. Steps are those of the engine: CUDA graphs on a GPU, with the batch
gathered, the stack watched and Adam applied inside. They are timed on every shape of an epoch's batches, and a step's
time is the mean over the epoch; `--shapes N` takes the N most frequent shapes only, and then the largest may not be in
the peak of memory. To try it on a CPU: `--encoder minilm --layers 2 --steps 2 --batch-size 2 --shapes 2`.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch
from measure import Benchmark, best_device, show
from stability import Steps, engine_steps
from transformers import RobertaConfig, RobertaModel

from dtfixup.encoders import Encoder, load_encoder
from dtfixup.fixup import FixupReport
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.sql.model.config import paper
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.shapes import Shape
from dtfixup.sql.model.task import SqlTask
from dtfixup.training.config import changed, to_json
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.precision import autocast, float32_products
from dtfixup.training.result import peak_gib
from dtfixup.training.seeds import stream_seed

ROBERTA_LARGE = "roberta-large"
MINILM = "minilm"
WARM_UP = 3
"""Steps of each shape before the clock starts; the first captures its graph."""


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--data", type=Path, required=True, help="prepared dataset")
    benchmark.option("--encoder", choices=(ROBERTA_LARGE, MINILM), default=ROBERTA_LARGE)
    benchmark.option("--minilm", type=Path, default=Path(MINILM), help="its folder, where the package is not installed")
    benchmark.option("--layers", type=int, default=paper().model.layers)
    benchmark.option("--batch-size", type=int, default=paper().training.batch_size)
    benchmark.option("--steps", type=int, default=20, help="timed steps of each shape")
    benchmark.option("--shapes", type=int, help="only so many shapes, the most frequent ones")
    benchmark.option("--measured", type=int, default=256, help="training examples that mu is measured on")
    benchmark.option("--seed", type=int, default=1)
    options = benchmark.start()
    device = best_device()
    config = changed(
        paper(),
        {
            "encoder": options.encoder,
            "model": {"layers": options.layers},
            "training": {"batch_size": options.batch_size, "seed": options.seed},
        },
    )
    prepared = open_prepared(options.data)
    torch.manual_seed(stream_seed(options.seed, "model"))
    task = SqlTask(config, prepared, encoder_named(options.encoder, options.minilm), device)
    parameters = sum(parameter.numel() for parameter in task.model.parameters())
    print(f"{options.encoder}, {options.layers} new layers: {parameters / 1e6:.1f} M parameters, on {device}")
    with float32_products(config.training.precision):
        report = initialise(task, options.measured)
        print(f"input norm mu = {report.input_norm:.2f}, over about {options.measured} training examples")
        metrics = {"parameters": parameters, **measure(task, report, options.steps, options.shapes)}
    show(metrics)
    fields = {"dtype": str(config.training.precision), "config": to_json(config)}
    if options.encoder == ROBERTA_LARGE:  # made here, so there is no file of weights to name
        fields |= {"encoder": f"{ROBERTA_LARGE}, random weights", "encoder_sha256": ""}
    benchmark.finish(
        "paper-step",
        metrics,
        seed=options.seed,
        encoder=options.minilm,
        data_hash=prepared.index["data_hash"],
        **fields,
    )


def encoder_named(name: str, folder: Path) -> Encoder:
    """MiniLM, or RoBERTa-large with random weights; its tokenizer is not used, and is MiniLM's."""
    minilm = load_encoder(folder)
    if name == MINILM:
        return minilm
    config = RobertaConfig(
        vocab_size=50265,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=514,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    return Encoder(RobertaModel(config, add_pooling_layer=False), minilm.tokenizer, minilm.word_tokenizer, name)


def initialise(task: SqlTask, measured: int) -> FixupReport:
    """DT-Fixup, with mu over a part of the training examples: a step takes as long with another mu."""
    device = task.corpus.device
    generator = torch.Generator(device).manual_seed(stream_seed(task.config.training.seed, "init"))
    everything = task.train
    task.train = everything[:: max(len(everything) // measured, 1)]
    report = task.initialise(generator)
    task.train = everything
    assert report is not None  # there are new layers
    return report


def measure(task: SqlTask, report: FixupReport, steps: int, shapes: int | None) -> dict[str, float]:
    """Time whole steps, shape by shape, the most frequent first."""
    training, device = task.config.training, task.corpus.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    planned = task.batches(0, np.random.default_rng(stream_seed(training.seed, "data")))
    frequent = Counter(batch.shape for batch in planned).most_common(shapes)
    fixed = next(batch for batch in planned if batch.shape == frequent[0][0])
    before = mean_loss(task, fixed)
    times = []
    with engine_steps(task, report, len(frequent) * (WARM_UP + steps)) as (run, updater, log):
        updater.set_rate(1.0)
        for shape, count in frequent:
            step_ms = timed_ms(run, [batch for batch in planned if batch.shape == shape], steps, device)
            share = count / len(planned)
            print(f"  {step_ms:8.2f} ms a step: {share:4.0%} of an epoch's batches, {shape}")
            times.append((share, step_ms))
    covered = sum(share for share, _ in times)
    return {
        "step_ms": round(sum(share * step_ms for share, step_ms in times) / covered, 2),
        "covered_share": round(100 * covered, 1),
        "peak_gib": round(peak_gib(device), 2),
        "loss_before": round(before, 3),
        "loss_after": round(mean_loss(task, fixed), 3),
        "skipped_steps": sum(skipped for _, _, skipped in log.read(log.size)),
        "batch_size": training.batch_size,
    }


def timed_ms(run: Steps, batches: Sequence[PlannedBatch[Shape]], steps: int, device: torch.device) -> float:
    """Milliseconds of one step, whatever the host does for it included."""
    started = 0.0
    for number, batch in enumerate(islice(cycle(batches), WARM_UP + steps)):
        if number == WARM_UP:
            wait_for(device)
            started = time.perf_counter()
        run(torch.from_numpy(batch.examples), batch.shape)
    wait_for(device)
    return 1000 * (time.perf_counter() - started) / steps


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.no_grad()
def mean_loss(task: SqlTask, batch: PlannedBatch[Shape]) -> float:
    """Of the examples of a batch, without dropout."""
    example_B = torch.from_numpy(batch.examples).to(task.corpus.device)
    with evaluation_mode(task.model.modules()), autocast(task.config.training.precision, example_B.device):
        return float(task.loss_sum(example_B, batch.shape) / (example_B >= 0).sum())


if __name__ == "__main__":
    main()
