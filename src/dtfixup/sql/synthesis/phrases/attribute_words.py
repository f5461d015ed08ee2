"""How attributes are named in the slots of the book, alone and in pairs, and how a yes or no is said.

In: an `Attribute`. Out: slots.
"""

import re
from itertools import combinations

from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing


def is_rank(attribute: Attribute) -> bool:
    return attribute.quantity is not None and attribute.quantity.is_order


def attribute_slots(attribute: Attribute, thing: Thing) -> dict[str, str]:
    """How an attribute is named, with its unit where another has the same name."""
    noun = attribute.noun
    same = [other for other in thing.attributes if other.noun.one == noun.one]
    tail = f" in {attribute.unit}" if len(same) > 1 and attribute.unit else ""
    one = noun.one + tail
    return {
        "attr": one,
        "attr_n": noun.many + tail,
        "an_attr": one if noun.is_plural else f"a {one}",
        "is": "are" if noun.is_plural else "is",
        "exceeds": "exceed" if noun.is_plural else "exceeds",
        "does": "do" if noun.is_plural else "does",
        "their": "their" if thing.is_person else "<their|its>",
        **({} if noun.is_plural else {"attr1": one}),
    }


_ALIKE = 20
"""How many times as many there may be of one thing as of another that it is compared with: votes and seats are not."""
_ADJECTIVES = re.compile(r".+(?:ed|able|ible|ive|ful|less|time|male)")
_OPPOSITES = {"available": "unavailable", "active": "inactive", "registered": "unregistered", "full time": "part time"}


def flag_slots(attribute: Attribute) -> dict[str, str] | None:
    """How a yes or no is said: `active`, `on scholarship`, `where pets are allowed`."""
    words = attribute.noun.one.split()
    if words[0] == "amount" and len(words) > 1:
        words = words[1:]
    said = " ".join(words)
    if words[0] in ("on", "in", "at"):
        return {"flag_post": said}
    if words[-1] == "allowed" and len(words) > 1:
        what = " ".join(words[:-1])
        return {"flag_clause": f"{what} are allowed", "flag_clause_off": f"{what} are not allowed"}
    if words[0].endswith("ed") and len(words) > 1:
        return {"flag_pred": f"<were|was> {said}", "flag_pred_off": f"<were|was> not {said}", "flag_post": said}
    if _ADJECTIVES.fullmatch(said) and len(words) < 3:
        opposite = {"flag_un": _OPPOSITES[said]} if said in _OPPOSITES else {}
        return {"flag_adj": said, **opposite}
    return None


def comparable_pairs(thing: Thing) -> list[tuple[Attribute, Attribute]]:
    """Columns of one kind that measure the same: amounts paid and due, start and end."""
    return [
        (one, other)
        for one, other in combinations(thing.attributes, 2)
        if one.kind is other.kind and _is_comparable(one, other)
    ]


def _is_comparable(one: Attribute, other: Attribute) -> bool:
    if one.noun.one == other.noun.one or not {"date", "year"}.isdisjoint((one.noun.one, other.noun.one)):
        return False
    if one.kind in (Kind.DATE, Kind.YEAR):
        if any(found.happening is not None and found.happening.passive == "born" for found in (one, other)):
            return False
        return one.held.date_form == other.held.date_form and (one.held.date_form or "YYYY").startswith("YYYY")
    if one.kind is Kind.COUNTED:
        large, small = sorted((max(found.numbers, default=0.0) for found in (one, other)), reverse=True)
        return 0 < large <= _ALIKE * small
    if one.kind is Kind.NUMBER:
        are_money = all(found.quantity is not None and found.quantity.is_money for found in (one, other))
        units = {(found.unit, found.noun.one.partition(" in ")[2]) for found in (one, other)}
        return len(units) == 1 and not is_rank(one) and (one.noun.head == other.noun.head or are_money)
    if one.kind is Kind.TEXT and one.noun.head != "name":
        return (
            len(one.noun.one.split()) > 1
            and one.noun.head == other.noun.head
            and bool(set(one.held.values) & set(other.held.values))
        )
    return False


def pair_slots(one: Attribute, other: Attribute) -> dict[str, str]:
    """Two columns by their names."""
    return {
        "one": one.noun.one,
        "other": other.noun.one,
        "one_n": one.noun.many,
        "other_n": other.noun.many,
        "is": "are" if one.noun.is_plural else "is",
        "exceeds": "exceed" if one.noun.is_plural else "exceeds",
        "does": "do" if one.noun.is_plural else "does",
        **({"one_c": one.counted, "other_c": other.counted} if one.counted and other.counted else {}),
    }
