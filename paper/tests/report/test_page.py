"""The whole report: what is on the page, whose runs it shows, and that nothing in a file can harm."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.tables.cells import Budget, Setup
from playwright.sync_api import Browser

from dtfixup.sql.model.config import minilm
from paper.tests.made_up_results import cell, experiment, sql_config, write_result
from paper.tests.report_pages import Reader, build, depth_experiment, rows_of

HOSTILE = "</code></pre>\"'><script>harm()</script><img src=x onerror=harm()>`|*_"


def test_numbers_change_with_the_files(tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config("dt-fixup"), 70.0, seed=1)
    for value, mean in ((71.0, "70.5 ± 0.7"), (61.0, "65.5 ± 6.4")):
        write_result(tmp_path / "results", sql_config("dt-fixup"), value, seed=2)
        text = build(tmp_path, [depth_experiment()])
        assert "| standard | 19.37 ± 0.16 | not run yet<br>0 of 2 seeds · 16 epochs |" in text
        assert f"| dt-fixup | 73.79 ± 0.49 | **{mean}**<br>2 seeds · 16 epochs |" in text
        assert "\n2 of 4 runs are there." in text
        picture = (tmp_path / "report/figures/spider-depth.svg").read_text(encoding="utf-8")
        assert f"dt-fixup {mean[:4]} %" in picture


def test_a_hostile_file_can_do_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    fields = {"encoder": HOSTILE, "hardware": HOSTILE, "command": HOSTILE}
    write_result(results, sql_config(), 70.0, file="sql/minilm-seed1.json", metrics={"dev_exact_easy": 9}, **fields)
    change = {"runs": [{"change": HOSTILE, "epochs": HOSTILE, "held_out_exact": 3.0}], "command": HOSTILE}
    (results / "sql/held-out-seed1.json").write_text(json.dumps(change))
    (results / "measurements").mkdir()
    (results / f"measurements/relation-attention-seed{HOSTILE[-4:-2]}.json").write_text(
        json.dumps({**fields, "metrics": {"x": []}})
    )
    own = experiment("spider-depth", [cell(sql_config(), row=HOSTILE, column=HOSTILE)], title=HOSTILE, remark=HOSTILE)
    text = build(tmp_path, [own])
    assert Reader((tmp_path / "report" / "index.html").read_text(encoding="utf-8")).actions == []
    assert rows_of(text)[HOSTILE], "it is shown as it is"
    outside = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "harm()" in outside
    assert "<script" not in outside


def test_links_of_the_page_have_targets(tmp_path: Path) -> None:
    build(tmp_path, [depth_experiment()])
    page = Reader((tmp_path / "report" / "index.html").read_text(encoding="utf-8"))
    assert {f"#{name}" for name in page.ids} == set(page.links) > {"#spider-depth"}
    assert len(set(page.ids)) == len(page.ids)


def test_what_a_person_wrote_comes_first_and_may_be_missing(tmp_path: Path) -> None:
    agreement = tmp_path / "agreement.md"
    assert "Where we agree" not in build(tmp_path, [depth_experiment()])
    agreement.write_text("# Where\n\nDepth **pays**<!-- toy\nn8 -->.\n\n## Spider\n")
    text = build(tmp_path, [depth_experiment()], agreement=agreement)
    assert "Depth **pays**." in text
    assert "\n### Spider\n" in text, "below the section's own heading"
    assert re.findall('<a id="(.*?)">', text)[:2] == ["agreement", "spider-depth"]


@pytest.mark.parametrize("budget", list(Budget))
def test_all_registered_experiments_have_their_section(budget: Budget, tmp_path: Path) -> None:
    first = EXPERIMENTS["spider-depth"].cells(Setup(budget))[0]
    write_result(tmp_path / "results", first.config, 33.0, file=f"{first.path}-seed1.json")
    text = build(tmp_path, list(EXPERIMENTS.values()), budget=budget)
    assert set(EXPERIMENTS) <= set(re.findall('<a id="(.*?)">', text))
    assert all(f"dtfixup reproduce {name} --budget {budget}" in text for name in EXPERIMENTS)
    assert "**33.0**" in text
    assert "\n1 of " in text


def test_only_runs_of_the_encoder_are_shown(tmp_path: Path) -> None:
    depth = EXPERIMENTS["spider-depth"]
    deepest = depth.cells(Setup(Budget.GPU, "mpnet"))[-1]
    write_result(tmp_path / "results", deepest.config, 74.0, file=f"{deepest.path}-seed1.json")
    own, same, other = (build(tmp_path, [depth], encoder=encoder) for encoder in (None, "folder/minilm-fp16", "mpnet"))
    assert own == same, "it is the budget's own"
    assert rows_of(own)["N = 32"][-1].startswith("not run yet")
    assert rows_of(other)["N = 32"][-1].startswith("74.0")
    assert "**ours is mpnet, trained with the budget gpu**. The settings were chosen with MiniLM." in other


def test_the_python_of_its_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    write_result(tmp_path / "results", minilm(), 70.0, file="sql/minilm-seed1.json")
    exec(compile(program, "paper/README.md", "exec"), {"__name__": "documentation"})
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "| DT-Fixup | 73.79 | **70.0**<br>1 of 5 seeds · 28 epochs |" in text
    assert "dtfixup reproduce mine" not in text


SIZES = {"phone": {"width": 390, "height": 844}, "screen": {"width": 1280, "height": 900}}


@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("screen", "dark")])
def test_the_page_in_a_browser(browser: Browser, size: str, scheme: Literal["light", "dark"], tmp_path: Path) -> None:
    write_result(tmp_path / "results", sql_config(), 70.0)
    build(tmp_path, [depth_experiment()])
    page = browser.new_page(viewport=SIZES[size], color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "report" / "index.html").as_uri())
    assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth"), "wide tables scroll alone"
    ink, sheet = (
        sum(map(int, re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body).{name}"))[:3]))
        for name in ("color", "backgroundColor")
    )
    assert (ink < sheet) == (scheme == "light")
    assert page.get_by_role("img").first.is_visible()
    assert complaints == []
    page.close()
