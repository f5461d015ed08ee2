"""Learning-rate schedules, as a factor between 0 and 1 per step."""

from dtfixup.errors import ConfigError


def anneal(step: int, total: int, *, warmup: int = 0, power: float = 0.5) -> float:
    """The paper's anneal (1 - step/total)^power, after a linear warm-up of `warmup` steps.

    >>> anneal(0, 100), anneal(75, 100), anneal(100, 100)
    (1.0, 0.5, 0.0)
    >>> anneal(4, 100, warmup=10, power=0)
    0.5
    """
    if not 0 <= step <= total or not 0 <= warmup <= total:
        raise ConfigError(f"step {step} and warm-up {warmup} must lie between 0 and the total of {total} steps")
    rising = min(1.0, (step + 1) / warmup) if warmup else 1.0
    return float(rising * (1 - step / total) ** power)
