"""The expected time of a run is near what was measured."""

from pathlib import Path

import pytest
from dtfixup_paper.tables.cost import expected_seconds

from dtfixup.files import read_json
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import from_json

RESULTS = Path(__file__).parents[3] / "results"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sql/batch16-seed1", SqlSpConfig),
        ("reclor-main/dt-fixup-n4-seed5", ReadingRunConfig),
        ("reclor-depth/dt-fixup-n8-seed2", ReadingRunConfig),
    ],
)
def test_the_cost_is_what_was_measured(name: str, kind: type[SqlSpConfig | ReadingRunConfig]) -> None:
    """Within a fifth, for runs that had the GPU for themselves, at least most of the time."""
    measured = read_json(RESULTS / f"{name}.json")
    assert expected_seconds(from_json(kind, measured["config"])) == pytest.approx(measured["wall_seconds"], rel=0.2)
