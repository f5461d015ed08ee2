"""The demo of asking: every question is answered on the screen, and the last line is the score."""

import inspect
import io
import json
import re
from unittest.mock import Mock, patch

import pytest
from rich.console import Console

from dtfixup.cli.main import main
from dtfixup.sql.ask import acceptance
from dtfixup.sql.ask import demo as ask_demo
from dtfixup.sql.ask.acceptance import SPLITS, Acceptance, accept
from dtfixup.sql.database.sample import sample_folder
from tests.sql.asked import tiny_run

_SCORED = Mock(spec_set=Acceptance, line="all of it", failed=["one"])


def test_questions_are_answered_and_the_score_comes_last() -> None:
    output = io.StringIO()
    with patch.object(ask_demo, "accept", return_value=_SCORED):
        ask_demo.show_ask_demo(tiny_run(), Console(file=output, width=200))
    text = output.getvalue()
    for _, question in ask_demo.QUESTIONS:
        assert question in text
    assert text.count("SELECT") >= len(ask_demo.QUESTIONS)
    assert len(re.findall(r"\d rows?\b", text)) == len(ask_demo.QUESTIONS)
    assert text.splitlines()[-1] == "all of it"
    assert "is called sure" in text
    assert "may mean" not in text, "no list of queries follows"


def test_the_score_is_that_of_the_acceptance_verb() -> None:
    with (
        patch.object(ask_demo, "accept", return_value=_SCORED) as of_demo,
        patch.object(acceptance, "accept", return_value=_SCORED) as of_verb,
        patch.object(acceptance, "show_acceptance"),
    ):
        for verb in ("demo", "acceptance"):
            with pytest.raises(SystemExit):
                main(["sql", verb, "--model", str(tiny_run())])
    bound = []
    for called in (of_demo, of_verb):
        arguments = inspect.signature(accept).bind(*called.call_args.args, **called.call_args.kwargs)
        arguments.apply_defaults()
        bound.append(arguments.arguments)
    assert bound[0] == bound[1]


def test_a_query_that_does_not_run_is_an_exit_code() -> None:
    with patch.object(ask_demo, "accept", return_value=_SCORED), pytest.raises(SystemExit) as left:
        main(["sql", "demo", "--model", str(tiny_run())])
    assert left.value.code == 1


def test_no_question_is_of_the_acceptance_set() -> None:
    known = {
        each["question"] for split in SPLITS for each in json.loads((sample_folder() / f"{split}.json").read_text())
    }
    assert known.isdisjoint(question for _, question in ask_demo.QUESTIONS)
