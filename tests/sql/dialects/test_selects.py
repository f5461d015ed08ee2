"""Whole SELECTs with names of the user's that look like made-up ones."""

import pytest

from tests.sql.sample_servers import Both


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT key_1 FROM pets ORDER BY age DESC",
        "SELECT DISTINCT key_1, kind FROM pets WHERE key_1 > 1 ORDER BY id ASC LIMIT 3",
        "SELECT DISTINCT kind, count(*) FROM pets GROUP BY kind ORDER BY max(id) ASC",
        "SELECT DISTINCT kind FROM pets ORDER BY tame DESC, id ASC",
        "SELECT DISTINCT T1.name, T2.name FROM pets AS T1 JOIN keepers AS T2 ON T1.id = T2.id ORDER BY T1.age ASC",
        "SELECT place, max(age) FROM pets GROUP BY place ORDER BY max(age) DESC",
        "SELECT place, name, min(age) FROM pets WHERE age > 0 GROUP BY place ORDER BY min(age) ASC",
        "SELECT T1.name, T2.name, T1.kind, max(T1.age) FROM pets AS T1 JOIN keepers AS T2 ON T1.id = T2.id "
        "GROUP BY T1.name, T2.name ORDER BY T1.name ASC",
        "SELECT T2.name, T1.kind, max(T1.age) FROM pets AS T1 JOIN keepers AS T2 ON T1.id = T2.id "
        "GROUP BY T1.name, T2.name ORDER BY T1.name ASC",
        "SELECT name FROM pets UNION SELECT name FROM keepers INTERSECT SELECT name FROM keepers",
    ],
)
def test_made_up_names_are_not_the_users(sql: str, farm: Both) -> None:
    expected, found = farm.compare(sql)
    names = [[name.lower().partition("(")[0] for name in each.columns] for each in (expected, found)]
    assert names[0] == names[1]
