"""What packing a model costs on Spider's dev questions: the loss that the model card states.

`python benchmarks/pack_loss.py --model FULL --packed FILE --data PREPARED [--parts] [--beam N] [--json FILE]`: decodes
dev with the run's own weights (a folder or a file) and with the file that `dtfixup sql pack` made of them, some two
minutes each on a CPU. `--parts` also rounds encoder, new layers and the rest one at a time, three more passes.
"""

import argparse
from pathlib import Path

import torch
from rich.console import Console

from dtfixup.encoders import encoder_identity
from dtfixup.files import file_sha256, write_json
from dtfixup.provenance import begin, provenance
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import weights_file
from tools.release.pack_loss import measure_loss, rounding_by_part, show_loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = begin()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepared, full = open_prepared(options.data), weights_file(options.model)
    loss = measure_loss(full, options.packed, prepared, beam=options.beam, device=device)
    show_loss(loss, Console())
    metrics = dict(loss.metrics)
    if options.parts:
        parts = rounding_by_part(full, loss.full, prepared, beam=options.beam, device=device)
        metrics |= parts
        for name, value in parts.items():
            print(f"{name:24}{value:8.2f}")
    if options.json:
        command = "python benchmarks/pack_loss.py --model FILE --packed FILE --data DIR"
        command += f" --beam {options.beam}" + (" --parts" if options.parts else "")
        content = read_content(options.packed)
        record = provenance(
            "sql-pack",
            command,
            started,
            seed=content.get("accuracy", {}).get("seed", 0),
            encoder=encoder_identity(content["fingerprint"]["encoder"]),
            data_hash=prepared.index["data_hash"],
        )
        config = {
            "beam": options.beam,
            "model_sha256": file_sha256(options.packed),
            "questions": len(loss.full.queries),
            "parameters": loss.parameters,
        }
        write_json(options.json, {**record, "config": config, "metrics": metrics, "failures": dict(loss.failures)})


if __name__ == "__main__":
    main()
