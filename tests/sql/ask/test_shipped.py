"""The model that comes with the package: small enough, whole, and used where none is named."""

import pytest
import torch

from dtfixup.cli.ask import ExitCode
from dtfixup.cli.main import main
from dtfixup.sql.ask.demo import QUESTIONS
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.execution.guarded import open_guarded
from dtfixup.sql.model.store import VOCABULARY


def test_the_file_is_small() -> None:
    assert default_model().stat().st_size <= 45_000_000


def test_every_weight_is_a_number(shipped: TextToSql) -> None:
    weights = shipped.trained.model.state_dict()
    assert [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()] == []


def test_the_file_says_what_it_is_worth(shipped: TextToSql) -> None:
    content = shipped.trained.content
    assert VOCABULARY in content
    metrics = content["accuracy"]["metrics"]
    exact = [metrics[f"dev_exact{level}"] for level in ("", *(f"_{each.value}" for each in Hardness))]
    assert all(10 < share < 100 for share in exact)
    assert exact[0] > 50
    assert 0 < content["sure_above"] < 1
    assert shipped.sure_above == content["sure_above"]


def test_the_encoder_comes_with_another_package(shipped: TextToSql) -> None:
    assert shipped.trained.encoder == "minilm"


@pytest.mark.parametrize(("database", "question"), QUESTIONS)
def test_questions_of_the_demo_give_queries_that_run(
    database: str, question: str, shipped: TextToSql, sample: Dataset
) -> None:
    file = sample.database_file(database)
    answer = shipped.ask(question, file)
    assert answer.sql is not None
    with open_guarded(file) as connection:  # raises for a query that does not run
        assert connection.run(answer.sql).columns


def test_ask_uses_it_where_no_model_is_named(
    shipped: TextToSql, sample: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    database, question = QUESTIONS[0]
    file = sample.database_file(database)
    with pytest.raises(SystemExit) as stop:
        main(["sql", "ask", question, "--database", str(file)])
    assert stop.value.code in (ExitCode.ANSWERED, ExitCode.UNSURE)
    assert capsys.readouterr().out == f"{shipped.ask(question, file).sql}\n"
