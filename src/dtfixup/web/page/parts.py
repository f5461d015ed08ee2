"""Small parts that both tabs of the page use."""

from typing import Any

from dtfixup.web.page.pictures import escaped

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "concurrency_limit": None}
"""Of every event of the page: programs use the API, and the desk says how many may work at once."""


def notice(kind: str, text: str, title: str = "") -> str:
    """A sentence that has to be seen; errors are read out at once."""
    role = "alert" if kind == "error" else "status"
    head = f"<strong>{escaped(title)}</strong> " if title else ""
    return f'<div class="notice {kind}" role="{role}">{head}{escaped(text)}</div>'
