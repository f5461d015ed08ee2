"""What the tests of reflection do to databases, and ask of the schemas they get."""

from collections.abc import Iterable

from sqlalchemy import create_engine, text

from dtfixup.sql.database.schema import ColumnType, Schema


def run_script(url: str, script: str | Iterable[str]) -> None:
    """Statements in standard SQL, one after the other; MariaDB is told to read quotes as the standard does."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "mysql":
            connection.exec_driver_sql("SET sql_mode = 'ANSI_QUOTES'")
        for statement in script.split(";") if isinstance(script, str) else script:
            if statement.strip():
                connection.execute(text(statement.replace(":", "\\:")))
    engine.dispose()


def types_of(schema: Schema, table: str) -> dict[str, ColumnType]:
    index = schema.find_table(table)
    assert index is not None
    return {schema.columns[column].name: schema.columns[column].type for column in schema.columns_of[index][1:]}


def table_names(schema: Schema) -> list[str]:
    return [table.name for table in schema.tables]


def foreign_pairs(schema: Schema) -> list[tuple[str, str]]:
    return [(schema.qualified(source), schema.qualified(target)) for source, target in schema.foreign_pairs]
