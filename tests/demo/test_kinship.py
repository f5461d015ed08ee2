"""The stories are right: answers follow from the facts, by an independent derivation."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.demo.kinship import ANSWERS, MEN, WOMEN, Fact, FamilyStep, Story, generate, kin

PARENT, CHILD = {"father", "mother"}, {"son", "daughter"}
NAMES = {
    (1, 0): "father mother",
    (0, 1): "son daughter",
    (1, 1): "brother sister",
    (2, 0): "grandfather grandmother",
    (0, 2): "grandson granddaughter",
    (2, 1): "uncle aunt",
    (1, 2): "nephew niece",
    (2, 2): "cousin cousin",
    (3, 0): "great-grandfather great-grandmother",
    (0, 3): "great-grandson great-granddaughter",
}


def derived_answer(facts: tuple[Fact, ...], person: str, relative_of: str) -> str:
    """Join siblings, give each group of them a parent, and look for the nearest common ancestor."""
    joined: dict[str, str] = {}

    def group(name: str) -> str:
        return group(joined[name]) if name in joined else name

    for fact in facts:
        if fact.relation not in PARENT | CHILD and group(fact.subject) != group(fact.object):
            joined[group(fact.subject)] = group(fact.object)
    parent = {group(fact.object): fact.subject for fact in facts if fact.relation in PARENT}
    parent |= {group(fact.subject): fact.object for fact in facts if fact.relation in CHILD}

    def line(name: str) -> list[str]:
        if group(name) not in parent:
            return [name, f"the unknown parent of {group(name)}"]
        return [name, *line(parent[group(name)])]

    up, down = line(relative_of), line(person)
    ancestor = next(name for name in up if name in down)
    return NAMES[up.index(ancestor), down.index(ancestor)].split()[person in WOMEN]


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_the_answer_follows_from_the_facts(seed: int, steps: int) -> None:
    story = generate(1, (steps,), seed)[0]
    assert derived_answer(story.facts, story.person, story.relative_of) == story.answer


@given(st.integers(0, 10_000))
def test_every_fact_is_needed(seed: int) -> None:
    story = generate(1, (4,), seed)[0]
    for left_out in story.facts:
        people = {name for fact in story.facts if fact is not left_out for name in (fact.subject, fact.object)}
        reachable = {story.person}
        for _ in people:
            reachable |= {
                name
                for fact in story.facts
                if fact is not left_out and reachable & {fact.subject, fact.object}
                for name in (fact.subject, fact.object)
            }
        assert story.relative_of not in reachable


def test_words_agree_with_the_gender_of_the_name() -> None:
    for story in generate(200, (2, 3, 4), 1):
        for fact in story.facts:
            assert (fact.relation in {"mother", "sister", "daughter"}) == (fact.subject in WOMEN)
    assert not set(MEN) & set(WOMEN)


def test_a_story_reads_as_english() -> None:
    story = Story((Fact("Mary", "mother", "John"), Fact("Anna", "daughter", "John")), "Mary", "Anna", "grandmother", 2)
    assert str(story) == "Mary is the mother of John. Anna is the daughter of John. How is Mary related to Anna?"


def test_steps_come_in_equal_shares_and_answers_are_spread() -> None:
    stories = generate(3000, (2, 3, 4), 0)
    assert Counter(story.steps for story in stories) == {2: 1000, 3: 1000, 4: 1000}
    assert all(len(story.facts) == story.steps for story in stories)
    counts = Counter(story.answer for story in stories)
    assert set(counts) == set(ANSWERS)
    assert max(counts.values()) < 0.12 * len(stories)


def test_the_same_seed_gives_the_same_stories_and_another_seed_others() -> None:
    assert generate(20, (3,), 5) == generate(20, (3,), 5) != generate(20, (3,), 6)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("UP", (1, 0)),
        ("UP UP", (2, 0)),
        ("UP DOWN", (1, 1)),
        ("ACROSS", (1, 1)),
        ("ACROSS ACROSS", (1, 1)),
        ("UP ACROSS DOWN", (2, 2)),
        ("DOWN ACROSS", (0, 1)),
        ("ACROSS UP", (1, 0)),
        ("DOWN UP", None),
    ],
)
def test_a_path_amounts_to_generations_up_and_down(path: str, expected: tuple[int, int] | None) -> None:
    assert kin(tuple(FamilyStep[name] for name in path.split())) == expected
