"""Deep new transformer layers on pre-trained encoders, trainable on a few thousand examples.

>>> from dtfixup import measure_input_norm, dt_fixup_, depth_check, watch
"""

from dtfixup.fixup import (
    DepthReport,
    FixupReport,
    InputNorm,
    LayerWeights,
    Rows,
    Strategy,
    depth_check,
    dt_fixup_,
    initialise_free_,
    measure_input_norm,
    register_layer,
    register_lazily,
    strategy_named,
    watch,
)


def _register_hugging_face() -> None:
    from dtfixup.encoders.hugging_face import register_layers

    register_layers()


register_lazily("transformers", _register_hugging_face)

__version__ = "0.1.0"
__all__ = [
    "DepthReport",
    "FixupReport",
    "InputNorm",
    "LayerWeights",
    "Rows",
    "Strategy",
    "depth_check",
    "dt_fixup_",
    "initialise_free_",
    "measure_input_norm",
    "register_layer",
    "strategy_named",
    "watch",
]
