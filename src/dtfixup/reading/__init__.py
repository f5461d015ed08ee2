"""Logical reading (section 4.2): choose the option that answers a question about a passage, or classify texts.

>>> from dtfixup.reading import Classifier, Reader, own_data, train_classifier, train_reading
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtfixup.errors import needs_extra

if TYPE_CHECKING:
    from dtfixup.reading.answers import Classifier, Reader
    from dtfixup.reading.classifier import train_classifier
    from dtfixup.reading.presets import own_data
    from dtfixup.reading.train import train_reading

__all__ = ["Classifier", "Reader", "own_data", "train_classifier", "train_reading"]
_MODULES = {
    "Classifier": "answers",
    "Reader": "answers",
    "own_data": "presets",
    "train_classifier": "classifier",
    "train_reading": "train",
}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is first used: it takes seconds."""
    if name in _MODULES:
        with needs_extra("train", "reading"):
            return getattr(import_module(f"dtfixup.reading.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'dtfixup.reading' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
