"""Beam search: against a plain greedy loop, against every derivation there is, and against the loss of training."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dtfixup.errors import ConfigError
from dtfixup.fixup import initialise_free_
from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, ColumnKind, Grammar, ValueKind, read_grammar, sql_grammar
from dtfixup.sql.grammar.transitions import (
    Action,
    ApplyRule,
    Masks,
    SelectColumn,
    SelectValue,
    Step,
    Walk,
    first_illegal,
    steps_of,
    tree_of,
)
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.model.batches import Batch, Corpus
from dtfixup.sql.model.decoder import StepState
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.search import BeamSearch, Hypothesis
from tests.sql.tiny_model import (
    CONFIG,
    batch_of,
    prepared_extract,
    prepared_from,
    sample_corpus,
    tiny_encoder,
    tiny_model,
)

EXAMPLES = (0, 61, 122, 183)
Actions = tuple[tuple[int, int], ...]

_LITERAL_OF = {
    ValueKind.TEXT: Literal("x", ValueKind.TEXT),
    ValueKind.NUMBER: Literal("-1.5", ValueKind.NUMBER),
    ValueKind.TIME: Literal("2010-01-01", ValueKind.TIME),
    ValueKind.COUNT: Literal("3", ValueKind.NUMBER),
}


def literals(batch: Batch, row: int) -> list[Literal]:
    """A literal of the right kind for every candidate."""
    return [_LITERAL_OF[VALUE_KINDS[kind]] for kind in batch.value_kind_BV[row][batch.value_keep_BV[row]].tolist()]


def masks_of(batch: Batch, row: int, grammar: Grammar) -> Masks:
    kinds = batch.item_kind_BI[row][batch.column_keep_BI[row]].tolist()
    return Masks([ColumnKind(kind) for kind in kinds], grammar)


def as_actions(actions: Actions, batch: Batch, row: int) -> list[Action]:
    found: list[Action] = []
    for choice, index in actions:
        match Choice(choice):
            case Choice.RULE:
                found.append(ApplyRule(index))
            case Choice.COLUMN:
                found.append(SelectColumn(index))
            case Choice.VALUE:
                found.append(SelectValue(literals(batch, row)[index]))
    return found


def legal_next(walk: Walk, masks: Masks, batch: Batch, row: int, limit: int) -> list[tuple[int, int]]:
    """What may follow, as (choice, index)."""
    state_B = np.array([walk.state])
    choice = masks.grammar.states[walk.state].choice
    if choice is Choice.RULE:
        room_B = np.array([masks.room(len(walk.actions), walk.pending, limit)])
        found = masks.rules(state_B, room_B)[0]
    elif choice is Choice.COLUMN:
        found = masks.columns(state_B)[0]
    else:
        found = masks.values(state_B, batch.value_kind_BV[row][batch.value_keep_BV[row]].numpy())[0]
    return [(int(choice), index) for index in found.nonzero()[0].tolist()]


@torch.no_grad()
def greedy(model: SqlSpModel, batch: Batch, row: int, limit: int, grammar: Grammar) -> Hypothesis:
    """The most likely legal action at every step, one question at a time."""
    decoder, masks = model.decoder, masks_of(batch, row, grammar)
    memory = model.remember(batch).rows(torch.tensor([row]))
    walk = Walk(grammar)
    parents = [-1]  # of what is open, the next one last
    state = decoder.first_state(1, memory.key_BHNZ)
    embedded, hidden = [decoder.start_embedding(1)], [state.h_BM]
    used_11I = torch.zeros(1, 1, batch.column_keep_BI.shape[1], dtype=torch.bool)
    taken: list[tuple[int, int]] = []
    score = 0.0
    while not walk.finished:
        above = parents.pop() + 1
        state_11 = torch.tensor([[walk.state]])
        known_1G = decoder.known_gates(embedded[-1][:, None], embedded[above][:, None], state_11)[:, 0]
        state = decoder.step(known_1G, hidden[above], state, memory)
        hidden.append(state.h_BM)
        features_11F = torch.cat([state.h_BM, state.z_BD], -1)[:, None]
        tables = [table[0, 0] for table in decoder.log_probabilities(features_11F, state_11, used_11I, memory)]
        best = max(legal_next(walk, masks, batch, row, limit), key=lambda action: float(tables[action[0]][action[1]]))
        score += float(tables[best[0]][best[1]])
        embedded.append(decoder.embed(memory, torch.tensor([[best[0]]]), torch.tensor([[best[1]]]))[:, 0])
        if best[0] == Choice.COLUMN:
            used_11I[0, 0, best[1]] = True
        open_before = len(walk.pending) - 1
        walk.take(as_actions((best,), batch, row)[0])
        parents += [len(taken)] * (len(walk.pending) - open_before)
        taken.append(best)
    return Hypothesis(score, tuple(taken))


def steps_along(actions: Actions, batch: Batch, row: int, grammar: Grammar) -> tuple[Step, ...]:
    return steps_of(tree_of(as_actions(actions, batch, row), grammar), grammar)


@torch.no_grad()
def teacher_forced(
    model: SqlSpModel, corpus: Corpus, example: int, found: Sequence[Actions], grammar: Grammar
) -> list[float]:
    """The log-probability of each derivation, by the loss of training."""
    size = max(len(actions) for actions in found)
    batch = batch_of(corpus, [example] * len(found))
    table = np.zeros((4, len(found), size), np.int64)
    table[1], table[3] = -1, -1
    keep = np.zeros((len(found), size), bool)
    for place, actions in enumerate(found):
        steps = steps_along(actions, batch, 0, grammar)
        own = [(*action, step.state, step.parent) for action, step in zip(actions, steps, strict=True)]
        table[:, place, : len(own)] = np.array(own).T
        keep[place, : len(own)] = True
    choice, index, state, parent = (torch.from_numpy(part) for part in table)
    batch = replace(
        batch, choice_BS=choice, index_BS=index, state_BS=state, parent_BS=parent, step_keep_BS=torch.from_numpy(keep)
    )
    return [-loss for loss in model(batch).tolist()]


def require_sound(
    found: Sequence[Hypothesis], batch: Batch, row: int, limit: int, grammar: Grammar | None = None
) -> None:
    """Sorted, distinct, finished, legal and within the limit."""
    grammar = grammar or sql_grammar()
    assert all(one.score >= other.score for one, other in pairwise(found))
    assert len({hypothesis.actions for hypothesis in found}) == len(found)
    for hypothesis in found:
        assert len(hypothesis.actions) <= limit
        steps = steps_along(hypothesis.actions, batch, row, grammar)  # fails where the tree is not finished
        assert first_illegal(steps, masks_of(batch, row, grammar), limit) is None


# Greedy.


@pytest.mark.parametrize("limit", [100, 30, 12, 7])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_of_one_is_greedy(seed: int, limit: int) -> None:
    model, corpus = tiny_model(seed), sample_corpus()
    batch = batch_of(corpus, [EXAMPLES[0], -1, *EXAMPLES[1:]])
    found = BeamSearch(model, beam=1, limit=limit)(batch)
    assert found[1] == []
    for row in (0, 2, 3, 4):
        (only,) = found[row]
        wanted = greedy(model, batch, row, limit, sql_grammar())
        assert only.actions == wanted.actions
        assert only.score == pytest.approx(wanted.score, abs=1e-4)


def test_a_wider_beam_finds_better_on_the_whole() -> None:
    batch = batch_of(sample_corpus(), EXAMPLES)
    gains = []
    for seed in range(4):
        model = tiny_model(seed)
        one, many = (BeamSearch(model, beam=beam, limit=25)(batch) for beam in (1, 8))
        gains += [several[0].score - single[0].score for single, several in zip(one, many, strict=True)]
    assert np.mean(gains) > 1
    assert np.mean(np.array(gains) >= -1e-4) > 0.8, "not always: the greedy one may drop out of the beam on its way"


def test_a_model_that_knows_its_examples_finds_them() -> None:
    torch.manual_seed(0)
    decoder = replace(CONFIG.decoder, lstm_dim=32, action_dim=16)
    model = SqlSpModel(replace(CONFIG, strategy="pre-ln", mlp_dim=64, heads=4, decoder=decoder), tiny_encoder())
    initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    batch = batch_of(sample_corpus(), EXAMPLES[:3])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for _ in range(80):
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    assert loss < 0.3
    model.eval()
    for row, found in enumerate(BeamSearch(model, beam=3)(batch)):
        keep_S = batch.step_keep_BS[row]
        gold = tuple(zip(batch.choice_BS[row, keep_S].tolist(), batch.index_BS[row, keep_S].tolist(), strict=True))
        assert found[0].actions == gold


# Scores and legality.


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([5, 7, 8, 12, 20, 40, 100]), st.integers(0, 239))
@settings(max_examples=12, deadline=None)
def test_whatever_the_weights_hypotheses_are_sound(seed: int, beam: int, limit: int, example: int) -> None:
    model, corpus = tiny_model(seed), sample_corpus()
    batch = batch_of(corpus, [example])
    (found,) = BeamSearch(model, beam=beam, limit=limit)(batch)
    assert found
    require_sound(found, batch, 0, limit)
    scores = teacher_forced(model, corpus, example, [hypothesis.actions for hypothesis in found], sql_grammar())
    for hypothesis, wanted in zip(found, scores, strict=True):
        assert hypothesis.score == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_a_question_is_answered_alike_alone_and_in_a_batch() -> None:
    model, corpus = tiny_model(4), sample_corpus()
    search = BeamSearch(model, beam=4, limit=40)
    together = search(batch_of(corpus, [*EXAMPLES, -1]))
    assert together[-1] == []
    for row, example in enumerate(EXAMPLES):
        (alone,) = search(batch_of(corpus, [example]))
        assert [h.actions for h in together[row]] == [h.actions for h in alone]
        assert [h.score for h in together[row]] == pytest.approx([h.score for h in alone], abs=1e-4)


def test_steps_of_the_gold_derivation_are_not_looked_at() -> None:
    model, corpus = tiny_model(4), sample_corpus()
    search = BeamSearch(model, beam=3, limit=30)
    shape = corpus.shape_of(EXAMPLES)
    whole, blind = (corpus.assemble(torch.tensor(EXAMPLES), replace(shape, steps=steps)) for steps in (shape.steps, 1))
    assert [[h.actions for h in found] for found in search(whole)] == [[h.actions for h in f] for f in search(blind)]


def test_a_search_ends_with_its_longest_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    model, corpus = tiny_model(0), sample_corpus()
    calls: list[int] = []
    step = model.decoder.step

    def counted(*arguments: Any) -> StepState:
        calls.append(1)
        return step(*arguments)

    monkeypatch.setattr(model.decoder, "step", counted)
    shape = corpus.shape_of([0])
    assert BeamSearch(model, beam=5)(corpus.assemble(torch.tensor([-1, -1]), shape)) == [[], []]
    assert len(calls) == 1, "nothing is left to do where nothing can be chosen"
    calls.clear()
    found = BeamSearch(model, beam=40, limit=5)(corpus.assemble(torch.tensor([0, -1]), shape))
    assert len(calls) == max(len(hypothesis.actions) for hypothesis in found[0])


def test_a_long_limit_has_room_for_all_that_is_open() -> None:
    model, corpus = tiny_model(0), sample_corpus()
    batch = batch_of(corpus, [0])
    with torch.no_grad():  # conditions of conditions, and long lists
        names = sql_grammar().rule_index
        weight = model.decoder.rule_score[2].weight
        weight.zero_()
        for place, name in enumerate(("And", "Grouped", "In", "Six", "Add")):
            weight[names[name]] = 50.0 - place
        model.decoder.rule_score[0].weight.zero_()
        model.decoder.rule_score[0].bias.fill_(1.0)
    (found,) = BeamSearch(model, beam=2, limit=260)(batch)
    require_sound(found, batch, 0, 260)
    walk, most = Walk(), 0
    for action in as_actions(found[0].actions, batch, 0):
        walk.take(action)
        most = max(most, len(walk.pending))
    assert most > 64


@pytest.mark.parametrize("beam", [0, -2])
def test_an_empty_beam_is_refused(beam: int) -> None:
    with pytest.raises(ConfigError, match="at least one hypothesis, got"):
        BeamSearch(tiny_model(), beam=beam)


# Schemas of few kinds.


@pytest.fixture(scope="module")
def wordless(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two tables of words alone: nothing to add up, no time, no number."""
    script = """
        CREATE TABLE bird (name text, colour text); INSERT INTO bird VALUES ('wren', 'brown'), ('robin', 'red');
        CREATE TABLE lone (song text); INSERT INTO lone VALUES ('trill');
    """
    pairs = [("What are the names of red birds ?", "SELECT name FROM bird WHERE colour = 'red'")]
    return Corpus(prepared_from(tmp_path_factory.mktemp("wordless"), script, pairs))


@pytest.mark.parametrize("limit", [12, 60])
def test_a_schema_without_numbers_is_never_added_up(wordless: Corpus, limit: int) -> None:
    batch = batch_of(wordless, [0])
    kinds = batch.item_kind_BI[0][batch.column_keep_BI[0]].tolist()
    assert set(kinds) == {ColumnKind.STAR, ColumnKind.WORDS}
    rules = sql_grammar().rule_index
    for seed in range(4):
        (found,) = BeamSearch(tiny_model(seed), beam=5, limit=limit)(batch)
        assert len(found) == 5
        require_sound(found, batch, 0, limit)
        taken = {action for hypothesis in found for action in hypothesis.actions}
        assert not taken & {(Choice.RULE, rules[name]) for name in ("Sum", "Avg")}


# Every derivation there is.


TOY = read_grammar("""

start query
query:
  One(item)
  Both(item, query, limit?)
  Some(value[any])
item:
  Plain(column[any])
  Total(column[measure])
limit: Limit(value[count])
accept column[any]: star number text words time boolean others
accept column[measure]: number
accept value[any]: text number count time
accept value[count]: count
""")


def every_derivation(batch: Batch, limit: int, grammar: Grammar) -> Iterator[Actions]:
    """All derivations within the limit, by brute force."""
    masks = masks_of(batch, 0, grammar)
    stack: list[Actions] = [()]
    while stack:
        taken = stack.pop()
        walk = Walk(grammar)
        for action in as_actions(taken, batch, 0):
            walk.take(action)
        if walk.finished:
            yield taken
        else:
            stack += [(*taken, action) for action in legal_next(walk, masks, batch, 0, limit)]


@pytest.mark.parametrize(("grammar", "limit"), [(TOY, 7), (sql_grammar(), 7)], ids=["toy", "sql"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_beam_that_holds_all_finds_all_in_order(wordless: Corpus, grammar: Grammar, limit: int, seed: int) -> None:
    batch = batch_of(wordless, [0])
    model = tiny_model(seed, grammar=grammar)
    derivations = list(every_derivation(batch, limit, grammar))
    assert 50 < len(derivations) < 5000
    scores = dict(zip(derivations, teacher_forced(model, wordless, 0, derivations, grammar), strict=True))
    (found,) = BeamSearch(model, beam=len(derivations) + 1, limit=limit, grammar=grammar)(batch)
    require_sound(found, batch, 0, limit, grammar)
    assert {hypothesis.actions for hypothesis in found} == set(derivations)
    for hypothesis in found:
        assert hypothesis.score == pytest.approx(scores[hypothesis.actions], rel=1e-5, abs=1e-5)
    assert scores[found[0].actions] == pytest.approx(max(scores.values()), abs=1e-5)
    total = np.exp([hypothesis.score for hypothesis in found]).sum()
    assert total < 1 + 1e-4, "a share of all probability: longer derivations have the rest"


def test_a_schema_of_several_windows_is_searched_alike(spider_folder: Path, tmp_path: Path) -> None:
    corpus = Corpus(prepared_extract(spider_folder, tmp_path / "extract", ("baseball_1", "singer"), 2))
    batch = batch_of(corpus, range(4))
    assert batch.token_BKT.shape[1] > 1
    search = BeamSearch(tiny_model(1), beam=3, limit=30)
    together = search(batch)
    for row in range(4):
        require_sound(together[row], batch, row, 30)
        (alone,) = search(batch_of(corpus, [row]))
        assert [h.actions for h in together[row]] == [h.actions for h in alone]
