"""An answer as the page shows it.

In: an `Answer`. Out: the question in pieces with what each says, what the words were linked to, SQL over several lines,
and the alternatives in words.
"""

import re

from dtfixup.sql.ask.answers import Answer
from dtfixup.sql.ask.view import percent
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.linking.view import Mark, best_of_words, mark_of, name_of, printable
from dtfixup.web.page.pictures import clipped

_MOST_NOTES = 8
_LONGEST_VALUE = 40


COLOURS = {Mark.VALUE: "#d97706", Mark.COLUMN: "#0f9488", Mark.TABLE: "#4f6bd8", Mark.PART: "#8b94a3"}
"""For light and for dark ground."""


def pieces(answer: Answer) -> list[tuple[str, str | None]]:
    """The question cut where marks begin and end; put together again, it is the question."""
    marks = best_of_words(answer.links)
    found: list[tuple[str, str | None]] = []
    end = 0
    for place, word in enumerate(answer.words):
        if (mark := marks.get(place)) is None or word.start < end:
            continue
        is_same = found and found[-1][1] == mark and not answer.question[end : word.start].strip()
        between = answer.question[end : word.start]
        if is_same:
            found[-1] = (found[-1][0] + between + answer.question[word.start : word.end], mark)
        else:
            found += [(between, None)] if between else []
            found.append((answer.question[word.start : word.end], mark))
        end = word.end
    if rest := answer.question[end:]:
        found.append((rest, None))
    return [(printable(text), mark) for text, mark in found]


def notes(answer: Answer) -> list[tuple[str, str, Mark]]:
    """What was linked, from left to right: the words, what they stand for, and how."""
    marks = best_of_words(answer.links)
    found: dict[tuple[str, str], tuple[int, Mark]] = {}
    for start, end, mark, target in _targets(answer):
        if any(marks.get(place) is mark for place in range(start, end)):
            words = answer.question[answer.words[start].start : answer.words[end - 1].end]
            found.setdefault((printable(words), printable(target)), (start, mark))
    ordered = sorted(found.items(), key=lambda item: item[1][0])
    return [(words, target, mark) for (words, target), (_, mark) in ordered][:_MOST_NOTES]


def _targets(answer: Answer) -> list[tuple[int, int, Mark, str]]:
    schema = answer.schema
    found = [(link.start, link.end, mark_of(link), name_of(link, schema)) for link in answer.links.names]
    found += [
        (
            link.start,
            link.end,
            Mark.VALUE,
            f"{schema.qualified(link.column)} = {clipped(link.value, _LONGEST_VALUE)}",
        )
        for link in answer.links.values
        if link.strength >= STRONG
    ]
    return found


_BREAKS = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)"""
    r"|\s+(?=(?:FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|UNION|INTERSECT|EXCEPT|(?:LEFT |CROSS )?JOIN)\b)"
)


def laid_out(sql: str) -> str:
    r"""A query with a line for each clause; only blanks become line ends, so it means the same.

    >>> laid_out("SELECT a FROM b WHERE c = 'x FROM y'")
    "SELECT a\nFROM b\nWHERE c = 'x FROM y'"
    """
    return _BREAKS.sub(lambda match: match[1] if match[1] is not None else "\n", sql)


def choices(answer: Answer, sure_above: float) -> list[tuple[str, str]]:
    """The alternatives as a list to choose from: what is shown, and the query."""
    return [(f"{share}  {printable(sql)}", sql) for sql, share in shares(answer, sure_above).items()]


def shares(answer: Answer, sure_above: float) -> dict[str, str]:
    """How likely each query is, in per cent."""
    return {each.sql: percent(each.probability, sure_above) for each in answer.alternatives}
