"""The method: measure the input norm, initialise, check, watch. Needs torch and nothing of Hugging Face."""

from dtfixup.fixup.alerts import Alert, Assumption
from dtfixup.fixup.apply import dt_fixup_
from dtfixup.fixup.depth_report import DepthReport, DepthRow
from dtfixup.fixup.diagnostics import depth_check
from dtfixup.fixup.free_parameters import initialise_free_
from dtfixup.fixup.input_norm import InputNorm, MuChoice, measure_input_norm
from dtfixup.fixup.layers import FixupLayer, FusedRows, LayerWeights, Role, Weight, register_layer
from dtfixup.fixup.monitor import Monitor, watch
from dtfixup.fixup.report import FixupReport, TensorReport
from dtfixup.fixup.residual import NormPlacement, Residual, SkipKind
from dtfixup.fixup.strategies import STRATEGIES, Strategy, Warmup, strategy_named
from dtfixup.fixup.stream_limit import StreamLimit, set_limits_
from dtfixup.lazy_layers import register_lazily

__all__ = [
    "STRATEGIES",
    "Alert",
    "Assumption",
    "DepthReport",
    "DepthRow",
    "FixupLayer",
    "FixupReport",
    "FusedRows",
    "InputNorm",
    "LayerWeights",
    "Monitor",
    "MuChoice",
    "NormPlacement",
    "Residual",
    "Role",
    "SkipKind",
    "Strategy",
    "StreamLimit",
    "TensorReport",
    "Warmup",
    "Weight",
    "depth_check",
    "dt_fixup_",
    "initialise_free_",
    "measure_input_norm",
    "register_layer",
    "register_lazily",
    "set_limits_",
    "strategy_named",
    "watch",
]
