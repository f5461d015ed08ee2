"""What programs say to the API and hear from it; OpenAPI is made of this."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from dtfixup.sql.ask.parser import MOST_CHARACTERS
from dtfixup.sql.execution.text_filter import MAX_STATEMENT

MOST_BEAM = 10
MOST_ROWS = 10_000

DatabaseName = Annotated[str, StringConstraints(min_length=1, max_length=60)]
Question = Annotated[str, StringConstraints(min_length=1, max_length=MOST_CHARACTERS)]
Statement = Annotated[str, StringConstraints(min_length=1, max_length=MAX_STATEMENT)]


def _whole(value: Any) -> Any:
    """1.0 is an integer to JSON Schema, and not to a strict model."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskRequest(_Said):
    """A question to a database."""

    database: DatabaseName = Field(description="A name that /databases lists.", examples=["river_ferry"])
    question: Question = Field(examples=["How many piers are in Vienna?"])
    beam: Whole = Field(default=5, ge=1, le=MOST_BEAM, description="How many queries to look for.")


class RunRequest(_Said):
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
