"""The paper's numbers agree with each other where the paper says the same thing twice."""

from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.tables import paper_numbers as paper


def test_errors_add_up() -> None:
    *parts, total = paper.TABLE_7.values()
    for model in range(len(paper.TABLE_7_MODELS)):
        assert sum(int(part[model]) for part in parts) == int(total[model])


def test_what_stands_in_two_tables_is_the_same() -> None:
    best = next(row for row in paper.TABLE_1.rows if "DT-Fixup" in row[0])
    tests = {row[0]: row[-1] for row in paper.TABLE_3.rows if row[1] == "test"}
    devs = {row[0]: row[-1] for row in paper.TABLE_3.rows if row[1] == "dev"}
    assert best[1:] == (paper.TABLE_3_OURS[-1], tests["DT-Fixup SQL-SP"])
    assert paper.TABLE_1.rows[0][1:] == (devs["RAT-SQL"], tests["RAT-SQL"])
    longer = {row[0]: row[-1] for row in paper.TABLE_2.rows}
    assert [row[1] for row in paper.TABLE_1.rows[1:3]] == [longer["RAT-SQL + GraPPa"], longer["RAT-SQL + GAP"]]


def test_every_table_stands_under_an_experiment_and_is_whole() -> None:
    for name, tables in paper.BESIDE.items():
        assert name in EXPERIMENTS
        for table in tables:
            assert {len(row) for row in table.rows} == {len(table.headings)}
    assert len(paper.TABLE_3_OURS) == len(paper.LEVELS)
