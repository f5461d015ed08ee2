"""Files of questions: every kind that is read, and every row that is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfixup.errors import DataError
from dtfixup.reading.examples import ReadingExample, example_from, read_data, read_examples, split_file

ROW = {
    "context": "It rains.",
    "question": "Is the street wet?",
    "answers": ["yes", "no"],
    "label": 0,
    "id_string": "train_0",
}
EXAMPLE = ReadingExample("It rains.", "Is the street wet?", ("yes", "no"), 0, "train_0")
TWELVE = [f"option {number}" for number in range(12)]


def written(tmp_path: Path, *rows: Any, name: str = "train.json") -> Path:
    file = tmp_path / name
    text = json.dumps(list(rows)) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_json_and_json_lines_are_read(tmp_path: Path, name: str) -> None:
    other = {"context": " Ann\n", "question": "Who?", "options": ["a", "b ", "c"], "label": 2}
    first, second = read_examples(written(tmp_path, ROW, other, name=name))
    assert first == EXAMPLE
    assert second == ReadingExample("Ann", "Who?", ("a", "b", "c"), 2, "train_2"), "its row is its name"


def test_a_line_separator_in_a_text_ends_no_row(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps({**ROW, "context": "It\u2028rains"}, ensure_ascii=False), encoding="utf-8")
    assert read_examples(file)[0].context == "It\u2028rains"


def test_csv_is_read_with_rows_of_different_numbers_of_options(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text(
        "\ufeffcontext,question,answer_0,answer_1,answer_2,label,source\n"
        '"It rains,\nhard.",Wet?,yes,no,,1,web\n'
        "Sun,Dry?,yes,no,perhaps,2,\n",
        encoding="utf-8",
    )
    assert read_examples(file) == (
        ReadingExample("It rains,\nhard.", "Wet?", ("yes", "no"), 1, "own_1"),
        ReadingExample("Sun", "Dry?", ("yes", "no", "perhaps"), 2, "own_2"),
    )


def test_a_row_of_csv_without_a_name_has_that_of_its_place(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("context,question,answer_0,answer_1,label,id\na,b,c,d,0,mine\na,b,c,d,1,\na,b,c,d,1\n")
    assert [example.name for example in read_examples(file)] == ["mine", "own_2", "own_3"]


def test_csv_columns_may_be_called_options(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("id,label,option_1,option_0,context,question\nq7,,no,yes,Sun,Dry?\n")
    assert read_examples(file, need_labels=False) == (ReadingExample("Sun", "Dry?", ("yes", "no"), None, "q7"),)
    with pytest.raises(DataError, match=r"own\.csv, row 1, label is missing"):
        read_examples(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": ["yes"]}, "answers has 1 options, but must have 2 to 10"),
        ({"answers": []}, "answers has 0 options"),
        ({"answers": TWELVE}, "answers has 12 options"),
        ({"answers": ["yes", "no", " yes"]}, r"answers\[2\] repeats answers\[0\]: remove or change one"),
        ({"answers": ["yes", "  "]}, r"answers\[1\] is empty: leave it out"),
        ({"answers": ["yes", 3]}, r"answers\[1\] must be text, got 3"),
        ({"answers": "yes"}, 'answers must be a list of options, got "yes"'),
        ({"answers": None}, "answers is missing: give 2 to 10 options"),
        ({"context": ""}, "context is empty: if the question has none, put its first sentence here"),
        ({"context": None}, "context is missing"),
        ({"context": ["It", "rains"]}, "context must be text, got"),
        ({"question": "\n"}, "question is empty: if there is none, write what is asked"),
        ({"question": 4.5}, "question must be text, got 4.5"),
        ({"label": 2}, "label is 2, but the options are numbered 0 to 1"),
        ({"label": -1}, "label is -1, but"),
        ({"label": "0"}, 'label must be the number of the right option, from 0, got "0"'),
        ({"label": True}, "label must be the number of the right option, from 0, got true"),
        ({"label": None}, "label is missing: give the number of the right option"),
    ],
)
@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_a_bad_row_is_named(tmp_path: Path, change: dict[str, Any], message: str, name: str) -> None:
    file = written(tmp_path, ROW, {**ROW, **change}, name=name)
    with pytest.raises(DataError, match=rf"train\.jsonl?, row 2, {message}"):
        read_examples(file)


def test_a_label_that_is_there_is_checked_even_where_none_is_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="label is 7"):
        read_examples(written(tmp_path, {**ROW, "label": 7}), need_labels=False)
    unlabelled = {key: value for key, value in ROW.items() if key != "label"}
    assert read_examples(written(tmp_path, unlabelled), need_labels=False)[0].label is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"context": "x"}', "must be a JSON list of examples, got"),
        ("a.json", "[", "is not JSON"),
        ("a.json", "[]", "has no examples"),
        ("a.json", "[3]", "row 1 must be an object with context, question and answers, got 3"),
        ("a.jsonl", "", "has no examples"),
        ("a.jsonl", '{"context"\n', "row 1 is not JSON: .* at column"),
        ("a.csv", "", "has no column context"),
        ("a.csv", "context,question,label\nx,y,0\n", "has no column answer_0: its first line must name the columns"),
        ("a.csv", "context,question,answer_0,label\nx,y,z,0\n", "has no column answer_1"),
        (
            "a.csv",
            "context,question,answer_1,answer_2,label\nx,y,z,w,0\n",
            "columns from 0, each once: answer_1",
        ),
        (
            "a.csv",
            "context,question,answer_0,option_0,label\nx,y,z,w,0\n",
            "columns from 0, each once",
        ),
        (
            "a.csv",
            "context,question,answer_0,answer_1,label\nx,y,z,w,0,q\n",
            "row 1 has more cells than the first line",
        ),
        ("a.csv", "context,question,answer_0,answer_1,label\nx,y,z,w,first\n", 'row 1, label must be .* got "first"'),
        ("a.csv", "context,question,answer_0,answer_1,label\nx,y,z\n", "row 1, answers has 1 options"),
        ("a.csv", "context,question,answer_0,answer_1,label\n,y,z,w,0\n", "row 1, context is empty"),
        ("a.csv", 'context,question,answer_0,answer_1,label\n"x,y,z,w,0\n', "is not CSV: .*, at line"),
        ("a.csv", "context,question,answer_0,answer_1,answer_2,label\nx,y,z,,w,0\n", r"row 1, answers\[1\] is empty"),
        ("a.txt", "", "cannot be read: it must end in .json, .jsonl, .csv"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=rf"{name}.* ?{message}"):
        read_examples(tmp_path / name)


def test_files_that_are_not_there_or_no_text_are_named(tmp_path: Path) -> None:
    for name in ("a.json", "a.jsonl", "a.csv"):
        with pytest.raises(DataError, match=rf"{name} does not exist"):
            read_examples(tmp_path / name)
        (tmp_path / name).write_bytes(b"\xff\xfe")
        with pytest.raises(DataError, match=rf"{name} is not UTF-8 text"):
            read_examples(tmp_path / name)


def test_a_folder_has_train_and_perhaps_val(tmp_path: Path) -> None:
    written(tmp_path, ROW)
    alone = read_data(tmp_path)
    assert (alone.train, alone.val) == ((EXAMPLE,), ())
    assert read_data(tmp_path / "train.json") == alone
    written(tmp_path, {**ROW, "id_string": "v"}, name="val.jsonl")
    both = read_data(tmp_path)
    assert [example.name for example in both.val] == ["v"]
    assert both.data_hash != alone.data_hash


def test_the_hash_is_of_the_bytes(tmp_path: Path) -> None:
    before = read_data(written(tmp_path, ROW))
    (tmp_path / "train.json").write_text(json.dumps([ROW]) + "\n")
    after = read_data(tmp_path / "train.json")
    assert before.train == after.train
    assert before.data_hash != after.data_hash


def test_a_folder_without_or_with_two_files_of_a_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"has no split 'train': put one of train\.json, train\.jsonl, train\.csv there"
    ):
        read_data(tmp_path)
    written(tmp_path, ROW)
    written(tmp_path, ROW, name="train.jsonl")
    with pytest.raises(DataError, match=r"has train\.json and train\.jsonl: keep only one"):
        split_file(tmp_path, "train")


def test_a_row_alone_has_no_need_of_a_label() -> None:
    assert example_from({**ROW, "label": None}, "here") == replace(EXAMPLE, label=None)
    with pytest.raises(DataError, match="here must be an object with context"):
        example_from([ROW], "here")
