"""Pack a trained SQL-SP model into a small file, to ship it.

In: a run's folder or its file of weights, and optionally its result file. Out: a safetensors file a third of the size,
which `load_model` reads too. It has the run's description, the accuracy from the result file, and a checksum of the
names behind the model's numbered tables. The encoder's frozen tables are in neither file. The same input gives the same
bytes.

If there is room for more than 8 bits, the encoder gets it first. Rounding one of its matrices moves the decoder's
distributions about a hundred times as far, per weight, as rounding one of the new layers, whose branches DT-Fixup keeps
small.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dtfixup
from dtfixup.errors import CheckpointError, ConfigError, DataError
from dtfixup.files import read_json
from dtfixup.sql.model.store import VOCABULARY, load_model, vocabulary_sha256
from dtfixup.weights.packed import SCALE, Storage, pack_tensors
from dtfixup.weights.tensors import PACKED, model_tensors, read_content, write_tensors
from dtfixup.weights.trained import LAST, frozen_names, weights_file

MEGABYTES = 45.0
"""Largest size of a shipped file, in units of 10^6 bytes."""
_ENTRY = 120
"""Upper bound of a tensor's bytes in the header, without its name."""
_SPLITS = ("dev_", "held_out_", "train_others_")


@dataclass(frozen=True)
class PackedFile:
    """A packed file, and what packing lost."""

    path: Path
    bytes: int
    bytes_before: int
    stored: Mapping[str, Storage]
    errors: Mapping[str, float]
    """The norm of each tensor's rounding error, as a share of the tensor's."""
    result_checked: bool | None
    """Whether the result file could be checked against the model's run; None without a result file."""

    @property
    def megabytes(self) -> float:
        return self.bytes / 1e6


def pack_model(
    source: str | Path,
    out: str | Path,
    *,
    keep: Storage = Storage.INT8,
    megabytes: float = MEGABYTES,
    result: str | Path | None = None,
    sure_above: float | None = None,
) -> PackedFile:
    """Write the small file of a model.

    Args:
        source: the folder of a finished run, or its file of weights.
        out: the file to write.
        keep: `INT8` stores matrices in 8 bits, and those that lose most in half precision, as far as there is room;
            `HALF` stores everything in half precision, whatever the size.
        megabytes: largest size of the file, with `INT8`.
        result: the run's result file, whose accuracy goes into the file. A result file of another run is an error, as
            far as the model's file describes its run.
        sure_above: the probability from which an answer counts as sure; None keeps the value of the model's file.
    """
    if keep is Storage.PLAIN:
        raise ConfigError("a packed file keeps int8 or half: for the weights as they are, use the run's own file")
    if sure_above is not None and not 0 <= sure_above <= 1:
        raise ConfigError(f"sure_above is a probability, from 0 to 1: got {sure_above}")
    file = weights_file(source)
    if PACKED in read_content(file):
        raise CheckpointError(f"{file} is packed already: packing loses a little each time, so pack the run's own file")
    trained = load_model(file)
    content = {**trained.content, "version": dtfixup.__version__, VOCABULARY: vocabulary_sha256()}
    named = model_tensors(trained.model, frozen_names(trained.model))
    of_encoder = {id(parameter) for parameter in trained.model.encoder.parameters()}
    first = {name for name, tensor in named.items() if id(tensor) in of_encoder}
    result_checked = None
    if result is not None:
        result_checked = {"config", "evaluation"} <= content.keys()
        content["accuracy"] = _accuracy(Path(result), content, file)
    if sure_above is not None:
        content["sure_above"] = sure_above
    header = _header_room(list(named), content)
    room = int(megabytes * 1e6) - header if keep is Storage.INT8 else None
    packed = pack_tensors({name: tensor.detach() for name, tensor in named.items()}, room=room, first=first)
    written = write_tensors(out, packed.tensors, {**content, PACKED: packed.description})
    size = written.stat().st_size
    return PackedFile(written, size, file.stat().st_size, packed.stored, packed.errors, result_checked)


def _accuracy(path: Path, content: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The accuracy in a result file, which must be of the model's run."""
    result = read_json(path)
    if not isinstance(result, dict) or not isinstance(result.get("metrics"), dict):
        raise DataError(f"{path} is not a result file: it has no metrics")
    if differences := _differences(content, result):
        raise DataError(
            f"{path} and {file} do not belong together: they differ in {', '.join(differences)}. Give the result file "
            f"of the model's own run, and of that run {LAST}, whose accuracy it states"
        )
    metrics = {name: value for name, value in result["metrics"].items() if name.startswith(_SPLITS)}
    if not metrics:
        raise DataError(f"{path} states no accuracy: its metrics are {', '.join(result['metrics'])}")
    origin = {name: result[name] for name in ("name", "seed", "commit", "data_hash") if name in result}
    return {**origin, "metrics": metrics}


def _differences(content: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """The settings in which a model's file and a result file differ, as far as the model's file has them. The last
    evaluation distinguishes runs with the same settings and seed."""
    settings, curve = result.get("config", {}), result.get("curve") or [None]
    of_model = {**content["fingerprint"], **content, **content.get("config", {})}
    stated = {"data": result.get("data_hash"), "model": settings.get("model"), "evaluation": curve[-1]}
    stated |= {name: settings.get("training", {}).get(name) for name in content.get("config", {})}
    return [name for name, value in stated.items() if of_model.get(name, value) != value]


def _header_room(names: list[str], content: Mapping[str, Any]) -> int:
    """An upper bound of the header's bytes: two entries for each tensor, its storage, and the quoted content."""
    entries = sum(3 * len(name) + len(SCALE) + 2 * _ENTRY for name in names)
    return entries + len(json.dumps(json.dumps(content))) + 20 * len(names) + 1000
