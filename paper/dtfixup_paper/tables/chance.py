"""Whether a multiple-choice model has learnt anything.

A run has failed to leave chance if its accuracy at the end is not more than three standard errors above chance (for 500
questions with four options: 30.8 %), or if its loss is that of equal probabilities: such a stack gives every question
the same states, and which option is ahead by next to nothing is no answer.
"""

import math
from collections.abc import Mapping

ERRORS = 3.0
"""Standard errors above chance that are no luck."""
_SAME_LOSS = 0.002  # the nearest that a run which says anything comes to the loss of equal probabilities


def chance_limit(chance: float, questions: int) -> float:
    """The highest accuracy that is taken for chance.

    >>> round(chance_limit(25.0, 500), 1)
    30.8
    """
    share = chance / 100
    return chance + 100 * ERRORS * math.sqrt(share * (1 - share) / questions)


def is_at_chance(metrics: Mapping[str, float], split: str) -> bool:
    """Whether a run to the end has failed to leave chance.

    >>> at_end = {"chance": 25.0, "evaluated_examples": 500, "val_accuracy": 36.0}
    >>> is_at_chance({**at_end, "val_loss": 1.3863}, "val"), is_at_chance({**at_end, "val_loss": 2.9}, "val")
    (True, False)
    """
    is_silent = abs(metrics.get(f"{split}_loss", math.inf) - math.log(100 / metrics["chance"])) < _SAME_LOSS
    return is_silent or metrics[f"{split}_accuracy"] <= chance_limit(
        metrics["chance"], int(metrics["evaluated_examples"])
    )
