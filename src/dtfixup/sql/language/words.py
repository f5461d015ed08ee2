"""Words of a question and of schema names, with their lemmas.

In: any text. Out: `Word`s with character offsets. Every character that is not white space belongs to exactly one word;
punctuation marks are words too, so the sequence still shows where a quotation begins and ends.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import simplemma
from rapidfuzz import fuzz, process


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written and its lower-case lemma; `text == question[start:end]`."""

    text: str
    lemma: str
    start: int
    end: int

    @property
    def is_mark(self) -> bool:
        """Whether this is punctuation or a symbol rather than a word or number."""
        return not any(map(str.isalnum, self.text))


_WORD = re.compile(
    r"""
      [\w.+-]{1,64}@\w[\w-]{0,63}(?:\.\w[\w-]{0,63})+       # an e-mail address
    | \d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?![\w-])             # a date
    | \d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?!\w)             # a time of day
    | \d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)                   # a number with thousands separators
    | \d+\.\d+(?!\w|\.\d)                                  # a decimal number
    | [^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+\b\.?               # an acronym: U.S., Ph.D, p.m.
    | [^\W_]+?(?=n['\u2019]t\b)                            # does|n't
    | n['\u2019]t\b
    | (?<=\w)['\u2019](?:s|re|ve|ll|d|m)\b                 # singer|'s
    | (?:[^\W_][\u0300-\u036f]*)+
    | ``|''                                                # typewriter quotes
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def split_words(question: str) -> tuple[Word, ...]:
    """Split a text into words.

    >>> [word.text for word in split_words("Which singer's songs cost $1,000.50 or 5%?")]
    ['Which', 'singer', "'s", 'songs', 'cost', '$', '1,000.50', 'or', '5', '%', '?']
    >>> [word.lemma for word in split_words("cities in pop-rock")]
    ['city', 'in', 'pop', '-', 'rock']
    """
    return tuple(
        Word(match.group(), lemma(match.group()), match.start(), match.end()) for match in _WORD.finditer(question)
    )


@lru_cache(maxsize=65536)
def lemma(word: str) -> str:
    """The lower-case dictionary form of an English word; an unknown word only loses its plural s.

    The singular of a plural is looked up again, so that both give the same lemma:

    >>> [lemma(word) for word in ("paintings", "painting", "mechanics", "schoolers", "wives", "founded")]
    ['paint', 'paint', 'mechanic', 'schooler', 'wife', 'found']
    """
    lowered = word.lower().replace("\u2019", "'")
    form = _form(lowered)
    return _form(form) if lowered == f"{form}s" else form


def _form(word: str) -> str:
    """The dictionary form of a lower-case word. It may have a dictionary form of its own."""
    if word in _FORMS:
        return _FORMS[word]
    if not word.isalpha():
        return word
    for spelling in (word, word.capitalize()):  # the dictionary knows "Koreans" only with its capital
        form = simplemma.lemmatize(spelling, lang="en").lower()
        if form != word:
            return form
    is_plural = word.endswith("s") and not word.endswith(_SINGULAR) and (word.endswith("ics") or not is_english(word))
    return word[:-1] if is_plural and len(word) > _MAX_UNCUT else word


@lru_cache(maxsize=65536)
def is_english(word: str) -> bool:
    """Whether the dictionary knows the word; a word it does not know may be a typing mistake."""
    return bool(simplemma.is_known(word.lower(), lang="en"))


def closest_word(word: str, vocabulary: Sequence[str]) -> str | None:
    """The word of `vocabulary` that a mistyped word stands for; None if none is near or the word is too short to tell.

    >>> closest_word("carribean", ["caribbean", "carribou"]), closest_word("cta", ["cat"])
    ('caribbean', None)
    """
    if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS:
        return None
    best = process.extractOne(word, vocabulary, scorer=fuzz.ratio, score_cutoff=_MIN_RATIO)
    return best[0] if best else None


_MIN_LETTERS, _MAX_LETTERS = 5, 60  # of a word or phrase that is corrected
_MIN_RATIO = 83.0  # rapidfuzz's ratio in per cent: one letter in six, or two that changed places


@lru_cache(maxsize=65536)
def name_lemmas(name: str) -> tuple[str, ...]:
    """The lemmas of a schema item's natural name, without punctuation.

    >>> name_lemmas("Stadium IDs (old)")
    ('stadium', 'id', 'old')
    """
    return tuple(word.lemma for word in split_words(name) if not word.is_mark)


def runs(words: Sequence[Word], longest: int) -> Iterator[tuple[int, int, list[Word]]]:
    """Runs of up to `longest` words, longest first, without the marks between them: the span `start:end` and the words.

    >>> [(start, end) for start, end, _ in runs(split_words("New York, please"), 2)]
    [(0, 2), (1, 4), (0, 1), (1, 2), (3, 4)]
    """
    unmarked = [(position, word) for position, word in enumerate(words) if not word.is_mark]
    positions = [position for position, _ in unmarked]
    plain = [word for _, word in unmarked]
    for length in range(min(longest, len(plain)), 0, -1):
        for first in range(len(plain) - length + 1):
            yield positions[first], positions[first + length - 1] + 1, plain[first : first + length]


def quoted_spans(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Spans `start:end` of words between quotation marks of any style; the apostrophe of `singers' songs` is not one.

    >>> quoted_spans(split_words("the word 'Hey' or “you”"))
    [(3, 4), (7, 8)]
    """
    spans = []
    opened: list[tuple[tuple[str, ...], int]] = []  # closing marks, first word inside
    for position, word in enumerate(words):
        is_after_space = position == 0 or words[position - 1].end < word.start
        is_before_space = position + 1 == len(words) or word.end < words[position + 1].start
        closed = [inside for closing, inside in opened if word.text in closing and inside < position]
        if closed and (is_before_space or not is_after_space):
            spans.append((closed[-1], position))
            opened = [(closing, inside) for closing, inside in opened if inside < closed[-1]]
        elif word.text in _QUOTES and (is_after_space or words[position - 1].is_mark):
            opened = [*opened[-_MAX_OPEN:], (_QUOTES[word.text], position + 1)]
    return sorted(spans)


_MAX_OPEN = 8  # quotes open at once; an apostrophe may open one that never closes
_QUOTES = {
    '"': ('"', "\u201d"),
    "'": ("'", "\u2019"),
    "''": ("''",),
    "`": ("`", "'"),
    "``": ("``", "''"),
    "\u201c": ("\u201d", '"'),
    "\u2018": ("\u2019", "'"),
    "\u2019": ("\u2019", "'"),
    "\u00ab": ("\u00bb",),
    "\u201e": ("\u201c", "\u201d"),
}


def begins_sentence(words: Sequence[Word], position: int) -> bool:
    """Whether the word begins a sentence, where a capital carries no meaning."""
    return position == 0 or words[position - 1].text in (".", "?", "!", ";", ":")


def is_stop_word(word: Word) -> bool:
    return word.lemma in STOP_WORDS or word.text.lower() in STOP_WORDS


@lru_cache(maxsize=65536)
def compact(text: str) -> str:
    """The letters and digits of a text, lower-case and without accents, by which spellings are compared.

    >>> compact("Tokyo , Japan"), compact("Ph.D."), compact("Café-Bar")
    ('tokyojapan', 'phd', 'cafebar')
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    return _MARKS.sub("", text).lower()


_MARKS = re.compile(r"[\W_]+")


_FORMS = {
    **{"n't": "not", "'s": "'s", "'re": "be", "'m": "be", "'ve": "have"},
    **{"sales": "sale", "savings": "saving", "earnings": "earning", "people": "person", "wives": "wife"},
    **{"shelves": "shelf", "halves": "half", "calves": "calf", "loaves": "loaf", "thieves": "thief", "lenses": "lens"},
}
"""Words that the dictionary leaves as they are or takes for verbs: questions about the table `sale` say sales."""
_SINGULAR = ("ss", "us", "is")
_MAX_UNCUT = 3  # letters; shorter words keep their s

_STOP_WORDS = """
    a about above after all also am an and any are as at be because been before being below between both but by can
    did display do does doing down during each every few find for from further get give had has have having he
    her here hers him his how i if in into is it its itself just let list many may me might more most much must my no
    nor not of off on once one only or other our out over own per please return same shall she should show so some
    such tell than that the their them themselves then there these they this those through to too under until up us
    very was we were what when where whether which while who whom whose why will with within without would you
    your 's
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that link to a schema only as part of a longer phrase."""
