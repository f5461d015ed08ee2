"""Cells with their runs: what is counted, what is a mean, and which runs failed and how."""

from dataclasses import replace
from pathlib import Path

import pytest
from dtfixup_paper.report.cells import CellResult, caption_of, progress, results_of, table_of
from dtfixup_paper.report.markdown import Entry
from dtfixup_paper.tables.cells import Cell
from dtfixup_paper.tables.paper_numbers import SCHEDULE
from dtfixup_paper.tables.result_files import read_results

from dtfixup.errors import DataError
from paper.tests.made_up_results import cell, path_of, reading_config, sql_config, write_result

FIXUP, PRINTED = sql_config("dt-fixup", 24), "4 of 5 failed"


def result_of(folder: Path, asked: Cell) -> CellResult:
    (result,) = results_of([asked], read_results(folder))
    return result


def entry_of(folder: Path, asked: Cell) -> Entry:
    return result_of(folder, asked).entry()


def test_the_longer_side_of_a_table_goes_down(tmp_path: Path) -> None:
    cells = [cell(sql_config(layers=layers), paper="70.0") for layers in (2, 4, 8)]
    cells += [cell(sql_config("pre-ln", layers)) for layers in (2, 4)]
    assert table_of(results_of(cells, read_results(tmp_path)), corner="new layers").splitlines()[::3] == [
        "| new layers | dt-fixup, paper | dt-fixup, ours | pre-ln, ours |",
        "| N = 4 | 70.0 | not run yet<br>0 of 2 seeds · 16 epochs | not run yet<br>0 of 2 seeds · 16 epochs |",
    ]


def test_two_cells_in_one_place_are_an_error(tmp_path: Path) -> None:
    results = results_of([cell(FIXUP), cell(sql_config(epochs=3))], read_results(tmp_path))
    with pytest.raises(ValueError, match="two cells of a table have one row and column"):
        table_of(results)


def test_captions_name_encoder_budget_epochs_and_batch(tmp_path: Path) -> None:
    write_result(tmp_path, FIXUP, 70.0)
    assert caption_of([result_of(tmp_path, cell(FIXUP))], "gpu", SCHEDULE["spider"]) == (
        "Ours: encoder minilm-fp16 (22.7M parameters, stored in half precision), budget gpu, 16 epochs, batch 32, "
        "made-up examples beside the real ones. The paper: RoBERTa-large (355M parameters), 60 epochs, batch 16."
    )


def test_planned_runs_are_counted_once_and_other_seeds_do_not_replace_them(tmp_path: Path) -> None:
    asked = [cell(FIXUP, seeds=3), cell(FIXUP, seeds=2), cell(sql_config(layers=8), seeds=1)]
    for seed in (1, 2, 4):
        write_result(tmp_path, FIXUP, 70.0, seed=seed)
    assert progress(results_of(asked, read_results(tmp_path))) == (2, 4)
    assert entry_of(tmp_path, asked[1]) == Entry("70.0 ± 0.0", "3 seeds · 16 epochs"), "all seeds are shown"


def test_reclor_runs_that_diverged_count_as_chance(tmp_path: Path) -> None:
    config = reading_config("standard", 16)
    for seed, accuracy in ((1, 44.0), (2, 30.0), (3, None)):
        write_result(tmp_path, config, accuracy, seed=seed)
    failed = "1 of 3 diverged, 1 of 3 at chance"
    assert entry_of(tmp_path, cell(config, seeds=3)) == Entry("33.0 ± 9.8", "3 seeds · 12 epochs", failed)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((70.0, 71.0), Entry("70.5 ± 0.7", "2 seeds · 16 epochs · none failed")),
        ((70.0,), Entry("70.0", "1 of 2 seeds · 16 epochs · none failed")),
        ((60.0, None), Entry("60.0, diverged", "2 seeds · 16 epochs", "1 of 2 diverged")),
        ((None, None), Entry("failed", "2 seeds · 16 epochs", "2 of 2 diverged")),
        ((68.0, 20.0, 30.0), Entry("68.0, 20.0, 30.0", "3 seeds · 16 epochs", "1 of 3 collapsed")),
        ((), Entry("not run yet", "0 of 2 seeds · 16 epochs", is_bold=False)),
    ],
)
def test_spider_runs_that_failed_and_others_have_no_mean(
    values: tuple[float | None, ...], expected: Entry, tmp_path: Path
) -> None:
    for seed, value in enumerate(values, 1):
        write_result(tmp_path, FIXUP, value, seed=seed)
    assert entry_of(tmp_path, cell(FIXUP, paper=PRINTED)) == expected, "the paper counts its failed runs"


def test_a_run_that_an_error_ended_is_missing_until_it_is_trained_again(tmp_path: Path) -> None:
    write_result(tmp_path, FIXUP, 70.0)
    write_result(tmp_path, FIXUP, None, seed=2, state="failed", reason="no room")
    (tmp_path / "odd.json").write_text('{"state": "open"}')  # somebody else's
    assert entry_of(tmp_path, cell(FIXUP)) == Entry("70.0", "1 of 2 seeds · 16 epochs", "1 stopped by an error")
    write_result(tmp_path, FIXUP, 71.0, seed=2)
    assert entry_of(tmp_path, cell(FIXUP)) == Entry("70.5 ± 0.7", "2 seeds · 16 epochs")


def test_runs_with_another_configuration_are_named(tmp_path: Path) -> None:
    write_result(tmp_path, sql_config("dt-fixup", 24, epochs=17), 70.0, file=f"{path_of(FIXUP)}-seed1.json")
    warning = "seed 1 was trained with another configuration"
    assert entry_of(tmp_path, cell(FIXUP)) == Entry("70.0", "1 of 2 seeds · 16 epochs", warning)


def test_seeds_on_other_data_and_chosen_settings_are_named(tmp_path: Path) -> None:
    for seed, data in ((1, "one"), (2, "other")):
        write_result(tmp_path, FIXUP, 70.0, seed=seed, data_hash=data)
    asked = replace(cell(FIXUP), is_chosen=True)
    assert result_of(tmp_path, asked).note == "2 seeds · 16 epochs · chosen · not all on the same data"


def test_a_metric_that_is_no_number_is_named(tmp_path: Path) -> None:
    write_result(tmp_path, FIXUP, 70.0, metrics={"dev_exact": "high"})
    with pytest.raises(DataError, match=r"seed1\.json has 'high' for its metric dev_exact"):
        entry_of(tmp_path, cell(FIXUP))
