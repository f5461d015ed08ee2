"""Restrictions by texts: what is, is not, is one of several; what begins, ends or contains.

In: a thing. Out: a `Restriction` on one of its texts, as people say such a value: `in Oslo`, `red`, `by Orwell`.
"""

import re

from dtfixup.sql.language.words import lemma
from dtfixup.sql.language.world import Topic, world
from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots
from dtfixup.sql.synthesis.phrases.descriptions import Restriction
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.numbers_said import MARKS
from dtfixup.sql.synthesis.phrases.queries import literal, quoted_text
from dtfixup.sql.synthesis.phrases.restricting import Restricting
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

_VALUE = re.compile(r"[^\W_][\w .,:/&'-]{0,38}[\w.]|[^\W_]")
_CODE = re.compile(r"[A-Z]{1,4}|.*\d.*|.*[_/@:].*")
_STATES = re.compile(r".+(?:ed|ing)|open|new|full|free|ready|late|good|bad")
_MOST_WORDS = 5
_WORDY = frozenset(
    ["description", "note", "text", "address", "email", "comment", "recommendation", "name", "title", "summary"]
)


class TextRestrictions(Restricting):
    """Restrictions by stored texts."""

    def value(self, thing: Thing) -> Restriction | None:
        attribute = self.pick(self.described_by(thing))
        value = self.sayable(attribute) if attribute is not None else None
        return self.value_of(attribute, thing, value) if attribute is not None and value is not None else None

    def value_of(self, attribute: Attribute, thing: Thing, value: str) -> Restriction | None:
        """Things that have a value."""
        slots = self.value_slots(attribute, thing, value, self.chance.choice(MARKS))
        return self.said("is", slots, attribute, f"{{}} = {literal(value)}", "value")

    def other_values(self, thing: Thing) -> Restriction | None:
        attribute = self.pick(self.described_by(thing))
        value = self.sayable(attribute) if attribute is not None else None
        if attribute is None or value is None:
            return None
        mark = self.chance.choice(MARKS)
        slots = self.value_slots(attribute, thing, value, mark)
        rule = self.chance.choice(("is not", "is one of", "is neither", "is one of"))
        one = literal(value)
        if rule == "is not":
            return self.said(rule, slots, attribute, f"{{}} != {one}", "other values")
        second = self.sayable(attribute)
        if second is None or second == value or len(attribute.held.values) < 3:
            return None
        more = self.value_slots(attribute, thing, second, mark)
        slots["w"] = more["v"]
        third = self.sayable(attribute)
        if rule == "is one of" and third not in (None, value, second) and len(attribute.held.values) > 4:
            assert third is not None
            slots["z"] = self.value_slots(attribute, thing, third, mark)["v"]
            texts = ", ".join(map(literal, (value, second, third)))
            return self.said("is one of three", slots, attribute, f"{{}} IN ({texts})", "other values")
        slots |= {"w_pred": more["v_pred"]} if "v_pred" in more else {}
        two = literal(second)
        if "in" in slots:
            slots |= {"neither_in": f"neither {slots['in']}", "w_in": f"{slots['in']} {slots['w']}"}
        condition = f"{{}} = {one} OR {{}} = {two}" if rule == "is one of" else f"{{}} != {one} AND {{}} != {two}"
        return self.said(rule, slots, attribute, condition, "other values")

    def described_by(self, thing: Thing) -> list[Attribute]:
        """The texts that things are told apart by, and not called by."""
        return [
            attribute
            for attribute in thing.of_kind(Kind.TEXT)
            if attribute not in thing.titles and attribute.noun.head not in _WORDY
        ]

    def sayable(self, attribute: Attribute) -> str | None:
        fitting = [value for value in attribute.held.values if is_sayable(value)]
        return self.chance.choice(fitting) if fitting else None

    def value_slots(self, attribute: Attribute, thing: Thing, value: str, mark: str) -> dict[str, str]:
        """How a value is said of a thing, in quotation marks or in none: `in Oslo`, `red`, `by Orwell`."""
        slots = attribute_slots(attribute, thing)
        said_of, head = lexicon().said_of, attribute.noun.head
        is_code = _CODE.fullmatch(value) is not None
        is_bare = len(attribute.noun.one.split()) == 1
        slots["v"] = value if is_code or not is_bare else f"{mark}{value}{mark}"
        adjective = self.adjective(attribute, value)
        if adjective is not None:
            slots["v_pred"] = adjective
            if attribute.noun.head not in ("type", "category", "kind"):
                slots["v_adj"] = adjective
        if is_code or not (is_bare or head in ("type", "category", "city", "state", "town")):
            return slots
        if head in said_of["from"] and (thing.is_person or head in ("nationality", "origin")):
            slots["from"] = "from"
        if head in said_of["in"] and head not in ("nationality", "origin", "hometown"):
            if thing.is_person and head in ("city", "country", "state", "town", "county", "region", "residence"):
                slots |= {"living_in": "<live|lives> in", "live_in": "live in"}
            elif head in ("venue", "location") and thing.is_event:
                slots["in"] = "at" if head == "venue" else "in"
            elif head not in ("headquarters", "headquarter", "area"):
                slots |= {"in": "in", "located": "located in"}
            else:
                slots["in"] = "based in"
        if head in said_of["by"]:
            slots["by"] = "by"
        if head == "type" and is_bare:
            slots["v_type"] = slots["v"]
        if head == "category" and is_bare:
            slots["v_category"] = slots["v"]
        return slots

    def adjective(self, attribute: Attribute, value: str) -> str | None:
        """A value as an adjective: `female`, `French`, `red`, `cancelled`."""
        if attribute.noun.head not in lexicon().said_of["adjective"] and attribute.noun.head != "country":
            return None
        if attribute.noun.head in ("gender", "sex"):
            return {"f": "female", "m": "male"}.get(
                value.lower(), value.lower() if value.lower() in ("female", "male") else None
            )
        if attribute.noun.head in ("nationality", "country", "citizenship"):
            for concept in world().phrases.get(" ".join(map(lemma, value.split())), ()):
                if concept.topic is Topic.COUNTRY and len(concept.forms) > 1:
                    return concept.forms[1]
            return None
        if not value.isalpha() or len(value) < 3 or value.isupper():
            return None
        if attribute.noun.head == "status" and not _STATES.fullmatch(value.lower()):
            return None
        return value.lower()

    def pattern(self, thing: Thing) -> Restriction | None:
        """A part of a text; mostly of what things are called."""
        texts = [*thing.titles, *thing.titles, *self.described_by(thing)]
        attribute = self.pick([found for found in texts if found.kind is Kind.TEXT and len(found.held.values) > 3])
        value = self.sayable(attribute) if attribute is not None else None
        if attribute is None or value is None:
            return None
        rule, pattern = self.chance.choice(
            (("starts", "{}%"), ("ends", "%{}"), ("contains", "%{}%"), ("not contains", "%{}%"), ("not starts", "{}%"))
        )
        part = self.part_of(value, rule)
        if part is None:
            return None
        name = attribute.noun.one
        if attribute in thing.titles and len(thing.titles) == 1:
            name = "title" if attribute.noun.head == "title" else "name"
        mark = self.chance.choice(MARKS if len(part) > 1 else ("", '"', "'"))
        said = f"{mark}{part}{mark}"
        slots = {"v": said, "name": name, "a_name": f"a {name}"}
        if len(part) == 1:
            slots["v_letter"] = said
            slots["v"] = said if rule == "starts" else self.chance.choice(("the letter ", "an ", "")) + said
        else:
            slots["v_text"] = said
        if attribute in thing.titles and len(thing.titles) == 1:
            slots["v_title"] = slots["v"]
        negated = "NOT LIKE" if rule.startswith("not") else "LIKE"
        return self.said(rule, slots, attribute, f"{{}} {negated} {quoted_text(pattern.format(part))}", "pattern")

    def part_of(self, value: str, rule: str) -> str | None:
        words = [word for word in re.findall(r"[^\W\d_]+", value) if len(word) > 2]
        if not words:
            return None
        is_letter = self.chance.random() < 0.5
        if rule in ("starts", "not starts"):
            part = value[0] if is_letter else value[:2] if self.chance.random() < 0.3 else words[0]
            return part if value.startswith(part) and part.isalpha() else None
        if rule == "ends":
            part = value[-1] if is_letter else value[-2:] if self.chance.random() < 0.3 else words[-1]
            return part if value.endswith(part) and part.isalpha() else None
        if is_letter:
            return self.chance.choice(self.chance.choice(words).lower())
        return self.chance.choice(words)


def is_sayable(value: str) -> bool:
    """Whether a stored value can stand in a question."""
    return _VALUE.fullmatch(value) is not None and len(value.split()) <= _MOST_WORDS and "  " not in value
