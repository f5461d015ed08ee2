"""Preparing a dataset: the same bytes for the same inputs, nothing twice, and errors that name their cause."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.grammar.rules import Choice
from dtfixup.sql.model.prepared import ARRAYS, INDEX, TABLES, open_prepared
from dtfixup.sql.preparation import prepare as module
from dtfixup.sql.preparation.prepare import PrepareReport, prepare
from tests.sql.sample_questions import ask_the_sample
from tests.sql.tiny_model import prepared_sample


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Six bundled questions, over copies of the databases."""
    folder = ask_the_sample(tmp_path / "small", train=(0, 1, 80), dev=(40, 41, 42)).folder
    (folder / "database").unlink()
    shutil.copytree(sample_folder() / "database", folder / "database")
    return folder


def prepared_into(out: Path, data: Path, workers: int = 1) -> PrepareReport:
    return prepare(data, out, workers=workers, show_progress=False)


def bytes_of(folder: Path) -> tuple[bytes, bytes]:
    return (folder / ARRAYS).read_bytes(), (folder / INDEX).read_bytes()


def change_row(file: Path, index: int, **fields: str) -> None:
    rows = json.loads(file.read_text())
    rows[index] |= fields
    file.write_text(json.dumps(rows))


def test_the_same_inputs_give_the_same_bytes_whatever_the_workers(small: Path, tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        prepared_into(tmp_path / name, small, workers)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [ARRAYS, INDEX, TABLES]


def test_a_second_run_does_nothing(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = prepared_into(tmp_path / "out", small)
    assert (report.was_there, report.examples, report.unreadable) == (False, {"train": 3, "dev": 3}, ())
    before = bytes_of(tmp_path / "out")
    monkeypatch.setattr(module, "make_part", lambda *_: pytest.fail("work was done again"))
    assert prepared_into(tmp_path / "out", small).was_there
    assert bytes_of(tmp_path / "out") == before


@pytest.mark.parametrize("change", ["question", "rows", "arrays", "index"])
def test_changed_data_or_a_damaged_result_is_prepared_again(small: Path, tmp_path: Path, change: str) -> None:
    out = tmp_path / "out"
    prepared_into(out, small)
    before = bytes_of(out)
    if change == "question":
        change_row(small / "dev.json", 0, question="Who?")
    elif change == "rows":
        with sqlite3.connect(small / "database" / "clinic" / "clinic.sqlite") as connection:
            table = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            connection.execute(f'DELETE FROM "{table}" WHERE rowid = (SELECT max(rowid) FROM "{table}")')
    elif change == "arrays":
        (out / ARRAYS).write_bytes((out / ARRAYS).read_bytes()[:-1])
    else:
        (out / INDEX).write_text("{")
    assert not prepared_into(out, small).was_there
    assert (bytes_of(out) == before) == (change in {"arrays", "index"})


def test_a_query_outside_the_grammar_is_kept_and_listed(small: Path, tmp_path: Path) -> None:
    change_row(small / "train.json", 1, query="SELECT * FROM nowhere")
    report = prepared_into(tmp_path / "out", small)
    (listed,) = report.unreadable
    assert (listed["split"], listed["index"], listed["query"]) == ("train", 1, "SELECT * FROM nowhere")
    assert "no table 'nowhere'" in listed["reason"]
    assert len(open_prepared(tmp_path / "out").row("step.state", "steps", 1)) == 0


def test_a_literal_that_is_not_a_candidate_is_counted_and_marked(small: Path, tmp_path: Path) -> None:
    schema = open_dataset(small).schemas["public_library"]
    table, column = schema.tables[0].name, schema.columns[1].name
    query = f"SELECT {column} FROM {table} WHERE {column} = 'zyxwv'"
    change_row(small / "train.json", 0, question="Nothing to see here", query=query)
    assert prepared_into(tmp_path / "out", small).uncovered["train"] >= 1
    prepared = open_prepared(tmp_path / "out")
    choices, indices = prepared.row("step.choice", "steps", 0), prepared.row("step.index", "steps", 0)
    assert list(indices[choices == Choice.VALUE]) == [-1]


def test_made_up_examples_are_prepared_with_their_source() -> None:
    prepared = prepared_sample(synthetic=60)
    made_up, train = prepared.split("synthetic"), prepared.split("train")
    assert len(made_up) == 60
    database, source = (prepared.arrays[f"example.{name}"] for name in ("database", "source"))
    assert list(database[list(train)]) == list(source[list(train)])
    assert set(source[list(made_up)]) <= set(database[list(train)])
    assert list(database[list(made_up)]) != list(source[list(made_up)])
    assert prepare(sample_folder(), prepared.folder, synthetic=60, workers=1).was_there
    for splits in (["dev"], ["train", "synthetic"]):
        with pytest.raises(ConfigError, match="come from the split train"):
            prepare(sample_folder(), prepared.folder, splits=splits, synthetic=60)


def test_a_missing_database_is_named(small: Path, tmp_path: Path) -> None:
    shutil.rmtree(small / "database" / "clinic")
    with pytest.raises(DataError, match=r"clinic\.sqlite does not exist"):
        prepared_into(tmp_path / "out", small)
    assert not (tmp_path / "out" / INDEX).exists()


def test_an_error_in_a_worker_arrives_as_it_is(small: Path, tmp_path: Path) -> None:
    (small / "database" / "clinic" / "clinic.sqlite").write_bytes(b"no database at all")
    with pytest.raises(Exception, match="clinic") as caught:
        prepared_into(tmp_path / "out", small, workers=2)
    assert not isinstance(caught.value, KeyError)


def save_roberta(folder: Path) -> Path:
    """A tiny RoBERTa whose byte-level BPE was trained on the bundled questions."""
    folder.mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*special.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    questions = [example.question for example in open_dataset(sample_folder()).split("train")]
    tokenizer.train_from_iterator(questions, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = RobertaConfig(
        vocab_size=600, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    RobertaModel(sizes, add_pooling_layer=False).save_pretrained(folder)
    return folder


def test_a_roberta_style_encoder(small: Path, tmp_path: Path) -> None:
    roberta = save_roberta(tmp_path / "roberta")
    prepare(small, tmp_path / "out", encoder=str(roberta), workers=1, show_progress=False)
    prepared = open_prepared(tmp_path / "out")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(roberta)
    index = prepared.index["encoder"]
    assert (index["cls"], index["sep"], index["pad"]) == (0, 2, 1)
    for row in range(len(prepared.arrays["example.database"])):
        question = prepared.text("question", "questions", row)
        ids = list(prepared.row("token.id", "tokens", row))
        # a word after a space keeps the space, as inside a sentence; one after a mark does not
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == f" {question.strip()}"
