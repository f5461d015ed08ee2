"""A database of a dataset as the parser sees it."""

from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database


def described(dataset: Dataset, name: str) -> DatabaseInputs:
    schema = dataset.schemas[name]
    return describe_database(schema, open_content(schema, dataset.database_file(name), use_cache=False))
