"""Small data are parts of the large, and made-up questions have their answers in the text."""

import json
from dataclasses import asdict
from pathlib import Path

from dtfixup_paper.tables.smoke import small_reclor, small_spider

from dtfixup.reading.examples import read_data
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from tests.reading.tiny_reading import made_up


def test_small_spider_has_the_first_questions_of_the_large() -> None:
    small, large = open_dataset(small_spider(sample_folder())), open_dataset(sample_folder())
    train = small.split("train")
    assert len(train) == 24
    assert len({example.database for example in train}) == 3
    assert set(train) <= set(large.split("train"))
    assert small.database_file(train[0].database).is_file()
    assert len(small.split("dev")) == 8


def test_small_reclor_has_the_first_questions_of_the_large(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("val", 9)):
        (tmp_path / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    assert read_data(small_reclor(tmp_path)).train == read_data(tmp_path).train[:16]


def test_made_up_questions_are_answered_in_the_text() -> None:
    for example in (*(made := read_data(small_reclor())).train, *made.val):
        thing = example.question.removeprefix("Who has the ").removesuffix("?")
        assert example.label is not None
        assert f"{example.answers[example.label]} has the {thing}." in example.context
