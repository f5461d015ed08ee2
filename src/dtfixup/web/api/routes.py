"""The JSON API: `ask`, `run`, `databases`, `schema` and `health` under `/api/v1`, described by its `openapi.json`.

First the bodies of requests and responses, of which OpenAPI is made, then the routes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from dtfixup.errors import DtFixupError
from dtfixup.sql.ask.parser import MOST_CHARACTERS
from dtfixup.sql.ask.view import remark, rows_content
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.execution.text_filter import MAX_STATEMENT
from dtfixup.web.api.refusals import Refusal, refusal_of
from dtfixup.web.api.service import AnswerService
from dtfixup.web.store.catalogue import Catalogue, Entry

PREFIX = "/api/v1"
MOST_BEAM = 10
MOST_ROWS = 10_000

DatabaseName = Annotated[str, StringConstraints(min_length=1, max_length=60)]
Question = Annotated[str, StringConstraints(min_length=1, max_length=MOST_CHARACTERS)]
Statement = Annotated[str, StringConstraints(min_length=1, max_length=MAX_STATEMENT)]


def _whole(value: Any) -> Any:
    """1.0 is an integer to JSON Schema, and not to a strict model."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskRequest(_Body):
    """A question to a database."""

    database: DatabaseName = Field(description="A name that /databases lists.", examples=["river_ferry"])
    question: Question = Field(examples=["How many piers are in Vienna?"])
    beam: Whole = Field(default=5, ge=1, le=MOST_BEAM, description="How many queries to look for.")


class RunRequest(_Body):
    """A query to be run, read-only."""

    database: DatabaseName = Field(description="A name that /databases lists.", examples=["river_ferry"])
    sql: Statement = Field(examples=["SELECT count(*) FROM pier"])
    rows: Whole = Field(
        default=100, ge=1, le=MOST_ROWS, description="The most rows to return; the server may allow fewer."
    )


class Problem(BaseModel):
    """Why a request was not answered, and what to do about it."""

    code: str
    message: str
    advice: str


class Health(BaseModel):
    """Whether the server takes questions."""

    status: str = Field(examples=["ok"])


class Database(BaseModel):
    """A database that can be asked."""

    name: str
    dialect: str
    is_sample: bool
    examples: list[str] = Field(description="Questions to begin with.")


class Databases(BaseModel):
    """All that can be asked."""

    databases: list[Database]


class Column(BaseModel):
    """A column of a table."""

    name: str
    natural: str
    type: str


class Table(BaseModel):
    """A table or view."""

    name: str
    natural: str
    is_view: bool
    columns: list[Column]
    primary_key: list[str]


class Reference(BaseModel):
    """A foreign key: columns of one table that point at columns of another."""

    table: str
    columns: list[str]
    referred_table: str
    referred_columns: list[str]


class SchemaContent(BaseModel):
    """What a database is made of."""

    database: str
    dialect: str
    tables: list[Table]
    foreign_keys: list[Reference]
    left_out: list[str] = Field(description="In sentences, what no question can reach.")


class AlternativeContent(BaseModel):
    """A query that the question may mean."""

    sql: str
    probability: float = Field(description="Among the queries that were found.")
    log_probability: float = Field(description="Among all queries.")
    tree: Any = Field(description="The query as nested lists, rule first.")


class AnswerContent(BaseModel):
    """A question answered."""

    question: str
    verdict: str = Field(description="sure, unsure or no_link.")
    doubts: list[str] = Field(default_factory=list, description="What speaks against the likeliest query.")
    remark: str | None = Field(description="What has to be said of an answer that is not sure.")
    sql: str | None = Field(description="The likeliest query; null where every query would be a guess.")
    dialect: str
    alternatives: list[AlternativeContent]
    links: dict[str, Any] = Field(description="What the words were linked to.")
    seconds: dict[str, float]


class RowsContent(BaseModel):
    """The first rows of a query."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool = Field(description="Whether there are more rows.")


_STATUSES = {
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
    status: {"model": Problem, "description": text} for status, text in _STATUSES.items()
}


def build_api(service: AnswerService, catalogue: Catalogue) -> FastAPI:
    """The API over a service and the databases of a catalogue."""
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
        return Health(status="closing" if service.is_closing else "ok")

    @api.get("/databases", summary="The databases that can be asked")
    async def databases() -> Databases:
        return Databases(databases=[_database(entry) for entry in catalogue.entries.values()])

    @api.get("/databases/{name}/schema", summary="Tables, columns and keys of a database")
    async def schema(name: Annotated[str, Path(min_length=1, max_length=60)]) -> SchemaContent:
        entry = catalogue.find(name)
        with _masked_paths(entry):
            reading = await service.read(entry.database)
        return _schema(reading.schema, entry, reading.left_out)

    @api.post("/ask", summary="Turn a question into SQL; nothing is run")
    async def ask(asked: AskRequest) -> AnswerContent:
        entry = catalogue.find(asked.database)
        with _masked_paths(entry):
            answer = await service.ask(entry.database, asked.question, asked.beam)
        content = {**answer.to_json(), "remark": remark(answer, service.parser.sure_above, list_follows=False)}
        return AnswerContent.model_validate(content)

    @api.post("/run", summary="Run one query, read-only, within a deadline")
    async def run(query: RunRequest) -> RowsContent:
        entry = catalogue.find(query.database)
        with _masked_paths(entry):
            rows = await service.run(entry.database, query.sql, query.rows)
        return RowsContent.model_validate(rows_content(rows))

    return api


@contextmanager
def _masked_paths(entry: Entry) -> Iterator[None]:
    """Errors do not say where a database is."""
    try:
        yield
    except DtFixupError as error:
        raise _RefusedError(refusal_of(error, entry.masks)) from None


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
    return Database(name=entry.name, dialect=entry.dialect, is_sample=entry.is_sample, examples=list(entry.examples))


def _schema(schema: Schema, entry: Entry, left_out: tuple[str, ...]) -> SchemaContent:
    def names(columns: tuple[int, ...]) -> list[str]:
        return [schema.columns[column].name for column in columns]

    def table_of(columns: tuple[int, ...]) -> str:
        return schema.tables[schema.columns[columns[0]].table].name

    tables = []
    for index, table in enumerate(schema.tables):
        own = [schema.columns[column] for column in schema.columns_of[index][1:]]
        columns = [Column(name=column.name, natural=column.natural, type=column.type.value) for column in own]
        key = names(schema.primary_keys[index])
        tables.append(
            Table(name=table.name, natural=table.natural, is_view=table.is_view, columns=columns, primary_key=key)
        )
    references = [
        Reference(
            table=table_of(key.columns),
            columns=names(key.columns),
            referred_table=table_of(key.referred),
            referred_columns=names(key.referred),
        )
        for key in schema.foreign_keys
    ]
    return SchemaContent(
        database=entry.name,
        dialect=entry.dialect,
        tables=tables,
        foreign_keys=references,
        left_out=list(left_out),
    )
