"""A missing package of an extra is an error that says what to install."""

import pytest

from dtfixup.errors import MissingExtraError, needs_extra


def test_the_error_names_the_package_its_use_and_the_install_line() -> None:
    with (
        pytest.raises(
            MissingExtraError, match=r"^no_such is needed for pictures: pip install 'dtfixup\[plot\]'$"
        ) as raised,
        needs_extra("plot", "pictures"),
    ):
        import no_such.part  # noqa: F401
    assert isinstance(raised.value, ImportError)
    assert raised.value.name == "no_such"


def test_a_missing_module_of_our_own_is_a_bug_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"dtfixup\.no_such"), needs_extra("plot", "pictures"):
        import dtfixup.no_such  # noqa: F401


def test_the_innermost_extra_is_named() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"dtfixup\[plot\]"),
        needs_extra("web", "the page"),
        needs_extra("plot", "pictures"),
    ):
        import no_such  # noqa: F401
