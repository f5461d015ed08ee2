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
    """Let `write` fill a temporary file with the same suffix, then rename it to `path`."""
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
    """Write JSON; NaN and infinity are errors, because JSON has no form for them."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def finite_or_none(value: float) -> float | None:
    """Return the value, or None for NaN and infinity, which JSON cannot hold."""
    return value if math.isfinite(value) else None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@lru_cache
def package_digest(*packages: str) -> str:
    """Return a hash of the code and data files of packages, which tells whether files they made are stale."""
    digest = hashlib.sha256()
    for package in packages:
        kept = (file for file in files(package).iterdir() if file.name.endswith((".py", ".txt", ".yaml")))
        for file in sorted(kept, key=lambda file: file.name):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; an error names the file, line and column."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start}: {error.reason}") from None


def cache_folder() -> Path:
    """Return the folder for files that can be made again: `DTFIXUP_CACHE`, or `dtfixup` in the user's cache folder."""
    if own := os.environ.get("DTFIXUP_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():  # the XDG specification ignores relative paths
        return Path(shared) / "dtfixup"
    try:
        return Path.home() / ".cache" / "dtfixup"
    except RuntimeError:
        raise DataError("there is no home folder to keep cached files in; set DTFIXUP_CACHE to a folder") from None
