import pytest

from dtfixup import errors
from dtfixup.web.api.refusals import refusal_of, sentence_of


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.BusyError, 429),
        (errors.ClosingError, 503),
        (errors.LateError, 504),
        (errors.UnknownDatabaseError, 404),
        (errors.DeadlineError, 504),
        (errors.RefusedError, 403),
        (errors.GuardError, 409),
        (errors.SchemaError, 503),
        (errors.DataError, 409),
        (errors.EncoderError, 500),
    ],
)
def test_every_error_has_a_status_and_advice(kind: type[errors.DtFixupError], status: int) -> None:
    refusal = refusal_of(kind("it went wrong"))
    assert refusal.status == status
    assert refusal.message == "it went wrong"
    assert refusal.advice.endswith(".")
    assert sentence_of(refusal).startswith("It went wrong. ")


def test_who_is_told_to_come_back_is_told_when() -> None:
    assert refusal_of(errors.BusyError("full")).headers == {"Retry-After": "2"}
    assert refusal_of(errors.RefusedError("no")).headers == {}


def test_what_a_query_did_is_told_of_a_server_too() -> None:
    places = {"postgresql://reader@db/shop": "shop"}
    for message, said in (
        ("PostgreSQL: relation pets: it cannot be found", "PostgreSQL: relation pets: it cannot be found"),
        ("postgresql://reader@db/shop has no tables: create some", "shop has no tables: create some"),
    ):
        assert refusal_of(errors.GuardError(message), places).message == said


def test_places_are_not_told() -> None:
    error = errors.GuardError("/srv/data/shop.db is locked, see /srv/data")
    assert refusal_of(error, {"/srv/data": "…", "/srv/data/shop.db": "shop"}).message == "shop is locked, see …"
