"""Files are written whole or not at all: to a temporary neighbour first, then renamed."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dtfixup.errors import DataError


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file of the same suffix, then put it in place of `path`."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def write_json(path: str | Path, content: Any) -> Path:
    """JSON of plain numbers: NaN and infinity are refused, since other readers do not know them."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def finite_or_none(value: float) -> float | None:
    """The value where JSON can hold it; None for NaN and infinity."""
    return value if math.isfinite(value) else None


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@lru_cache
def package_digest(*packages: str) -> str:
    """A hash of the code and data files of packages: what their code made is stale when the code is another."""
    digest = hashlib.sha256()
    for package in packages:
        kept = (file for file in files(package).iterdir() if file.name.endswith((".py", ".txt", ".yaml")))
        for file in sorted(kept, key=lambda file: file.name):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def read_json(path: str | Path) -> Any:
    """The content of a JSON file, or an error that names the file and the place."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start}: {error.reason}") from None


def cache_folder() -> Path:
    """Where files are kept that can be made again: `DTFIXUP_CACHE`, else `dtfixup` in the user's cache folder."""
    if own := os.environ.get("DTFIXUP_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():  # the XDG specification has relative paths ignored
        return Path(shared) / "dtfixup"
    try:
        return Path.home() / ".cache" / "dtfixup"
    except RuntimeError:
        raise DataError("there is no home folder to keep cached files in; set DTFIXUP_CACHE to a folder") from None
