"""What PyTorch does while a block of code runs."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

READS_A_NUMBER = "aten::_local_scalar_dense"
PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm"})


class Operations(TorchDispatchMode):
    """Counts operations by name, how many floating-point numbers the largest tensor has that one of them makes, and
    the types that matrices are multiplied in.

    An operation that reads a number makes a GPU wait, and no CUDA graph can hold it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.largest = 0
        self.product_types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count[func._schema.name] += 1
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor) and tensor.is_floating_point() and not func.is_view:
                self.largest = max(self.largest, tensor.numel())
        if func._schema.name in PRODUCTS:
            self.product_types.add(made.dtype)
        return made
