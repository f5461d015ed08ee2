"""What the fused kernel takes, and which kernel a layer computes an input with."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dtfixup.errors import ConfigError
from dtfixup.transformer import Kernel, RelationAttention, relation_attention
from dtfixup.transformer.kernel_choice import Gpu, gpu_of, obstacle_to_fusing, power_of_two, shared_memory_of_a_row

H200 = Gpu((9, 0), 232_448)
A10 = Gpu((8, 6), 101_376)
BF16, FP32 = torch.bfloat16, torch.float32


@given(size=st.integers(1, 10**6), least=st.sampled_from([1, 16]))
def test_a_block_is_the_smallest_power_of_two_that_holds_the_size(size: int, least: int) -> None:
    block = power_of_two(size, least)
    assert block.bit_count() == 1
    assert block >= max(size, least)
    assert block == least or block < 2 * size


@pytest.mark.parametrize(
    ("length", "heads", "relations", "dtype", "compiled"),
    [
        (128, 16, 64, BF16, 20_480),
        (500, 8, 56, BF16, 73_728),
        (500, 8, 56, FP32, 147_456),
        (600, 8, 20, FP32, 163_840),
        (1100, 8, 7, BF16, 98_304),
        (100, 8, 200, BF16, 67_584),
        (100, 4, 56, BF16, 18_432),
    ],
)
def test_the_memory_of_a_row_is_what_triton_says_after_compiling(
    length: int, heads: int, relations: int, dtype: torch.dtype, compiled: int
) -> None:
    assert shared_memory_of_a_row(length, heads, relations, dtype) == compiled


@pytest.mark.parametrize(
    ("length", "heads", "relations", "dtype", "gpu"),
    [
        (512, 8, 56, BF16, H200),
        (512, 8, 56, FP32, H200),
        (1024, 16, 64, BF16, H200),
        (512, 32, 56, torch.float16, H200),
        (128, 8, 256, BF16, H200),
        (512, 8, 56, BF16, A10),
        (100, 8, 56, BF16, Gpu((8, 0), 18_432)),
        (0, 8, 56, BF16, H200),
    ],
)
def test_nothing_is_in_the_way(length: int, heads: int, relations: int, dtype: torch.dtype, gpu: Gpu) -> None:
    assert obstacle_to_fusing(length, heads, relations, dtype, gpu) is None


@pytest.mark.parametrize(
    ("length", "heads", "relations", "dtype", "gpu", "obstacle"),
    [
        (100, 8, 56, BF16, None, "needs a GPU"),
        (100, 8, 56, BF16, Gpu((7, 5), 65_536), "needs a GPU of compute capability 8.0 or newer"),
        (100, 8, 56, torch.float64, H200, "does not compute in torch.float64"),
        (100, 8, 257, BF16, H200, "takes at most 256 relations, not 257"),
        (2049, 8, 1, BF16, H200, "2049 keys with 8 heads and 1 relations are too many for one block"),
        (513, 17, 56, BF16, H200, "513 keys with 17 heads and 56 relations are too many for one block"),
        (513, 8, 56, FP32, H200, "too many for one block"),
        (513, 8, 56, BF16, A10, "too many for one block"),
        (100, 8, 56, BF16, Gpu((8, 0), 18_431), "too many for one block"),
    ],
)
def test_an_obstacle_is_named(
    length: int, heads: int, relations: int, dtype: torch.dtype, gpu: Gpu | None, obstacle: str
) -> None:
    assert obstacle in str(obstacle_to_fusing(length, heads, relations, dtype, gpu))


@pytest.mark.parametrize(("told", "shared"), [({"shared_memory_per_block_optin": 232_448}, 232_448), ({}, 49_152)])
def test_the_memory_that_a_block_can_ask_for_counts_where_the_gpu_tells_it(
    told: dict[str, int], shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(major=9, minor=0, shared_memory_per_block=49_152, **told)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert gpu_of.__wrapped__(torch.device("cuda", 0)) == Gpu((9, 0), shared)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_says_what_a_block_may_use() -> None:
    gpu = gpu_of(torch.device("cuda", 0))
    assert gpu.capability == torch.cuda.get_device_capability(0)
    assert 48 * 1024 <= gpu.shared_memory <= 2**20


def on_a_gpu(length: int = 100, dim: int = 256, dtype: torch.dtype = torch.float32) -> Tensor:
    """An input on a GPU as far as its attributes tell; it has no numbers."""
    with FakeTensorMode():
        return torch.empty(2, length, dim, dtype=dtype, device="cuda")


@pytest.fixture
def _h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_attention, "has_triton", lambda: True)
    monkeypatch.setattr(relation_attention, "gpu_of", lambda device: H200)


def chosen(layer: RelationAttention, x_BLD: Tensor) -> Kernel:
    """What "auto" takes; "fused" is refused exactly where that is another kernel."""
    layer.kernel = Kernel.AUTO
    taken = layer.kernel_for(x_BLD)
    layer.kernel = Kernel.FUSED
    if taken is Kernel.FUSED:
        assert layer.kernel_for(x_BLD) is Kernel.FUSED
    else:
        with pytest.raises(ConfigError, match='choose kernel="auto" or "tables"'):
            layer.kernel_for(x_BLD)
    return taken


@pytest.mark.usefixtures("_h200")
def test_auto_is_fused_on_a_gpu() -> None:
    assert chosen(RelationAttention(256, 8, 56), on_a_gpu()) is Kernel.FUSED
    assert chosen(RelationAttention(256, 8, 56), on_a_gpu(dtype=torch.bfloat16)) is Kernel.FUSED


@pytest.mark.usefixtures("_h200")
@pytest.mark.parametrize("kernel", [Kernel.PLAIN, Kernel.TABLES])
def test_a_kernel_that_was_asked_for_is_taken_on_a_gpu_too(kernel: Kernel) -> None:
    assert RelationAttention(256, 8, 56, kernel=kernel).kernel_for(on_a_gpu()) is kernel


@pytest.mark.usefixtures("_h200")
def test_auto_is_tables_on_a_cpu() -> None:
    assert chosen(RelationAttention(256, 8, 56), torch.empty(2, 100, 256)) is Kernel.TABLES


@pytest.mark.usefixtures("_h200")
@pytest.mark.parametrize(
    ("relations", "bias", "length", "dtype"),
    [
        (56, True, 100, torch.float32),
        (257, False, 100, torch.float32),
        (56, False, 1025, torch.float32),
        (56, False, 9000, torch.bfloat16),
        (56, False, 100, torch.float64),
    ],
    ids=["biases", "too many relations", "too long", "far too long", "double precision"],
)
def test_auto_is_tables_where_the_fused_kernel_cannot_compute_it(
    relations: int, bias: bool, length: int, dtype: torch.dtype
) -> None:
    layer = RelationAttention(256, 8, relations, bias=bias)
    assert chosen(layer, on_a_gpu(length, dtype=dtype)) is Kernel.TABLES


@pytest.mark.usefixtures("_h200")
def test_auto_is_tables_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_attention, "has_triton", lambda: False)
    assert chosen(RelationAttention(256, 8, 56), on_a_gpu()) is Kernel.TABLES


@pytest.mark.usefixtures("_h200")
@pytest.mark.parametrize("hook", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
def test_auto_is_tables_where_a_projection_has_a_hook(name: str, hook: str) -> None:
    layer = RelationAttention(256, 8, 56)
    handle = getattr(layer.get_submodule(name), f"register_{hook}")(lambda *_: None)
    assert chosen(layer, on_a_gpu()) is Kernel.TABLES
    handle.remove()
    assert chosen(layer, on_a_gpu()) is Kernel.FUSED


@pytest.mark.usefixtures("_h200")
def test_auto_is_tables_where_a_projection_was_replaced() -> None:
    class Adapted(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    layer = RelationAttention(256, 8, 56)
    layer.value = Adapted(256, 256, bias=False)
    assert chosen(layer, on_a_gpu()) is Kernel.TABLES


@pytest.mark.usefixtures("_h200")
def test_the_type_that_products_run_in_decides_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x_BLD = RelationAttention(256, 8, 56), on_a_gpu(600)
    assert chosen(layer, x_BLD) is Kernel.TABLES
    monkeypatch.setattr(relation_attention, "compute_dtype", lambda x_BLD: torch.bfloat16)
    assert chosen(layer, x_BLD) is Kernel.FUSED
