"""Two ranks with different data and different seeds end with one input norm and one set of weights."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, multiprocessing, nn

from dtfixup.errors import InputNormError
from dtfixup.fixup import dt_fixup_, initialise_free_, measure_input_norm
from dtfixup.transformer import StackConfig, TransformerStack

RANKS, TIMEOUT_S, D = 2, 60, 8
Result = dict[str, object]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below = nn.Linear(D, D)
        self.stack = TransformerStack(StackConfig(layers=2, dim=D, heads=2, mlp_dim=16, relations=3, bias=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(self.below(x), relation_BLL=torch.zeros(*x.shape[:2], x.shape[1]).long())


def all_batches() -> list[Tensor]:
    """Batches that grow, so that the largest vector and most of the tail are on the last rank."""
    x = torch.randn(6, 3, 4, D, generator=torch.Generator().manual_seed(11))
    return [batch * (1 + index) for index, batch in enumerate(x)]


def prepare(seed: int, batches: list[Tensor]) -> Result:
    torch.manual_seed(seed)
    model = Model()
    initialise_free_(model, stack=model.stack, loaded=[])
    norm = measure_input_norm(model, model.stack, batches, progress=False)
    report = dt_fixup_(model.stack, norm)
    factors = {row.factor for row in report.tensors if row.factor != 1}
    return {"norm": norm, "factors": factors, "weights": model.state_dict()}


def complaint(batches: list[Tensor]) -> str:
    torch.manual_seed(0)
    model = Model()
    try:
        measure_input_norm(model, model.stack, batches, progress=False)
    except (InputNormError, RuntimeError) as error:
        return str(error)
    return "no error"


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    batches = all_batches()
    result = prepare(rank, batches[rank::RANKS])
    broken = [torch.full_like(batches[0], torch.nan)] if rank == 1 else batches
    result["nan on rank 1"] = complaint(broken)
    result["no data on rank 0"] = complaint([] if rank == 0 else batches)
    wide = [torch.ones(1, 1, D + 1)] if rank == 0 else batches
    result["model error on rank 0"] = complaint(wide)
    torch.save(result, folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """What both ranks found; a rank that hangs is ended and fails the test."""
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])  # where the ranks find this module again
        context = multiprocessing.spawn(work, (folder,), nprocs=RANKS, join=False)
    if not any(context.join(timeout=TIMEOUT_S) for _ in range(RANKS)):  # it returns as each rank ends
        for process in context.processes:
            process.kill()
        pytest.fail(f"the ranks were not done after {TIMEOUT_S} s")
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(RANKS)]


@pytest.fixture(scope="module")
def alone() -> Result:
    """One process with the seed of rank 0 and all the data."""
    return prepare(0, all_batches())


def test_all_ranks_find_the_input_norm_of_all_the_data(results: list[Result], alone: Result) -> None:
    assert results[0]["norm"] == results[1]["norm"]
    found, expected = results[0]["norm"], alone["norm"]
    assert (found.max, found.p99, found.vectors, found.batches) == (expected.max, expected.p99, 72, 6)
    assert found.mean == pytest.approx(expected.mean, rel=1e-9)


def test_no_ranks_own_data_has_that_norm() -> None:
    share = [prepare(0, all_batches()[rank::RANKS])["norm"] for rank in range(RANKS)]
    assert share[0].max < share[1].max
    assert share[0].mean < share[1].mean


def test_all_ranks_scale_by_the_same_factor(results: list[Result], alone: Result) -> None:
    assert results[0]["factors"] == results[1]["factors"] == alone["factors"]
    assert len(alone["factors"]) == 1


def test_all_ranks_end_with_the_weights_of_rank_0(results: list[Result], alone: Result) -> None:
    for name, expected in alone["weights"].items():
        for result in results:
            assert torch.equal(result["weights"][name], expected), name


def test_other_seeds_give_other_weights(alone: Result) -> None:
    other = prepare(1, all_batches())["weights"]
    for name in ("below.weight", "stack.layers.0.attention.value.weight"):
        assert not torch.equal(other[name], alone["weights"][name])


def test_a_nan_on_one_rank_stops_both(results: list[Result]) -> None:
    assert results[1]["nan on rank 1"].startswith("batch 0 puts NaN or infinity into the stack")
    assert results[0]["nan on rank 1"] == "measuring the input norm failed on another rank: see its error"


def test_an_empty_loader_on_one_rank_stops_both(results: list[Result]) -> None:
    assert results[0]["no data on rank 0"].startswith("there are no batches")
    assert results[1]["no data on rank 0"] == "measuring the input norm failed on another rank: see its error"


def test_an_error_of_the_model_on_one_rank_stops_both(results: list[Result]) -> None:
    assert "shapes cannot be multiplied" in results[0]["model error on rank 0"]
    assert results[1]["model error on rank 0"] == "measuring the input norm failed on another rank: see its error"
