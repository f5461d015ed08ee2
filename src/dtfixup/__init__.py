"""Deep new transformer layers on pre-trained encoders, trainable on a few thousand examples.

>>> from dtfixup import measure_input_norm, dt_fixup_, depth_check, watch
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtfixup.lazy_layers import register_lazily

if TYPE_CHECKING:
    from dtfixup.fixup import (
        DepthReport,
        FixupReport,
        FusedRows,
        InputNorm,
        LayerWeights,
        Strategy,
        depth_check,
        dt_fixup_,
        initialise_free_,
        measure_input_norm,
        register_layer,
        strategy_named,
        watch,
    )

__version__ = "0.2.0"
__all__ = [
    "DepthReport",
    "FixupReport",
    "FusedRows",
    "InputNorm",
    "LayerWeights",
    "Strategy",
    "depth_check",
    "dt_fixup_",
    "initialise_free_",
    "measure_input_norm",
    "register_layer",
    "strategy_named",
    "watch",
]


def _register_hugging_face() -> None:
    from dtfixup.encoders.hugging_face import register_layers

    register_layers()


register_lazily("transformers", _register_hugging_face)


def __getattr__(name: str) -> Any:
    """Import torch when the method is first used; a question about a schema does not need it."""
    if name in __all__:
        return getattr(import_module("dtfixup.fixup"), name)
    raise AttributeError(f"module 'dtfixup' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
