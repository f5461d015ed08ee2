"""Links between documents become the site's."""

import pytest

from tools.docs.site import site_links


@pytest.mark.parametrize(
    ("source", "markdown", "expected"),
    [
        ("README.md", "[a](docs/start/ask.md#python)", "[a](start/ask.md#python)"),
        ("README.md", "![a `b`](docs/pictures/a.png), c", "![a `b`](pictures/a.png), c"),
        ("docs/start/serve.md", "[a](../../CONTRIBUTING.md)", "[a](../contributing.md)"),
        ("docs/start/serve.md", "[a](ask.md), [b](#limits)", "[a](ask.md), [b](#limits)"),
        ("docs/explain/grammar.md", "[`x.py`](../../src/x.py), [b](https://x.org/y)", "`x.py`, [b](https://x.org/y)"),
    ],
)  # fmt: skip
def test_a_link_leads_to_a_page_of_the_site(source: str, markdown: str, expected: str) -> None:
    assert site_links(markdown, source) == expected
