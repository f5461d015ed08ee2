"""A shop with customers, orders, products and staff: enough columns for every construct of the phrase book."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, write_tables_json
from dtfixup.sql.synthesis.phrases.domain import Domain, read_domain
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity
from tests.sql.described import described

NUMBER, TEXT, TIME, BOOLEAN = ColumnType.NUMBER, ColumnType.TEXT, ColumnType.TIME, ColumnType.BOOLEAN

SCHEMA: Schema = assemble(
    "shop",
    [
        Table("customer", "customer"),
        Table("product", "product"),
        Table("orders", "orders"),
        Table("order_items", "order items"),
        Table("employee", "employee"),
        Table("has_read", "has read"),
    ],
    [
        [
            ("customer_id", "customer id", NUMBER),
            ("first_name", "first name", TEXT),
            ("last_name", "last name", TEXT),
            ("city", "city", TEXT),
            ("date_of_birth", "date of birth", TIME),
            ("active", "active", TEXT),
        ],
        [
            ("product_id", "product id", NUMBER),
            ("product_name", "product name", TEXT),
            ("color", "color", TEXT),
            ("price", "price", NUMBER),
            ("weight", "weight", NUMBER),
            ("num_of_parts", "num of parts", NUMBER),
            ("list_price", "list price", NUMBER),
            ("x7", "x7", NUMBER),
        ],
        [
            ("order_id", "order id", NUMBER),
            ("customer_id", "customer id", NUMBER),
            ("order_date", "order date", TIME),
            ("status_code", "status code", TEXT),
        ],
        [
            ("order_id", "order id", NUMBER),
            ("product_id", "product id", NUMBER),
            ("quantity", "quantity", NUMBER),
        ],
        [
            ("employee_id", "employee id", NUMBER),
            ("name", "name", TEXT),
            ("salary", "salary", NUMBER),
            ("manager_id", "manager id", NUMBER),
            ("hire_date", "hire date", TIME),
            ("end_date", "end date", TIME),
        ],
        [("customer_id", "customer id", NUMBER), ("product_id", "product id", NUMBER)],
    ],
    [["customer_id"], ["product_id"], ["order_id"], [], ["employee_id"], []],
    [
        ((2, ["customer_id"]), (0, ["customer_id"])),
        ((3, ["order_id"]), (2, ["order_id"])),
        ((3, ["product_id"]), (1, ["product_id"])),
        ((5, ["customer_id"]), (0, ["customer_id"])),
        ((5, ["product_id"]), (1, ["product_id"])),
    ],
)

_FIRST = ("Anna", "Boris", "Clara", "Dario", "Elsa", "Farid", "Greta", "Hugo", "Ines", "Jonas")
_LAST = ("Reed", "Holm", "Costa", "Moreau", "Novak", "Silva", "Brandt", "Okoye", "Larsen", "Petit")
_CITIES = ("Oslo", "Turin", "Bergen")
_PRODUCTS = (
    "Amber Lamp",
    "Birch Table",
    "Copper Kettle",
    "Denim Sofa",
    "Elm Chair",
    "Felt Rug",
    "Glass Vase",
    "Hemp Bag",
)


def _rows() -> dict[str, list[tuple[object, ...]]]:
    return {
        "customer": [
            (row, _FIRST[row], _LAST[row], _CITIES[row % 3], f"{1960 + 3 * row}-0{1 + row % 9}-1{row}", "YN"[row % 2])
            for row in range(10)
        ],
        "product": [
            (
                row,
                _PRODUCTS[row],
                ("red", "blue")[row % 2],
                12 + 25 * row,
                2.5 * row + 1,
                3 + row % 4,
                20 + 26 * row,
                row,
            )
            for row in range(8)
        ],
        "orders": [
            (row, row % 7, f"20{15 + row % 5}-0{1 + row % 8}-0{1 + row % 6}", ("Delivered", "Cancelled")[row % 2])
            for row in range(20)
        ],
        "order_items": [(row % 20, row % 8, 1 + row % 5) for row in range(40)],
        "employee": [(row, f"{_FIRST[row]} {_LAST[9 - row]}", 2000 + 350 * row, *_work(row)) for row in range(8)],
        "has_read": [(row % 10, row % 8) for row in range(20)],
    }


def _work(row: int) -> tuple[object, ...]:
    """Whom an employee reports to, since when, and until when: half of them still work."""
    return row // 3 if row else None, f"200{row}-05-1{row}", None if row % 2 else f"201{row}-03-0{row + 1}"


def make_shop(folder: Path) -> Dataset:
    """The database, and one question about it, as a folder in Spider's layout."""
    write_tables_json([SCHEMA], folder / "tables.json")
    path = folder / "database" / "shop" / "shop.sqlite"
    path.parent.mkdir(parents=True)
    kinds = {NUMBER: "REAL", TEXT: "TEXT", TIME: "TEXT"}
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in zip(SCHEMA.tables, SCHEMA.columns_of, strict=True):
            declared = [f"{SCHEMA.columns[own].name} {kinds[SCHEMA.columns[own].type]}" for own in columns[1:]]
            connection.execute(f"CREATE TABLE {table.name} ({', '.join(declared)})")
            marks = ", ".join("?" * len(declared))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", _rows()[table.name])
        connection.commit()
    row = {"db_id": "shop", "question": "How many customers are there?", "query": "SELECT count(*) FROM customer"}
    (folder / "train.json").write_text(json.dumps([row]))
    return open_dataset(folder)


def shop_domain(dataset: Dataset) -> Domain:
    return read_domain(described(dataset, "shop"), dataset.database_file("shop"))


def entity_of(domain: Domain, name: str) -> Entity:
    return next(entity for entity in domain.entities if entity.noun.one == name)


def attribute_of(entity: Entity, name: str) -> Attribute:
    return next(attribute for attribute in entity.attributes if attribute.noun.one == name)
