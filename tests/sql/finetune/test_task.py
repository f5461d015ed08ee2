"""Fine-tuning as a task of the engine: pairs as a dataset, weights that go on, an encoder that stays."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from dtfixup.encoders import Tokenizer, load_tokenizer
from dtfixup.errors import ConfigError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.evaluation.execution_accuracy import ExecutionOutcome
from dtfixup.sql.finetune.pair_files import GivenPair
from dtfixup.sql.finetune.pair_scores import PairJudge
from dtfixup.sql.finetune.pairs import Pairs, SplitPairs, check_pairs, link_pairs, split_pairs
from dtfixup.sql.finetune.task import HELD_OUT, TRAIN, FinetuneConfig, FinetuneTask, PreparedPairs, prepare_pairs
from dtfixup.sql.grammar.rules import Choice
from dtfixup.sql.linking.inputs import describe_database, describe_question
from dtfixup.sql.model.search import corpus_for
from dtfixup.sql.model.store import TrainedModel, load_model
from dtfixup.training.loop import fit
from dtfixup.weights.tensors import model_tensors
from dtfixup.weights.trained import frozen_names
from tests.sql.asked import tiny_run
from tests.sql.harbour_pairs import BERTHS, CONFIG, PAIRS, changed_training, make_harbours
from tests.sql.reflected import run_script


@pytest.fixture(scope="module")
def harbours(tmp_path_factory: pytest.TempPathFactory) -> OpenedDatabase:
    return OpenedDatabase(make_harbours(tmp_path_factory.mktemp("data") / "harbours.sqlite"))


@pytest.fixture(scope="module")
def split(harbours: OpenedDatabase) -> SplitPairs:
    given = [GivenPair(line, *pair) for line, pair in enumerate(PAIRS, start=2)]
    checked = check_pairs(given, harbours.read().schema, Dialect.SQLITE, require_readable=str)
    return split_pairs(checked, 0.2, 1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer("minilm")


@pytest.fixture(scope="module")
def prepared(split: SplitPairs, harbours: OpenedDatabase, tokenizer: Tokenizer) -> PreparedPairs:
    return prepare_pairs(split, harbours, tokenizer)


def task_of(
    prepared: PreparedPairs, trained: TrainedModel, config: FinetuneConfig = CONFIG, **made_of: str
) -> FinetuneTask:
    metrics = {"exact": 0.0}
    return FinetuneTask(
        config, trained, prepared, evaluate=lambda: metrics, made_of=made_of, device=torch.device("cpu")
    )


def test_the_dataset_has_the_pairs_as_the_parser_will_see_them(
    prepared: PreparedPairs, split: SplitPairs, harbours: OpenedDatabase
) -> None:
    schema = harbours.read().schema
    inputs = describe_database(schema, open_content(schema, harbours.location))
    for name, pairs in ((TRAIN, split.train), (HELD_OUT, split.held_out)):
        examples = prepared.splits[name]
        assert len(examples) == len(pairs)
        for example, pair in zip(examples, pairs, strict=True):
            found = Example(
                schema.database,
                prepared.examples.text("question", "questions", example),
                prepared.examples.text("query", "queries", example),
            )
            assert found == Example(schema.database, pair.question, pair.query)
            asked = describe_question(pair.question, inputs)
            assert prepared.examples.row("link", "links", example).tolist() == asked.codes.reshape(-1).tolist()
            assert len(prepared.examples.row("step.choice", "steps", example)) > 3


def test_every_value_that_is_learnt_is_a_candidate(harbours: OpenedDatabase, tokenizer: Tokenizer) -> None:
    given = [
        GivenPair(2, "Which harbours are in Linz?", "SELECT name FROM harbour WHERE city = 'Linz'"),
        GivenPair(3, "Which harbours are at home?", "SELECT name FROM harbour WHERE city = 'Atlantis'"),
    ]
    checked = check_pairs(given, harbours.read().schema, Dialect.SQLITE, require_readable=str)

    def chosen(pairs: Pairs) -> list[bool]:
        """For each value in the dataset, whether it is a candidate."""
        arrays = prepare_pairs(SplitPairs(pairs.usable, ()), harbours, tokenizer).examples.arrays
        return (arrays["step.index"][arrays["step.choice"] == Choice.VALUE] >= 0).tolist()

    assert chosen(checked) == [True, False]
    assert chosen(link_pairs(checked, harbours.read().inputs)) == [True]


def test_weights_go_on_and_the_encoder_stays(prepared: PreparedPairs, tmp_path: Path) -> None:
    trained = load_model(tiny_run())
    start = {name: tensor.detach().clone() for name, tensor in model_tensors(trained.model).items()}
    config = changed_training(epochs=1)
    task = task_of(prepared, trained, config)
    fit(task, config.training, tmp_path, stop_after=1)
    end = model_tensors(trained.model)
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    rate = config.training.update.learning_rate
    assert moved
    assert not any(name.startswith("encoder.") for name in moved)
    assert all((start[name] - end[name]).abs().max() <= 1.01 * rate for name in moved), "one step of Adam from there"
    assert {"stack", "decoder"} <= {name.partition(".")[0] for name in moved}


def test_files_hold_all_that_the_base_s_file_holds(prepared: PreparedPairs, tmp_path: Path) -> None:
    trained = load_model(tiny_run())
    expected = frozen_names(trained.model)
    task = task_of(prepared, trained)
    assert task.left_out == expected
    assert not any(parameter.requires_grad for parameter in trained.model.encoder.parameters())
    config = changed_training(epochs=1)
    fit(task, config.training, tmp_path)
    again = load_model(tmp_path)
    for name, tensor in model_tensors(trained.model).items():
        assert torch.equal(model_tensors(again.model)[name], tensor), name


def test_the_fingerprint_says_what_was_tuned_on_what(prepared: PreparedPairs) -> None:
    def made_of(trained: TrainedModel, **more: str) -> dict[str, object]:
        return dict(task_of(prepared, trained, **more).fingerprint["finetune"])

    base = made_of(load_model(tiny_run()), pairs="one")
    assert base == made_of(load_model(tiny_run()), pairs="one")
    assert base != made_of(load_model(tiny_run()), pairs="two")
    other = load_model(tiny_run())
    with torch.no_grad():
        next(other.model.decoder.parameters()).add_(1.0)
    assert base["from"] != made_of(other, pairs="one")["from"]
    assert {**load_model(tiny_run()).content["fingerprint"]}.items() <= task_of(
        prepared, load_model(tiny_run())
    ).fingerprint.items()


def test_an_epoch_has_every_pair_once_in_shapes_that_hold_it(prepared: PreparedPairs) -> None:
    trained = load_model(tiny_run())
    task = task_of(prepared, trained)
    corpus = corpus_for(trained.model, prepared.examples, "cpu")
    plans = [task.batches(epoch, np.random.default_rng(epoch)) for epoch in range(2)]
    for plan in plans:
        seen = np.concatenate([batch.examples for batch in plan])
        assert sorted(seen) == list(prepared.splits[TRAIN])
        assert all(batch.shape.tokens >= corpus.shape_of(batch.examples).tokens for batch in plan)
    assert len(plans[0]) == len(plans[1])
    assert not np.array_equal(plans[0][0].examples, plans[1][0].examples)


@pytest.fixture(params=["postgresql", "mariadb"])
def served(request: pytest.FixtureRequest) -> OpenedDatabase:
    """The harbours on a server."""
    url = request.getfixturevalue(f"fresh_{request.param}")
    rows = ", ".join(f"({place}, '{city} {part}', '{city}')" for place, (city, part) in enumerate(BERTHS, start=1))
    table = "CREATE TABLE harbour (id INTEGER PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))"
    run_script(url, [table, f"INSERT INTO harbour VALUES {rows}"])
    return OpenedDatabase(url)


def test_a_database_on_a_server_gives_the_same_dataset(
    served: OpenedDatabase, prepared: PreparedPairs, tokenizer: Tokenizer
) -> None:
    """The queries are written as the server takes them, and answers are run there."""
    dressed = {
        Dialect.POSTGRESQL: lambda sql: sql.replace(" FROM harbour WHERE ", " FROM public.harbour AS h WHERE h."),
        Dialect.MARIADB: lambda sql: sql.replace("harbour", "`harbour`").replace("city", "`city`"),
    }[served.dialect]
    given = [GivenPair(line, question, dressed(sql)) for line, (question, sql) in enumerate(PAIRS, start=2)]
    checked = check_pairs(given, served.read().schema, served.dialect, require_readable=str)
    assert checked.unusable == ()
    split = split_pairs(checked, 0.2, 1)
    made = prepare_pairs(split, served, tokenizer)
    for name in ("token.id", "link", "step.index", "step.choice", "value_text"):
        assert np.array_equal(made.examples.arrays[name], prepared.examples.arrays[name]), name
    answers = iter([pair.sql for pair in split.held_out[:-1]] + ["SELECT nothing FROM nowhere"])

    class Knowing:
        def ask(self, question: str, database: OpenedDatabase, beam: int) -> SimpleNamespace:
            tree = SimpleNamespace(tree=next(pair.tree for pair in split.held_out if pair.question == question))
            return SimpleNamespace(sql=next(answers), alternatives=[tree], schema=database.read().schema)

    found = PairJudge(served, split.held_out, show_progress=False).score(cast(TextToSql, Knowing()), "")
    assert found.exact == 100.0
    assert found.right == 90.0
    assert found.pairs[-1].execution.outcome is ExecutionOutcome.PREDICTION_FAILED


@pytest.fixture
def dropping(prepared: PreparedPairs) -> FinetuneTask:
    """A task whose encoder drops half of everything in training mode."""
    trained = load_model(tiny_run())
    for module in trained.model.encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    return task_of(prepared, trained)


def test_an_encoder_that_does_not_learn_drops_nothing(dropping: FinetuneTask) -> None:
    dropping.model.train()
    [batch, *_] = dropping.batches(0, np.random.default_rng(0))
    losses = [dropping.loss_sum(torch.from_numpy(batch.examples), batch.shape).item() for _ in range(2)]
    assert losses[0] == losses[1]
    assert dropping.model.encoder.training, "the mode is put back"


@pytest.mark.parametrize("change", [{"hold_out": 0.0}, {"hold_out": 0.6}, {"beam": 0}])
def test_settings_that_cannot_work(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        FinetuneConfig(**change)
