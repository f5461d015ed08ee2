"""What all runs of a call have in common."""

from dataclasses import replace

from dtfixup_paper.tables.cells import Budget, Setup


def test_settings_that_were_chosen_with_another_encoder_are_named() -> None:
    mpnet = Setup(Budget.GPU, "folder/mpnet")
    assert "chosen with MiniLM" in mpnet.settings_note
    assert replace(mpnet, settings=replace(mpnet.settings, spider={})).settings_note == ""
    assert "are the paper's" in Setup(Budget.PAPER, "mpnet").settings_note
    assert Setup(Budget.GPU, "x/minilm-fp16").settings_note == Setup(Budget.SMOKE, "mpnet").settings_note == ""
