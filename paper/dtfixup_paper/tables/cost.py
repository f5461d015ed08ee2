"""How long a run takes on a GPU of its own, before it has run: for plans, not for tables.

A planned batch takes `layers * (fixed + share * examples)` milliseconds, where the rest of the model counts as so many
new layers. A run is its batches, its evaluations and a start. Measured on an H200: SQL-SP with N = 24 takes 11.7 ms a
step at batch 16 and 3.2 s for an evaluation (`results/sql/batch16-seed1.json`), and 27.7 ms with RoBERTa-large
(`results/measurements/paper-step-seed1.json`); ReClor takes 41 s at N = 4 and 51 s at N = 8. The share of the rest of
the model, and RoBERTa-large on ReClor, are guesses.
"""

from dataclasses import dataclass

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.tables.cells import RunConfig


@dataclass(frozen=True)
class _Task:
    """Times of one task."""

    examples: int
    fixed_ms: float
    """Of a new layer in any batch."""
    share_ms: float
    """Of a new layer for each example."""
    rest: float
    """Encoder, head or decoder, in new layers."""
    evaluation: float
    """Seconds."""
    start: float
    """Seconds: data, input norm, capturing graphs."""


_SPIDER = _Task(examples=7000, fixed_ms=0.204, share_ms=0.0094, rest=9.0, evaluation=3.2, start=12.0)
_RECLOR = _Task(examples=4638, fixed_ms=0.1, share_ms=0.048, rest=4.0, evaluation=1.0, start=8.0)
_LARGE = 45.0  # new layers that RoBERTa-large takes more than MiniLM


def expected_seconds(config: RunConfig) -> float:
    """The expected time of a run, alone on an H200."""
    task, training, made_up = _RECLOR, config.training, 0.0
    if isinstance(config, SqlSpConfig):
        task, made_up = _SPIDER, config.synthetic
    batches = training.epochs * (1 + made_up) * task.examples / training.batch_size
    layers = config.model.layers + task.rest + ("large" in config.encoder) * _LARGE
    step_ms = layers * (task.fixed_ms + task.share_ms * training.batch_size)
    evaluations = 1 + (training.epochs // training.evaluate_every if training.evaluate_every else 1)
    return task.start + batches * step_ms / 1000 + evaluations * task.evaluation
