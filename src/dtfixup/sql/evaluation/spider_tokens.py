"""The words of SQL text as Spider's official evaluation script splits them.

In: the text of a query. Out: its tokens, or `SqlError` if a quote is not closed.
"""

import re

from dtfixup.errors import SqlError

_QUOTE_MARKS = re.compile(r"[\u00ab\u201c\u2018\u201e]|`{1,2}")
_FINAL_PERIOD = re.compile(r"(?<=[^.])\.(?=[\])}>\u00bb\u201d\u2019 ]*+\s*$)")
_SENTENCE_END = re.compile(r"\b(\d+)\.(?=[)}\]*@({\[]|\s+[^\sa-z;:,.!?])")
_SEPARATOR = re.compile(r"[:,](?:\D|$)")
_PADDED = re.compile(r"\.{2,}|--|[;@#$%&?!*\[\](){}<>\u00bb\u201d\u2019\u2012-\u2015]")
_CONTRACTION = re.compile(r"(?i)\b(?:cannot|gimme|gonna|gotta|lemme|wanna(?=\s|$))(?!\w)")


def tokenize(text: str) -> list[str]:
    """Words in lower case, and strings in double quotes with their case.

    This follows NLTK's `word_tokenize`, which is made for English prose: hence the contractions and the full stops
    that end a sentence. Of its sentence splitter only the rule for numbers is here, since any other word before a full
    stop is unreadable in any case.

    >>> tokenize("SELECT T1.Name FROM t WHERE a >= 5 AND b = 'x Y'")[5:]
    ['a', '>=', '5', 'and', 'b', '=', '"x Y"']
    >>> tokenize("a=1,2")
    ['a=1,2']
    """
    pieces = text.replace("'", '"').split('"')
    if len(pieces) % 2 == 0:
        raise SqlError(f"a quote is not closed: {text}")
    strings: dict[str, str] = {}
    for position in range(1, len(pieces), 2):
        # The mask is one word, so a string glued to other text becomes part of that word, which is then unknown.
        mask = f"__val_{position}__"
        strings[mask] = f'"{pieces[position]}"'
        pieces[position] = mask
    words = _pad("".join(pieces)).lower().split()
    words = [strings.get(word, word) for word in words]
    tokens: list[str] = []
    for word in words:
        if word == "=" and tokens and tokens[-1] in ("!", ">", "<"):
            tokens[-1] += "="
        else:
            tokens.append(word)
    return tokens


def _pad(text: str) -> str:
    """Put white space around everything that is a separate word."""
    text = _QUOTE_MARKS.sub(r" \g<0> ", text)
    text = _SENTENCE_END.sub(r"\1 . ", text)
    text = _FINAL_PERIOD.sub(" . ", text)
    text = _SEPARATOR.sub(lambda match: f" {match[0][0]} {match[0][1:]}", text)
    text = _PADDED.sub(r" \g<0> ", text)
    # Every contraction in the list is split after its third letter.
    return _CONTRACTION.sub(lambda match: f" {match[0][:3]} {match[0][3:]} ", text)
