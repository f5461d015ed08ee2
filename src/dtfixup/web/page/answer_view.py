"""The parts of an answer as the page shows them.

In: an `Answer`. Out: the question in highlighted pieces, what its words were linked to, SQL over several lines, and the
alternative queries.
"""

import re

from dtfixup.sql.ask.answers import Answer
from dtfixup.sql.ask.view import percent
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.linking.view import Mark, best_of_words, mark_of, name_of, printable
from dtfixup.web.page.pictures import clip

_MOST_LINKS = 8
_LONGEST_VALUE = 40
COLOURS = {Mark.VALUE: "#d97706", Mark.COLUMN: "#0f9488", Mark.TABLE: "#4f6bd8", Mark.PART: "#8b94a3"}
"""For light and for dark ground."""


def highlight(answer: Answer) -> list[tuple[str, Mark | None]]:
    """The question in pieces, each with its mark; together they are the question."""
    marks = best_of_words(answer.links)
    pieces: list[tuple[str, Mark | None]] = []
    end = 0
    for position, word in enumerate(answer.words):
        if (mark := marks.get(position)) is None or word.start < end:
            continue
        between, text = answer.question[end : word.start], answer.question[word.start : word.end]
        if pieces and pieces[-1][1] == mark and not between.strip():
            pieces[-1] = (pieces[-1][0] + between + text, mark)
        else:
            pieces += [(between, None)] if between else []
            pieces.append((text, mark))
        end = word.end
    if rest := answer.question[end:]:
        pieces.append((rest, None))
    return [(printable(text), mark) for text, mark in pieces]


def list_links(answer: Answer) -> list[tuple[str, str, Mark]]:
    """The links from left to right: the words, what they were linked to, and how."""
    marks, schema = best_of_words(answer.links), answer.schema
    targets = [(link.start, link.end, mark_of(link), name_of(link, schema)) for link in answer.links.names]
    for value in answer.links.values:
        if value.strength >= STRONG:
            target = f"{schema.qualified(value.column)} = {clip(value.value, _LONGEST_VALUE)}"
            targets.append((value.start, value.end, Mark.VALUE, target))
    shown: dict[tuple[str, str], tuple[int, Mark]] = {}
    for start, end, mark, target in targets:
        if any(marks.get(position) is mark for position in range(start, end)):
            words = answer.question[answer.words[start].start : answer.words[end - 1].end]
            shown.setdefault((printable(words), printable(target)), (start, mark))
    ordered = sorted(shown.items(), key=lambda item: item[1][0])
    return [(words, target, mark) for (words, target), (_, mark) in ordered][:_MOST_LINKS]


_BREAKS = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)"""
    r"|\s+(?=(?:FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|UNION|INTERSECT|EXCEPT|(?:LEFT |CROSS )?JOIN)\b)"
)


def break_lines(sql: str) -> str:
    r"""A query with a line for each clause; only blanks become line ends, so it means the same.

    >>> break_lines("SELECT a FROM b WHERE c = 'x FROM y'")
    "SELECT a\nFROM b\nWHERE c = 'x FROM y'"
    """
    return _BREAKS.sub(lambda match: match[1] if match[1] is not None else "\n", sql)


def list_alternatives(answer: Answer, sure_above: float) -> list[tuple[str, str]]:
    """The alternatives to choose from: the text shown, and the query."""
    return [(f"{percentage}  {printable(sql)}", sql) for sql, percentage in percentages(answer, sure_above).items()]


def percentages(answer: Answer, sure_above: float) -> dict[str, str]:
    """The probability of each query, in per cent."""
    return {query.sql: percent(query.probability, sure_above) for query in answer.alternatives}
