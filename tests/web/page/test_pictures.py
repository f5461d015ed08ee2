"""Text and round numbers of pictures."""

from hypothesis import example, given
from hypothesis import strategies as st

from dtfixup.web.page.pictures import clip, escape, ticks
from tests.web.page.markup import parsed

numbers = st.floats(-1e12, 1e12)


@given(numbers, numbers)
@example(0.0, 5e-324)
@example(1e12, 1e12 + 1e-3)
def test_ticks_hold_everything(first: float, second: float) -> None:
    low, high = sorted((first, second))
    found = ticks(low, high)
    assert 2 <= len(found) <= 12
    assert found == sorted(set(found))
    slack = 1e-6 * (abs(low) + abs(high) + 1)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack


@given(st.text(max_size=30), st.integers(1, 20))
def test_text_is_clipped_and_escaped(text: str, most: int) -> None:
    assert len(clip(text, most)) <= most
    parsed(f"<p title='{escape(text)}'>{escape(text)}</p>")
