"""A small reasoning task in English: how are two people related, given facts about others?

"Mary is the mother of John. Anna is the daughter of John. ... How is Mary related to Anna?" The answer follows only
from all facts together; a story of n facts has n steps. The facts come in any order and in either direction, so they
must be composed.
"""

import random
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import product

MEN = (
    "James", "John", "Robert", "Michael", "William", "David", "Richard", "Joseph", "Thomas", "Charles",
    "Daniel", "Matthew", "Anthony", "Mark", "Donald", "Steven", "Paul", "Andrew", "Kenneth", "George",
)  # fmt: skip
WOMEN = (
    "Mary", "Patricia", "Jennifer", "Linda", "Elizabeth", "Barbara", "Susan", "Jessica", "Sarah", "Karen",
    "Nancy", "Lisa", "Margaret", "Sandra", "Ashley", "Emily", "Donna", "Michelle", "Carol", "Amanda",
)  # fmt: skip


class FamilyStep(Enum):
    """One move in a family, from a person to a relative."""

    UP = "parent"
    ACROSS = "sibling"
    DOWN = "child"


_WORDS = {
    FamilyStep.UP: ("father", "mother"),
    FamilyStep.ACROSS: ("brother", "sister"),
    FamilyStep.DOWN: ("son", "daughter"),
}
_REVERSE = {FamilyStep.UP: FamilyStep.DOWN, FamilyStep.ACROSS: FamilyStep.ACROSS, FamilyStep.DOWN: FamilyStep.UP}

# (generations up to the common ancestor, generations down from there) -> words for a man and a woman.
_KIN = {
    (1, 0): ("father", "mother"),
    (0, 1): ("son", "daughter"),
    (1, 1): ("brother", "sister"),
    (2, 0): ("grandfather", "grandmother"),
    (0, 2): ("grandson", "granddaughter"),
    (2, 1): ("uncle", "aunt"),
    (1, 2): ("nephew", "niece"),
    (2, 2): ("cousin", "cousin"),
    (3, 0): ("great-grandfather", "great-grandmother"),
    (0, 3): ("great-grandson", "great-granddaughter"),
}
ANSWERS = tuple(sorted({word for pair in _KIN.values() for word in pair}))


@dataclass(frozen=True)
class Fact:
    """`subject` is the `relation` of `object`."""

    subject: str
    relation: str
    object: str

    def __str__(self) -> str:
        return f"{self.subject} is the {self.relation} of {self.object}."


@dataclass(frozen=True)
class Story:
    """Facts in any order, two people, and how the first is related to the second."""

    facts: tuple[Fact, ...]
    person: str
    relative_of: str
    answer: str
    steps: int

    @property
    def question(self) -> str:
        return f"How is {self.person} related to {self.relative_of}?"

    def __str__(self) -> str:
        return " ".join((*map(str, self.facts), self.question))


def kin(path: tuple[FamilyStep, ...]) -> tuple[int, int] | None:
    """Generations up and down along a path of steps; None if the path leaves the kinship open.

    A step across counts only at the top of the path: a parent's sibling is new, a sibling's parent
    is one's own parent.

    >>> kin((FamilyStep.UP, FamilyStep.ACROSS))
    (2, 1)
    >>> kin((FamilyStep.ACROSS, FamilyStep.UP))
    (1, 0)
    """
    downs = [index for index, step in enumerate(path) if step is FamilyStep.DOWN]
    ups = [index for index, step in enumerate(path) if step is FamilyStep.UP]
    if ups and downs and downs[0] < ups[-1]:
        return None  # a child's other parent may be anyone
    first_down = downs[0] if downs else len(path)
    last_up = ups[-1] if ups else -1
    top = int(FamilyStep.ACROSS in path[last_up + 1 : first_down])
    return len(ups) + top, len(downs) + top


def generate(count: int, steps: tuple[int, ...], seed: int) -> list[Story]:
    """Stories with equal shares of each number of steps, and answers as even as the steps allow."""
    stream = random.Random(seed)
    stories = []
    for index in range(count):
        length = steps[index % len(steps)]
        target = stream.choice(sorted({kind for kind in _KIN if _paths(length, kind)}))
        stories.append(_story_of(stream.choice(_paths(length, target)), stream))
    stream.shuffle(stories)
    return stories


@cache
def _paths(length: int, kind: tuple[int, int]) -> list[tuple[FamilyStep, ...]]:
    """Every path of this length with this kinship."""
    return [path for path in product(FamilyStep, repeat=length) if kin(path) == kind]


def _story_of(path: tuple[FamilyStep, ...], stream: random.Random) -> Story:
    """Choose people along a path, and state each step in one of its two directions."""
    people = stream.sample(MEN + WOMEN, len(path) + 1)
    facts = []
    for step, person, relative in zip(path, people, people[1:], strict=False):
        if stream.random() < 0.5:
            facts.append(Fact(relative, _WORDS[step][relative in WOMEN], person))
        else:
            facts.append(Fact(person, _WORDS[_REVERSE[step]][person in WOMEN], relative))
    stream.shuffle(facts)
    up_down = kin(path)
    assert up_down is not None  # _paths gives only paths with a certain kinship
    answer = _KIN[up_down][people[-1] in WOMEN]
    return Story(tuple(facts), people[-1], people[0], answer, len(path))
