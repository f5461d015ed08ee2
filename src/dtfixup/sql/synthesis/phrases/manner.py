"""The manner of a question: asked or demanded, polite or terse, with a capital and a mark or without, after small talk.

In: what is asked for, as the book says it. Out: a whole question.
"""

import random

from dtfixup.sql.synthesis.phrases.book import Book, Said, tidy

_SMALL_TALK = 0.05
_LOWER_START = 0.15
_NO_MARK = 0.2
_WRAPPED = ("N", "n", "A", "a", "w")


def put(said: Said, book: Book, chance: random.Random, *, is_person: bool = False, is_number: bool = False) -> str:
    """A whole question; `is_person` tells whether it asks for a `who`, `is_number` whether for what is computed."""
    text, kind = said.many(), said.kind
    if kind in _WRAPPED:
        slots = {"it": text, "it_person" if is_person else "it_thing": text}
        slots |= {"it_number": text} if is_number else {}
        wrapped = book.say(f"wrap {kind}", slots, chance)
        assert wrapped is not None
        text, kind = wrapped.many(), wrapped.kind
    talk = book.say("small talk", {}, chance) if chance.random() < _SMALL_TALK else None
    if talk is not None:
        text = f"{talk.text}{chance.choice((': ', ', ', '. ', ' - '))}{text}"
        if ". " in text[: len(talk.text) + 2]:
            head, _, rest = text.partition(". ")
            text = f"{head}. {_capital(rest)}"
    if chance.random() >= _LOWER_START:
        text = _capital(text)
    if chance.random() >= _NO_MARK:
        text += "?" if kind == "?" else "." if chance.random() < 0.5 else ""
    return tidy(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
