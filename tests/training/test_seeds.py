"""Random streams by name."""

from dtfixup.training.seeds import stream, stream_seed


def test_streams_are_apart_by_name_and_seed() -> None:
    seeds = {stream_seed(seed, name) for seed in range(3) for name in ("data", "init", "model")}
    assert len(seeds) == 9
    assert stream(0, "data").initial_seed() == stream_seed(0, "data")
