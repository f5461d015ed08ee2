"""What the words of schemas mean in everyday English, read from `lexicon.yaml`, which explains its format."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from dtfixup.errors import ConfigError
from dtfixup.sql.language.words import lemma


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number measures, and the words that compare it."""

    name: str
    words: frozenset[str]
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    most: str | None = None
    least: str | None = None
    how: str | None = None
    """`how old` asks for it."""
    verb: tuple[str, str] | None = None
    """Plural and singular: they `cost` 5, it `costs` 5."""
    unit: str | None = None
    counted: str | None = None
    """What the number counts: the inhabitants of a population."""
    is_money: bool = False
    is_judged: bool = False
    is_order: bool = False
    """Whether it is a rank: the lowest is the best, and sums mean nothing."""


@dataclass(frozen=True, slots=True)
class TimeVerb:
    """What happened at a time: it was `built`, it `opened`."""

    words: frozenset[str]
    passive: str | None = None
    active: str | None = None
    base: str | None = None
    pending: str | None = None
    """The state while the time is missing: a case without a closing date is `still open`."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What rows of one table do with those of another: orders are `placed by` customers, who `placed` them."""

    passive: str
    past: str
    base: str
    participle: str


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All word lists, named as in `lexicon.yaml`, which explains them."""

    people: frozenset[str]
    owned: frozenset[str]
    held: frozenset[str]
    events: frozenset[str]
    numbers: Mapping[str, tuple[str, str]]
    not_entities: frozenset[str]
    dropped_words: frozenset[str]
    not_words: frozenset[str]
    nouns_in_ing: frozenset[str]
    no_measures: frozenset[str]
    places: frozenset[str]
    abbreviations: Mapping[str, str]
    quantities: tuple[Quantity, ...]
    neutral: frozenset[str]
    units: Mapping[str, str]
    scales: Mapping[str, str]
    time_verbs: tuple[TimeVerb, ...]
    text_forms: Mapping[str, frozenset[str]]
    doers: Mapping[str, str]
    optional: frozenset[str]
    verbs: Mapping[tuple[str, str], Verb]
    """By the head nouns of the table acted on and of the acting table."""
    bridge_words: Mapping[str, frozenset[str]]
    superiors: Mapping[str, str]


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The bundled word lists, read once."""
    return read_lexicon(files("dtfixup.sql.synthesis.phrases").joinpath("lexicon.yaml").read_text(encoding="utf-8"))


def read_lexicon(text: str) -> Lexicon:
    """Read word lists in the format of `lexicon.yaml`."""
    rows = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        verb_forms = rows.pop("verb_forms")
        lists: dict[str, Any] = rows | {
            "numbers": {word: _pair(forms) for word, forms in rows["numbers"].items()},
            "quantities": tuple(_quantity(name, entry) for name, entry in rows["quantities"].items()),
            "time_verbs": tuple(_time_verb(entry) for entry in rows["time_verbs"]),
            "text_forms": {form: frozenset(words) for form, words in rows["text_forms"].items()},
            "verbs": {_last_two(pair): _verb(forms, verb_forms) for pair, forms in rows["verbs"].items()},
            "bridge_words": {past: frozenset(words) for past, words in rows["bridge_words"].items()},
        }
        lists |= {name: frozenset(words) for name, words in lists.items() if isinstance(words, list)}
        return Lexicon(**lists)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"word lists of the phrase book: {type(error).__name__}: {error}") from None


def _pair(forms: str) -> tuple[str, str]:
    first, second = forms.split("/")
    return first, second


def _last_two(pair: str) -> tuple[str, str]:
    *_, acted_on, acting = pair.split()
    return lemma(acted_on), lemma(acting)


def _verb(forms: str, verbs: Mapping[str, str]) -> Verb:
    passive, past = _pair(forms)
    base, _, participle = verbs[past].partition("/")
    return Verb(passive, past, base, participle or past)


def _quantity(name: str, entry: Mapping[str, Any]) -> Quantity:
    read: dict[str, Any] = dict(entry)
    read |= {key: tuple(entry[key]) for key in ("more", "less") if key in entry}
    if "verb" in entry:
        read["verb"] = _pair(entry["verb"])
    return Quantity(name, **read | {"words": frozenset(entry["words"])})


def _time_verb(entry: Mapping[str, Any]) -> TimeVerb:
    active, base = _pair(entry["active"]) if "active" in entry else (None, None)
    return TimeVerb(frozenset(entry["words"]), entry.get("passive"), active, base, entry.get("pending"))
