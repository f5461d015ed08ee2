"""Layers of another package are described when one is met, and not before."""

import subprocess
import sys

from torch import nn

from dtfixup.fixup import LayerWeights, register_layer, register_lazily
from dtfixup.fixup.layers import describe_layer


class Foreign(nn.Module):
    __module__ = "faraway.models.layer"


def test_a_registration_runs_once_and_only_for_its_own_package() -> None:
    runs = []
    weights = LayerWeights([], [], [])
    register_lazily("faraway", lambda: (runs.append(1), register_layer(Foreign, lambda _: weights)))
    assert describe_layer(nn.Linear(2, 2)) is None
    assert runs == []
    assert describe_layer(Foreign()) is weights
    describe_layer(Foreign())
    assert runs == [1]


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, dtfixup; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
