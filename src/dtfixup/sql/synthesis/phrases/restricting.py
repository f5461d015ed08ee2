"""What all ways of restricting things share: the database, the book, a stream of chance, and how a column is told."""

import random
from collections.abc import Mapping, Sequence

from dtfixup.sql.synthesis.phrases.book import Book
from dtfixup.sql.synthesis.phrases.descriptions import Restriction
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.things import Attribute


class Restricting:
    """Says restrictions over one database."""

    def __init__(self, domain: Domain, book: Book, chance: random.Random) -> None:
        self.domain, self.book, self.chance = domain, book, chance

    def pick(self, attributes: Sequence[Attribute]) -> Attribute | None:
        return self.chance.choice(attributes) if attributes else None

    def said(
        self, rule: str, slots: Mapping[str, str], attribute: Attribute, condition: str, construct: str
    ) -> Restriction | None:
        """A restriction whose condition has `{}` for the column."""
        said = self.book.say(rule, slots, self.chance)
        if said is None:
            return None
        return Restriction(
            said,
            lambda query, at: condition.replace("{}", query.column(attribute.column, at)),
            construct,
            attribute.column,
        )
