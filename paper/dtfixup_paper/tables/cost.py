"""How long a run takes on a GPU of its own, before it has run: a model of few numbers, for plans and not for tables.

A planned batch takes `layers * (fixed + share * examples)` milliseconds, where layers are the new ones and, counted as
so many new ones, the rest of the model; a run is its batches, its evaluations and a start. Measured on an H200 for
SQL-SP with N = 24: 11.7 ms at batch 16 and 3.2 s for an evaluation (`results/sql/batch16-seed1.json`), 34.6 ms at batch
32 where three runs shared the GPU (`results/sql/minilm-seed1.json`), which is about 1.45 times as fast as in turn, and
27.7 ms with RoBERTa-large at batch 16 (`results/measurements/paper-step-seed1.json`); the share of the rest of the
model is a guess.
For ReClor, runs that shared the GPU with another took about 36 + 4.2 N seconds (`results/reclor-*/*.json`), and the
last ones of a sweep, which were alone for most of their epochs, 41 s at N = 4 and 51 s at N = 8; RoBERTa-large is
a guess.
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
    large: float
    """How much more that is with RoBERTa-large than with MiniLM."""
    evaluation: float
    """Seconds."""
    start: float = 12.0
    """Seconds: data, input norm, capturing graphs."""


_SPIDER = _Task(examples=7000, fixed_ms=0.204, share_ms=0.0094, rest=9.0, large=45.0, evaluation=3.2)
_RECLOR = _Task(examples=4638, fixed_ms=0.1, share_ms=0.048, rest=4.0, large=45.0, evaluation=1.0, start=8.0)


def expected_seconds(config: RunConfig) -> float:
    """What the model says of a run, alone on an H200."""
    is_sql = isinstance(config, SqlSpConfig)
    task, training = _SPIDER if is_sql else _RECLOR, config.training
    made_up = config.synthetic if isinstance(config, SqlSpConfig) else 0.0
    batches = training.epochs * (1 + made_up) * task.examples / training.batch_size
    layers = config.model.layers + task.rest + ("large" in config.encoder) * task.large
    step_ms = layers * (task.fixed_ms + task.share_ms * training.batch_size)
    evaluations = 1 + (training.epochs // training.evaluate_every if training.evaluate_every else 1)
    return task.start + batches * step_ms / 1000 + evaluations * task.evaluation
