"""The JSON API: `ask`, `run`, `databases`, `schema` and `health` under `/api/v1`, described by its `openapi.json`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dtfixup.errors import DtFixupError
from dtfixup.sql.ask.view import remark, rows_content
from dtfixup.sql.database.schema import Schema
from dtfixup.web.api.desk import Desk
from dtfixup.web.api.messages import (
    AnswerContent,
    AskRequest,
    Database,
    Databases,
    Health,
    Problem,
    RowsContent,
    RunRequest,
    SchemaContent,
)
from dtfixup.web.api.refusals import Refusal, refusal_of
from dtfixup.web.store.catalogue import Catalogue, Entry

PREFIX = "/api/v1"
_SAID = {
    400: "The request is not JSON.",
    401: "A token is needed.",
    403: "The query is not one plain SELECT, or the request comes from another site.",
    404: "There is no such database.",
    409: "The database cannot run the query, or the model cannot read the question.",
    413: "The request is too large.",
    422: "The request is not what is described here.",
    429: "Too many requests are waiting.",
    503: "The database cannot be read, or the server is shutting down.",
    504: "The time is up.",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text} for status, text in _SAID.items()
}


def build_api(desk: Desk, catalogue: Catalogue) -> FastAPI:
    """The API over a desk and the databases of a catalogue."""
    api = FastAPI(
        title="dtfixup",
        summary="Ask a database in English: SQL, and rows on request.",
        version="1",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        responses=_RESPONSES,
        servers=[{"url": PREFIX}],
        root_path_in_servers=False,
    )
    _handle_errors(api)

    @api.get("/health", summary="Whether the server takes questions; needs no token")
    async def health() -> Health:
        return Health(status="closing" if desk.is_closing else "ok")

    @api.get("/databases", summary="The databases that can be asked")
    async def databases() -> Databases:
        return Databases(databases=[_database(entry) for entry in catalogue.entries.values()])

    @api.get("/databases/{name}/schema", summary="Tables, columns and keys of a database")
    async def schema(name: Annotated[str, Path(min_length=1, max_length=60)]) -> SchemaContent:
        entry = catalogue.find(name)
        with _without_places(entry):
            reading = await desk.read(entry.database)
        return _schema(reading.schema, entry, reading.left_out)

    @api.post("/ask", summary="Turn a question into SQL; nothing is run")
    async def ask(said: AskRequest) -> AnswerContent:
        entry = catalogue.find(said.database)
        with _without_places(entry):
            answer = await desk.ask(entry.database, said.question, said.beam)
        content = {**answer.to_json(), "remark": remark(answer, desk.parser.sure_above, list_follows=False)}
        return AnswerContent.model_validate(content)

    @api.post("/run", summary="Run one query, read-only, within a deadline")
    async def run(said: RunRequest) -> RowsContent:
        entry = catalogue.find(said.database)
        with _without_places(entry):
            rows = await desk.run(entry.database, said.sql, said.rows)
        return RowsContent.model_validate(rows_content(rows))

    return api


@contextmanager
def _without_places(entry: Entry) -> Iterator[None]:
    """Errors do not tell where a database lies."""
    try:
        yield
    except DtFixupError as error:
        raise _RefusedError(refusal_of(error, entry.places)) from None


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def _handle_errors(api: FastAPI) -> None:
    """Every error has the shape of `Problem`."""

    @api.exception_handler(_RefusedError)
    async def refused(_: Request, error: _RefusedError) -> JSONResponse:
        return _response(error.refusal)

    @api.exception_handler(DtFixupError)
    async def failed(_: Request, error: DtFixupError) -> JSONResponse:
        return _response(refusal_of(error))

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        status, code = (400, "not_json") if first["type"] == "json_invalid" else (422, "invalid")
        message = f"{where}: {first['msg']}"
        return _response(Refusal(status, code, message, f"See {PREFIX}/openapi.json for what is expected."))

    @api.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "method"}
        advice = f"See {PREFIX}/openapi.json for what there is."
        return _response(
            Refusal(
                error.status_code, codes.get(error.status_code, "http"), str(error.detail), advice, error.headers or {}
            )
        )


def _response(refusal: Refusal) -> JSONResponse:
    return JSONResponse(refusal.content(), refusal.status, dict(refusal.headers))


def _database(entry: Entry) -> Database:
    return Database(
        name=entry.name,
        dialect=entry.database.dialect.name.lower(),
        is_sample=entry.is_sample,
        examples=list(entry.examples),
    )


def _schema(schema: Schema, entry: Entry, left_out: tuple[str, ...]) -> SchemaContent:
    def names(columns: tuple[int, ...]) -> list[str]:
        return [schema.columns[column].name for column in columns]

    def table_of(columns: tuple[int, ...]) -> str:
        return schema.tables[schema.columns[columns[0]].table].name

    tables = [
        {
            "name": table.name,
            "natural": table.natural,
            "is_view": table.is_view,
            "columns": [
                {"name": column.name, "natural": column.natural, "type": column.type.value}
                for column in (schema.columns[place] for place in schema.columns_of[index][1:])
            ],
            "primary_key": names(schema.primary_keys[index]),
        }
        for index, table in enumerate(schema.tables)
    ]
    keys = [
        {
            "table": table_of(key.columns),
            "columns": names(key.columns),
            "referred_table": table_of(key.referred),
            "referred_columns": names(key.referred),
        }
        for key in schema.foreign_keys
    ]
    return SchemaContent.model_validate(
        {
            "database": entry.name,
            "dialect": entry.database.dialect.name.lower(),
            "tables": tables,
            "foreign_keys": keys,
            "left_out": list(left_out),
        }
    )
