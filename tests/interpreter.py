"""Where Triton's kernels run in tests: on a GPU, or in Triton's interpreter.

Triton reads TRITON_INTERPRET when it is imported, so without a GPU one test of a file runs the file again, in a process
that has it set.
"""

import os
import subprocess
import sys

import pytest
import torch

from dtfixup.transformer.relation_attention import has_triton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cuda" if GPU else "cpu")

runs_kernels = pytest.mark.skipif(
    not (has_triton() and (GPU or INTERPRETED)),
    reason="runs in test_without_a_gpu_tritons_interpreter_runs_these_tests" if has_triton() else "needs triton",
)
needs_interpreter = pytest.mark.skipif(
    GPU or INTERPRETED or not has_triton(),
    reason="the tests of this file run right here" if has_triton() else "needs the package triton: pip install triton",
)


def run_interpreted(file: str) -> None:
    """Run a file's tests in the interpreter."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file]
    ran = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
