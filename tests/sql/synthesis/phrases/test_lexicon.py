"""The word lists."""

import pytest

from dtfixup.errors import ConfigError
from dtfixup.sql.synthesis.phrases.lexicon import lexicon, read_lexicon


def test_word_lists_hang_together() -> None:
    known = lexicon()
    assert all(verb.base and verb.participle for verb in known.verbs.values())
    assert not known.people & known.not_entities, "nobody asks for rows that are no things"
    with pytest.raises(ConfigError, match="word lists of the phrase book: KeyError"):
        read_lexicon("people: [customer]")
