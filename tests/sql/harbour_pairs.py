"""A small database, and pairs over it that a tiny model can learn: queries of two kinds, each over many cities."""

import csv
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from dtfixup.sql.finetune.task import FinetuneConfig
from dtfixup.training.config import changed

CITIES = [
    "Vienna",
    "Linz",
    "Krems",
    "Passau",
    "Ulm",
    "Graz",
    "Melk",
    "Tulln",
    "Baden",
    "Steyr",
    "Wels",
    "Enns",
    "Lienz",
    "Bregenz",
    "Bludenz",
    "Villach",
    "Hallein",
    "Kufstein",
    "Schwaz",
    "Leoben",
    "Mistelbach",
    "Gmunden",
    "Zwettl",
    "Amstetten",
]
PAIRS = [
    pair
    for city in CITIES
    for pair in (
        (f"Which harbours are in {city}?", f"SELECT name FROM harbour WHERE city = '{city}'"),
        (f"How many harbours does {city} have?", f"SELECT count(*) FROM harbour WHERE city = '{city}'"),
    )
]
BERTHS = [(city, part) for city in CITIES for part in ("North", "South")]
CONFIG = changed(
    FinetuneConfig(beam=2),
    {"training": {"epochs": 14, "log_every": 1, "checkpoint_steps": 20, "update": {"learning_rate": 4e-3}}},
)
"""Higher rate and more epochs than a trained model needs: this one knows nothing yet."""


def changed_training(**changes: object) -> FinetuneConfig:
    return replace(CONFIG, training=replace(CONFIG.training, **changes))


def make_harbours(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE harbour (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        rows = [(f"{city} {part}", city) for city, part in BERTHS]
        connection.executemany("INSERT INTO harbour (name, city) VALUES (?, ?)", rows)
        connection.commit()
    return path


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]] = PAIRS) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "sql"])
        writer.writerows(pairs)
    return path
