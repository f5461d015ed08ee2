"""Time and memory of one training step of the `paper` preset, on RoBERTa-large with random weights.

`python benchmarks/paper_step.py --data PREPARED [--steps N] [--batch-size N] [--out FILE]`. Only shapes count here, so
RoBERTa-large is built from its published configuration and nothing is downloaded; the data may be prepared for MiniLM,
whose token numbers RoBERTa's vocabulary holds. Steps are those of the engine: CUDA graphs on a GPU, with the batch
gathered, the stack watched and Adam applied inside. They are timed on every shape of an epoch's batches, and a step's
time is the mean over the epoch; `--shapes N` takes the N most frequent shapes only, and then the largest may not be in
the peak of memory. To try it on a CPU: `--encoder minilm --layers 2 --steps 2 --batch-size 2 --shapes 2`.
"""

import argparse
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import RobertaConfig, RobertaModel

from dtfixup.encoders import Encoder, encoder_identity, load_encoder
from dtfixup.files import write_json
from dtfixup.fixup import FixupReport
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.fixup.monitor import watch
from dtfixup.provenance import begin, provenance
from dtfixup.sql.model.config import paper
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.shapes import Shape
from dtfixup.sql.model.task import SqlTask
from dtfixup.training.config import changed, to_json
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.precision import autocast, float32_products
from dtfixup.training.result import peak_gib
from dtfixup.training.seeds import stream_seed
from dtfixup.training.steps import EagerSteps, GraphSteps, StepLog
from dtfixup.training.update import Updater

ROBERTA_LARGE = "roberta-large"
MINILM = "minilm"
WARM_UP = 3
"""Steps of each shape before the clock starts; the first captures its graph."""


@dataclass(frozen=True)
class Timed:
    """What was measured on the batches of one shape."""

    shape: Shape
    share: float
    """Of the batches of an epoch."""
    step_ms: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="prepared dataset")
    parser.add_argument("--encoder", choices=(ROBERTA_LARGE, MINILM), default=ROBERTA_LARGE)
    parser.add_argument("--minilm", default=MINILM, help="MiniLM's folder, where the package is not installed")
    parser.add_argument("--layers", type=int, default=paper().model.layers)
    parser.add_argument("--batch-size", type=int, default=paper().training.batch_size)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each shape")
    parser.add_argument("--shapes", type=int, help="only so many shapes, the most frequent ones")
    parser.add_argument("--measured", type=int, default=256, help="training examples that mu is measured on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="result file")
    options = parser.parse_args()
    started = begin()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
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
    for name, value in metrics.items():
        print(f"  {name:16}{value:14,.2f}")
    if options.out:
        data_hash = prepared.index["data_hash"]
        record = provenance(
            "paper-step",
            command(),
            started,
            seed=options.seed,
            encoder=encoder_identity(options.minilm),
            data_hash=data_hash,
        )
        if options.encoder == ROBERTA_LARGE:  # made here, so there is no file of weights to name
            record |= {"encoder": f"{ROBERTA_LARGE}, random weights", "encoder_sha256": ""}
        record |= {"dtype": str(config.training.precision), "config": to_json(config), "metrics": metrics}
        print(f"result: {write_json(options.out, record)}")


def command() -> str:
    """How this was called, without folders of this machine."""
    words = list(sys.argv[1:])
    for place, word in enumerate(words[:-1]):
        if word in ("--data", "--minilm", "--out"):
            words[place + 1] = "FILE" if word == "--out" else "DIR"
    return shlex.join(["python", "benchmarks/paper_step.py", *words])


def encoder_named(name: str, place: str) -> Encoder:
    """MiniLM, or RoBERTa-large with random weights; its tokenizer is not used, and is MiniLM's."""
    minilm = load_encoder(place)
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
    updater = Updater(task.parameter_groups(), training.update)
    updater.set_rate(1.0)
    planned = task.batches(0, np.random.default_rng(stream_seed(training.seed, "data")))
    frequent = Counter(batch.shape for batch in planned).most_common(shapes)

    def loss_sum(example_B: Tensor, shape: Shape) -> Tensor:
        with autocast(training.precision, device):
            return task.loss_sum(example_B, shape)

    log = StepLog(len(frequent) * (WARM_UP + steps), device)
    task.model.train()
    fixed = next(batch for batch in planned if batch.shape == frequent[0][0])
    before = mean_loss(task, fixed)
    timed = []
    with watch(task.stack, report, every=training.log_every).to(device) as monitor:
        eager = EagerSteps(loss_sum, updater, log, monitor)
        run = GraphSteps(eager) if device.type == "cuda" else eager
        for shape, count in frequent:
            batches = [batch for batch in planned if batch.shape == shape]
            timed.append(Timed(shape, count / len(planned), timed_ms(run, batches, steps, device)))
            print(f"  {timed[-1].step_ms:8.2f} ms a step: {timed[-1].share:4.0%} of an epoch's batches, {shape}")
    covered = sum(each.share for each in timed)
    return {
        "step_ms": round(sum(each.share * each.step_ms for each in timed) / covered, 2),
        "covered_share": round(100 * covered, 1),
        "peak_gib": round(peak_gib(device), 2),
        "loss_before": round(before, 3),
        "loss_after": round(mean_loss(task, fixed), 3),
        "skipped_steps": sum(skipped for _, _, skipped in log.read(log.size)),
        "batch_size": training.batch_size,
    }


def timed_ms(
    run: GraphSteps[Shape] | EagerSteps[Shape], batches: Sequence[PlannedBatch[Shape]], steps: int, device: torch.device
) -> float:
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
