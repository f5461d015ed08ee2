"""What packing a model costs on Spider's dev questions: the loss that the model card states.

`python benchmarks/pack_loss.py --model FULL --packed FILE --data PREPARED [--parts] [--beam N] [--json FILE]`: decodes
dev with the run's own weights (a folder or a file) and with the file that `dtfixup sql pack` made of them, some two
minutes each on a CPU. `--parts` also rounds encoder, new layers and the rest one at a time, three more passes.
"""

from pathlib import Path

from measure import Benchmark, best_device, show
from rich.console import Console

from dtfixup.files import file_sha256
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import weights_file
from tools.release.pack_loss import measure_loss, rounding_by_part, show_loss


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path, required=True)
    benchmark.option("--packed", type=Path, required=True)
    benchmark.option("--data", type=Path, required=True)
    benchmark.option("--beam", type=int, default=5)
    benchmark.option("--parts", action="store_true")
    options = benchmark.start()
    device = str(best_device())
    prepared, full = open_prepared(options.data), weights_file(options.model)
    loss = measure_loss(full, options.packed, prepared, beam=options.beam, device=device)
    show_loss(loss, Console())
    metrics = dict(loss.metrics)
    if options.parts:
        parts = rounding_by_part(full, loss.full, prepared, beam=options.beam, device=device)
        show(parts)
        metrics |= parts
    content = read_content(options.packed)
    config = {
        "beam": options.beam,
        "model_sha256": file_sha256(options.packed),
        "questions": len(loss.full.queries),
        "parameters": loss.parameters,
    }
    benchmark.finish(
        "sql-pack",
        metrics,
        seed=content.get("accuracy", {}).get("seed", 0),
        encoder=content["fingerprint"]["encoder"],
        data_hash=prepared.index["data_hash"],
        config=config,
        failures=dict(loss.failures),
    )


if __name__ == "__main__":
    main()
