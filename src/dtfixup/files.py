"""Files are written whole or not at all: to a temporary neighbour first, then renamed."""

import json
import os
import tempfile
from collections.abc import Callable
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
