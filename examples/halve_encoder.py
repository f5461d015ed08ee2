"""Store MiniLM in half precision, at half the size, for a machine without network.

`python examples/halve_encoder.py FOLDER/minilm-fp16` writes the encoder that most files of `results/` name. Training
converts its weights to single precision again. Runs are recognised by the folder's name as MiniLM's.
"""

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from dtfixup.encoders.load import minilm_path
from dtfixup.files import file_sha256, write_atomically

NAME = "minilm-fp16"
UNUSED = ("pooler.", "embeddings.position_ids")
"""Prefixes of the tensors that dtfixup does not read."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help=f"folder to write, called {NAME}")
    folder = parser.parse_args().folder
    if folder.name != NAME:
        parser.error(f"{folder}: runs are recognised by the folder's name, so call it {NAME}")
    folder.mkdir(parents=True, exist_ok=True)
    source = minilm_path()
    for file in (*source.glob("*.json"), *source.glob("*.txt")):
        shutil.copyfile(file, folder / file.name)
    tensors = load_file(source / "model.safetensors")
    kept = {name: weight.half() for name, weight in tensors.items() if not name.startswith(UNUSED)}
    weights = write_atomically(folder / "model.safetensors", lambda path: save_file(kept, path))
    print(f"{folder}: {weights.stat().st_size / 1e6:.0f} MB, SHA-256 {file_sha256(weights)}")
