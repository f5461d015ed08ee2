"""Values for templates: a stored value that a question can contain.

In: the need of a template and the values of a column. Out: a literal. Bounds are rounded as people round them, and
patterns are as long as the source's.
"""

import random
import re
from collections.abc import Sequence

from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import split_words
from dtfixup.sql.synthesis.templates.template import Form, ValueNeed

_VALUE = re.compile(r"[^\W_][\w .,:/&-]{0,38}[\w.]|[^\W_]")
_MOST_WORDS = 5


def choose_value(need: ValueNeed, stored: Sequence[str], chance: random.Random) -> Literal | None:
    """A literal for a need, if there is one; `stored` are the values of the column that it is compared with."""
    if need.form is Form.CONSTANT:
        return need.literal if need.column is None or need.literal.text in stored else None
    if need.form is Form.COUNT:
        return Literal(str(chance.randint(2, 10)), need.literal.kind)
    if need.literal.kind is ValueKind.NUMBER:
        return _choose_number(need, stored, chance)
    fitting = [value for value in stored if _VALUE.fullmatch(value) and len(value.split()) <= _MOST_WORDS]
    if need.form in (Form.WHOLE, Form.BOUND):
        if plain_number(need.literal.text) is None:
            fitting = [value for value in fitting if plain_number(value) is None]
        return Literal(chance.choice(fitting), need.literal.kind) if fitting else None
    text = _part_of(chance.choice(fitting), need, chance) if fitting else None
    return Literal(text, need.literal.kind) if text else None


def _choose_number(need: ValueNeed, stored: Sequence[str], chance: random.Random) -> Literal | None:
    numbers = [number for value in stored if (number := plain_number(value)) is not None and len(number) <= 12]
    if not numbers:
        return None
    text = chance.choice(numbers)
    if need.form is Form.BOUND and "." not in need.literal.text:
        ordered = sorted(map(float, numbers))
        low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
        is_years = low >= 1500 and high < 2100
        size = abs(float(text))
        if not is_years and high - low > 20 and size >= 20:
            unit = 10 ** (len(str(int(size))) - chance.choice((1, 2)))
            rounded = round(float(text) / unit) * unit
            if low <= rounded <= high:
                text = str(int(rounded))
    return Literal(text, need.literal.kind)


def _part_of(value: str, need: ValueNeed, chance: random.Random) -> str | None:
    """A letter, a few letters or a word of a stored value, as many as the source's pattern had."""
    words = [word.text for word in split_words(value) if word.text.isalpha()]
    if not words:
        return None
    length = len(need.literal.text)
    match need.form:
        case Form.BEGINS:
            text = value[:length] if length < 3 else words[0]
        case Form.ENDS:
            text = value[-length:] if length < 3 else words[-1]
        case _:
            word = chance.choice(words)
            start = chance.randrange(max(1, len(word) - length + 1))
            text = word[start : start + length] if length < 3 else word
    is_usable = text.isalpha() and (length < 3 or len(text) > 2)
    if need.literal.text.islower() and need.form is Form.CONTAINS:
        text = text.lower()
    return text if is_usable else None
