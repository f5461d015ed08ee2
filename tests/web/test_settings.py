import pytest

from dtfixup.errors import ConfigError
from dtfixup.web.settings import ServerSettings


def test_loopback_needs_no_token() -> None:
    assert ServerSettings().token is None
    assert not ServerSettings(host="::1").is_open


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_elsewhere_a_token_is_made(host: str) -> None:
    made = ServerSettings(host=host)
    assert made.is_open
    assert made.token is not None
    assert len(made.token) >= 32
    assert made.token != ServerSettings(host=host).token


def test_a_given_token_is_kept() -> None:
    assert ServerSettings(token="a" * 16).token == "a" * 16


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "short"},
        {"token": "a b" * 10},
        {"token": "ä" * 20},
        {"port": 70000},
        {"workers": 0},
        {"rows": 0},
        {"waiting": -1},
        {"answer_seconds": 0.0},
        {"deadline": float("inf")},
        {"upload_mib": 0.0},
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ServerSettings(**wrong)
