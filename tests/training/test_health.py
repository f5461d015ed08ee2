"""A run ends that skips too many updates, in a row (the doctest) or of the last thousand."""

from dtfixup.training.health import Health
from tests.training.toy import toy_config


def test_too_many_skipped_among_the_last() -> None:
    health = Health(toy_config(skipped_share=0.01))
    rows = [(1.0, 1.0, step % 2 == 0) for step in range(1, 40)]
    assert health.problem(rows[:20], 1) is None
    assert str(health.problem(rows[20:], 21)).startswith("11 of the last 22 updates were skipped, up to step 22")
    patient = Health(toy_config(skipped_share=0.6))
    assert all(patient.problem(rows, 1) is None for _ in range(50))
