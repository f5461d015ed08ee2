"""Tables with everyday names are entities, and columns are known by what they hold."""

from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.entities import Kind
from tests.sql.shop import attribute_of, entity_of


def test_tables_that_people_name_are_entities(domain: Domain) -> None:
    assert [entity.noun.many for entity in domain.entities] == [
        "customers",
        "products",
        "orders",
        "order items",
        "employees",
    ]
    assert [entity.noun.one for entity in domain.entities if entity.is_person] == ["customer", "employee"]
    titles = {entity.noun.one: [title.noun.one for title in entity.titles] for entity in domain.entities}
    assert titles == {
        "customer": ["first name", "last name"],
        "product": ["name"],
        "order": [],
        "order item": [],
        "employee": ["name"],
    }


def test_columns_are_known_by_what_they_say(domain: Domain) -> None:
    product, order, customer = (entity_of(domain, name) for name in ("product", "order", "customer"))
    assert attribute_of(product, "price").quantity is not None
    assert attribute_of(product, "number of parts").counted == "parts"
    assert attribute_of(product, "number of parts").counted_one == "part"
    assert attribute_of(order, "status").kind is Kind.TEXT, "the code of words is no code"
    assert attribute_of(order, "date").kind is Kind.DATE
    assert attribute_of(customer, "active").flag == ("Y", "N")
    born = attribute_of(customer, "date of birth").time_verb
    assert born is not None
    assert born.passive == "born"
    assert not any(attribute.noun.one == "x7" for attribute in product.attributes), "nobody says x7"


def test_two_of_a_name_have_no_adjective(domain: Domain) -> None:
    product = entity_of(domain, "product")
    assert not attribute_of(product, "list price").has_adjective, "the cheapest by which price?"
    assert not attribute_of(product, "price").has_adjective
    assert attribute_of(product, "weight").has_adjective
