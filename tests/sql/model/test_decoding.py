"""Many examples are decoded in the order given, and scored by exact match."""

import numpy as np
import pytest

from dtfixup.sql.model.decoding import decode, exact_metrics
from tests.sql.tiny_model import prepared_sample, sample_corpus, tiny_model


def test_decoding_keeps_the_order_of_examples_and_counts_right_ones() -> None:
    model, corpus, prepared = tiny_model(), sample_corpus(), prepared_sample()
    examples = np.asarray(prepared.split("dev"))[[5, 0, 9]]
    together = decode(model, corpus, prepared, examples, beam=1)
    for example, beam in zip(examples, together, strict=True):
        (alone,) = decode(model, corpus, prepared, np.array([example]), beam=1)
        assert [query.sql for query in alone] == [query.sql for query in beam]
    gold = [prepared.text("query", "queries", int(example)) for example in examples]
    assert exact_metrics(prepared, examples, gold)["exact"] == 100
    assert exact_metrics(prepared, examples, [gold[0], "", "SELECT"])["exact"] == pytest.approx(100 / 3)
