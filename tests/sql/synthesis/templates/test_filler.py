"""What fills a template fits in question and query. `test_examples.py` tests whole sets of examples."""

from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.maker import make_template
from tests.sql.described import described
from tests.sql.pets import fill_often


def test_rows_that_refer_share_columns(dataset: Dataset, kennels: DatabaseInputs) -> None:
    """A dog has the city of its owner, but not the name."""
    query = "SELECT T1.city FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id"
    source = Example("kennels", "What are the cities of dogs?", query)
    template = make_template(source, 0, kennels, SqlReader(kennels.schema))
    examples = fill_often(template, described(dataset, "library"))
    assert {example.question for example in examples} == {"What are the cities of books?"}
