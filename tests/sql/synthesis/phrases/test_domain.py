"""Entities are related over foreign keys, with the verbs of the word lists."""

from dtfixup.sql.synthesis.phrases.domain import Domain


def test_relations_have_their_verbs(domain: Domain) -> None:
    verbs = {
        (relation.child.noun.one, relation.parent.noun.one): relation.verb.past if relation.verb else None
        for relation in domain.relationships
    }
    assert verbs["order", "customer"] == "placed"
    assert ("order", "product") in verbs
    assert [(reference.entity.noun.one, reference.role) for reference in domain.self_references] == [
        ("employee", "manager")
    ]
