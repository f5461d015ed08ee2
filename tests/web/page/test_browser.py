"""The page in a real browser, with a small model and with all other machines out of reach."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, expect

from tests.sql.asked import tiny_run
from tests.web.processes import Served, serving
from tests.web.shops import NO_LINK, QUESTION, SCRIPT, make_shop
from tests.web.test_server import until
from tests.web.visits import HOSTILE, Visit, ask, choose, has_overflow, run

PHONE = {"width": 390, "height": 844}


def test_ask_sql_run_rows(visit: Visit) -> None:
    page = visit()
    ask(page)
    expect(page.locator("#pieces")).to_contain_text("How many")
    expect(page.locator("#links")).to_contain_text("pets → pets")
    run(page)
    expect(page.locator("#ran .count")).to_contain_text("row")
    run(page, "SELECT name, age FROM pets WHERE age > 0")
    expect(page.locator("#rows")).to_contain_text("Rex")
    expect(page.locator("#chart .bars")).to_contain_text("Tom")
    page.locator("#sql").get_by_role("button", name="copy").click()
    until(lambda: "age > 0" in page.evaluate("navigator.clipboard.readText()"))


def test_a_question_to_begin_with_is_asked_by_a_click(visit: Visit) -> None:
    page = visit()
    choose(page, "river ferry")
    chip = page.locator(".chip").first
    expect(chip).to_contain_text("?")
    question = chip.inner_text()
    chip.click()
    expect(page.get_by_label("Question")).to_have_value(question)
    expect(page.locator("#pieces")).to_contain_text(question.split()[-1].rstrip("?"))
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")


def test_alternatives_can_be_chosen_and_history_recalls(visit: Visit) -> None:
    page = visit()
    ask(page)
    alternatives = page.locator("#choices label")
    if not alternatives.first.is_visible():
        page.get_by_role("button", name="Alternatives").click()
    expect(alternatives.nth(1)).to_be_visible()
    second = " ".join(alternatives.nth(1).inner_text().partition("%")[2].split())
    alternatives.nth(1).click()
    until(lambda: " ".join(page.locator("#sql .cm-content").inner_text().split()) == second)
    ask(page, "Which owners are in Vienna?")
    expect(page.locator("#pieces")).to_contain_text("Vienna")
    page.get_by_role("button", name="History").click()
    page.locator("#recall label").nth(1).click()
    expect(page.get_by_label("Question")).to_have_value(QUESTION)
    expect(page.locator("#pieces")).to_contain_text("How many")


def test_another_database_begins_with_an_empty_page(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    (tmp_path / "letter.db").write_text("Dear database,")
    page.locator("input[type=file]").set_input_files(tmp_path / "letter.db")
    expect(page.locator("#notice [role=alert]")).to_contain_text("not a SQLite database")
    expect(page.get_by_label("Database")).to_have_value("shop")
    choose(page, "hostile")
    expect(page.locator("#notice [role=alert]")).to_have_count(0)
    choose(page, "shop")
    expect(page.locator("#schema svg:visible")).to_contain_text("pets")
    ask(page)
    run(page, "SELECT name, age FROM pets WHERE age > 0")
    expect(page.locator("#chart .bars")).to_contain_text("Tom")
    choose(page, "hostile")
    expect(page.get_by_label("Question")).to_have_value("")
    expect(page.locator("#answer")).to_be_hidden()
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_role("button", name="History").click()
    page.locator("#recall label").first.click()  # it chooses a database too, and its answer stays
    expect(page.get_by_label("Database")).to_have_value("shop")
    expect(page.locator("#schema svg:visible")).to_contain_text("pets")
    expect(page.get_by_label("Question")).to_have_value(QUESTION)
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")
    expect(page.locator("#rows")).to_have_count(0)


def test_what_comes_after_the_choice_is_not_shown(visit: Visit) -> None:
    page = visit()
    ask(page)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
    with page.expect_response("**/queue/join*"):  # until then it has no number, and Gradio cannot cancel it by one
        run(page, endless)
    choose(page, "hostile")
    expect(page.get_by_label("Question")).to_have_value("")
    ask(page, f"How many {HOSTILE} are there?")
    expect(page.locator("#pieces")).to_contain_text("img src=x")
    page.wait_for_timeout(8_000)  # longer than a query may take
    expect(page.locator("#ran [role=alert]")).to_have_count(0)


def test_how_sure_the_model_is_stands_beside_the_query(visit: Visit) -> None:
    page = visit()
    ask(page)
    expect(page.locator("#share")).to_have_text(re.compile(r"^\s*\d+ % likely, says the model\s*$"))
    expect(page.locator("#notice")).to_contain_text("Not sure.")
    second = page.locator("#choices label").nth(1)
    expect(second).to_be_visible()  # since it is not sure
    share = f"{second.inner_text().partition('%')[0].strip()} %"
    second.click()
    expect(page.locator("#share b")).to_have_text(share)
    editor = page.locator("#sql .cm-content")
    editor.click()
    page.keyboard.type(" ")
    expect(page.locator("#share")).to_be_hidden()  # nobody knows how likely that is


def test_history_calls_an_upload_by_its_name(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    page.locator("input[type=file]").set_input_files(make_shop(tmp_path / f"{HOSTILE}.db"))
    expect(page.get_by_label("Database")).to_have_value(re.compile(r"\(uploaded\)$"))
    ask(page, f"How many pets {HOSTILE}?")
    page.get_by_role("button", name="History").click()
    expect(page.locator("#recall label").first).to_contain_text(
        f"How many pets {HOSTILE}? · img src=x onerror=window.harmed=1.db"  # Gradio takes such signs out of names
    )
    assert page.locator("#recall img").count() == 0
    assert page.evaluate("window.harmed") is None


def test_refusals_and_guesses_are_said(visit: Visit) -> None:
    page = visit()
    ask(page, NO_LINK, has_query=False)
    expect(page.locator("#notice")).to_contain_text("No link to this database.")
    expect(page.locator("#sql .cm-content")).to_have_text("")
    run(page)
    expect(page.locator("#ran")).to_contain_text("no query to run")
    run(page, "DELETE FROM pets")
    expect(page.locator("#ran [role=alert]")).to_contain_text("Refused: DELETE is not a query")
    ask(page, "   ", has_query=False)
    expect(page.locator("#notice [role=alert]")).to_contain_text("The question is empty")


def test_an_upload_is_asked_and_goes_with_its_visitor(visit: Visit, served: Served, tmp_path: Path) -> None:
    before = served.uploads()
    page = visit()
    with closing(sqlite3.connect(make_shop(tmp_path / "zoo.db", SCRIPT.replace("pets", "lions")))):
        page.locator("input[type=file]").set_input_files(tmp_path / "zoo.db")
    expect(page.get_by_label("Database")).to_have_value("zoo.db (uploaded)")
    expect(page.locator("#schema svg:visible")).to_contain_text("lions")
    assert len(served.uploads()) == len(before) + 1
    ask(page, "How many lions are there?")
    expect(page.locator("#pieces")).to_contain_text("lions")
    run(page, "SELECT count(*) FROM lions")
    expect(page.locator("#rows")).to_contain_text("3")
    page.close()
    until(lambda: served.uploads() == before)


def test_a_damaged_file_costs_neither_the_last_one_nor_the_answer(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    good = make_shop(tmp_path / "good.sqlite")
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(good.read_bytes()[:100] + b"rubbish" * 1000)
    page.locator("input[type=file]").set_input_files(good)
    expect(page.get_by_label("Database")).to_have_value("good.sqlite (uploaded)")
    ask(page)
    page.locator("input[type=file]").set_input_files(damaged)
    expect(page.locator("#notice")).to_contain_text("amaged.sqlite")
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")
    run(page, "SELECT name FROM pets WHERE age = 7")
    expect(page.locator("#rows")).to_contain_text("Tom")


def test_history_of_an_upload_that_is_gone_says_so(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    for name in ("first", "second"):
        page.locator("input[type=file]").set_input_files(make_shop(tmp_path / f"{name}.sqlite"))
        expect(page.get_by_label("Database")).to_have_value(f"{name}.sqlite (uploaded)")
        ask(page)
    page.get_by_text("History").click()
    page.locator("#recall label").filter(has_text="first.sqlite").click()
    expect(page.locator("#notice")).to_contain_text("first.sqlite is no longer here")
    expect(page.get_by_label("Database")).to_have_value("second.sqlite (uploaded)")


def test_the_form_for_the_token_lets_a_browser_in(browser: Browser, tmp_path: Path) -> None:
    with serving(tiny_run(), tmp_path / "temporary", "--host", "0.0.0.0") as running:
        url, _, token = running.url.partition("?token=")
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        for given in ("wrong", token):
            page.locator("input[name=token]").fill(given)
            page.get_by_role("button").click()
            if given == "wrong":
                expect(page.get_by_role("alert")).to_contain_text("That is not the token")
        expect(page.get_by_label("Question")).to_be_visible()
        context.close()


def test_what_a_database_says_is_never_run(visit: Visit) -> None:
    page = visit()
    choose(page, "hostile")
    expect(page.locator("#schema svg:visible")).to_contain_text("<img")
    ask(page, f"How many {HOSTILE} are there?")
    expect(page.locator("#pieces")).to_contain_text("img src=x")
    run(page, f'SELECT *, 1 AS "{HOSTILE}2" FROM "{HOSTILE}" UNION SELECT \'b\', 2')
    expect(page.locator("#rows")).to_contain_text("<img")
    expect(page.locator("#chart")).to_contain_text("<img")
    assert page.evaluate("window.harmed") is None


def test_everything_can_be_done_by_keyboard(visit: Visit) -> None:
    page = visit()
    page.get_by_label("Question").focus()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "run":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#ran .count")).to_contain_text("row")


def test_a_phone_shows_all_of_it(visit: Visit) -> None:
    page = visit(PHONE)
    assert page.evaluate("getComputedStyle(document.querySelector('.picture.wide')).display") == "none"
    ask(page)
    run(page, "SELECT * FROM pets, owners")
    expect(page.locator("#rows")).to_contain_text("Rex")
    assert not has_overflow(page)
    size = page.evaluate(
        "(() => { const text = document.querySelector('.narrow svg .column'); return 13 * text.getScreenCTM().a; })()"
    )
    assert size >= 11  # pixels of a column's name


_LIGHT = """[...document.querySelectorAll('body, #schema svg .box')].map((part) => {
  const style = getComputedStyle(part);
  const colour = part.tagName === 'BODY' ? style.backgroundColor : style.fill;
  return colour.match(/\\d+/g).slice(0, 3).reduce((sum, value) => sum + Number(value), 0) / 765;
})"""
"""How light the page and the tables of the diagram are, from 0 to 1."""


def test_dark_mode_is_dark(visit: Visit) -> None:
    for scheme, is_dark in (("dark", True), ("light", False)):
        page = visit(scheme=scheme)
        ask(page)
        light = page.evaluate(_LIGHT)
        assert all((value < 0.3) is is_dark for value in light), light


def test_pages_of_other_sites_cannot_use_it(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto("data:text/html,<title>another site</title>")
    tried = "fetch(%r, {method: 'POST', mode: 'no-cors', body: '{}'}).then(answer => answer.status, () => 'refused')"
    assert page.evaluate(tried % f"{served.url}api/v1/run") in (0, "refused")
    with pytest.raises(Error):
        page.evaluate(f"fetch('{served.url}api/v1/databases').then(answer => answer.json())")
    context.close()


def test_the_editor_runs_its_query_by_keyboard(visit: Visit) -> None:
    page = visit()
    ask(page)
    editor = page.locator("#sql .cm-content")
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("SELECT name FROM pets WHERE age = 7")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ran .count [role=status]")).to_have_text("1 row.")
    expect(page.locator("#rows")).to_contain_text("Tom")
    expect(editor).to_have_text("SELECT name FROM pets WHERE age = 7")  # and no line more
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("SELECT name FROM pets WHERE age = 70")
    page.keyboard.press("Meta+Enter")
    expect(page.locator("#ran .count")).to_have_text("No rows: nothing in the database fits.")


def test_rows_can_be_saved(visit: Visit) -> None:
    page = visit()
    ask(page)
    run(page, "SELECT name, age / 9.0 AS share FROM pets ORDER BY id")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as CSV").click()
    assert saved.value.suggested_filename == "rows.csv"
    text = saved.value.path().read_text(encoding="utf-8-sig")
    lines = text.splitlines()
    assert (lines[0], len(lines), lines[3]) == ("name,share", 4, "Mia,")
    name, share = lines[1].split(",")
    assert (name, float(share)) == ("Rex", 3 / 9.0), "every figure, where the table has six"


def test_rows_belong_to_the_query_above_them(visit: Visit) -> None:
    page = visit()
    ask(page)
    slow = "SELECT count(*) FROM pets a, pets b, pets c, pets d, pets e, pets f, pets g, pets h, pets i, pets j, pets k"
    run(page, f"{slow}, pets l, pets m, pets n")
    ask(page, "Show the names of all owners")
    expect(page.locator("#pieces")).to_contain_text("owners")
    page.wait_for_timeout(6000)  # the query would have ended, or been ended, by now
    expect(page.locator("#ran")).not_to_contain_text("row")
    expect(page.locator("#ran")).not_to_contain_text("Stopped")


def test_the_last_of_two_quick_questions_is_answered(visit: Visit) -> None:
    page = visit()
    ask(page)
    page.get_by_label("Question").fill("Show the city of each owner")
    page.get_by_label("Question").press("Enter")
    page.get_by_label("Question").fill("Which pets are there?")
    page.get_by_label("Question").press("Enter")
    expect(page.locator("#pieces")).to_contain_text("Which")


def test_a_new_run_is_not_sorted_like_the_last(visit: Visit) -> None:
    page = visit()
    ask(page)
    run(page, "SELECT name, age FROM pets WHERE age > 0 ORDER BY age")
    first = page.locator("#rows [data-testid=cell-0-0] span")
    expect(first).to_have_text("Rex")
    page.locator("#rows [data-testid=header-1]").click()  # sorts, or opens the menu that does
    run(page, "SELECT name, age FROM pets WHERE age > 0 ORDER BY age DESC")
    expect(first).to_have_text("Tom")
    expect(page.locator("#rows [data-testid=cell-1-0] span")).to_have_text("Rex")


def test_large_numbers_are_exact(visit: Visit) -> None:
    page = visit()
    ask(page)
    run(page, "SELECT 9223372036854775807 AS large FROM pets WHERE age = 7")
    expect(page.locator("#rows")).to_contain_text("9223372036854775807")


def test_the_first_query_can_be_had_back(visit: Visit) -> None:
    page = visit()
    ask(page)
    editor = page.locator("#sql .cm-content")
    expect(editor).to_contain_text("SELECT")
    before = editor.text_content() or ""
    if not page.locator("#choices").is_visible():  # open where the model is unsure
        page.get_by_text("Alternatives").click()
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("SELECT 1 FROM pets")
    expect(page.locator("#choices input:checked")).to_have_count(0)  # none of them is in the editor
    page.locator("#choices label").first.click()
    expect(editor).to_have_text(before)


def test_numbers_are_short_and_stand_to_the_right(visit: Visit) -> None:
    page = visit()
    ask(page)
    run(page, "SELECT pets.name, age / 9.0, city FROM pets JOIN owners ON owner = owners.id")
    number = page.locator("#rows [data-testid=cell-0-1] span")
    expect(number).to_have_text("0.333333")
    for column, is_right in ((0, False), (1, True), (2, False)):
        for part in ("header", "cell-0"):
            wide, gap = page.locator(f"#rows [data-testid={part}-{column}]").evaluate(
                """(cell) => { const text = document.createRange();
                text.selectNodeContents(cell.querySelector("span"));
                const outside = cell.getBoundingClientRect();
                return [outside.width, text.getBoundingClientRect().left - outside.left]; }"""
            )
            assert (gap > wide / 3) is is_right, (column, part, gap, wide)


_TOKENS = """[...document.querySelectorAll("#sql .cm-line, #sql .cm-line span")].map((part) => {
  let ground = part;
  while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
  const [ink, paper] = [getComputedStyle(part).color, getComputedStyle(ground).backgroundColor].map((colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255);
    const linear = parts.map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05;
  });
  return [part.textContent, Math.max(ink, paper) / Math.min(ink, paper)];
})"""
"""The words of the editor, each with its contrast as WCAG counts it."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_editor_can_be_read(visit: Visit, scheme: str) -> None:
    page = visit(scheme=scheme)
    ask(page)
    run(page, """SELECT T1.name, date, avg(age) / 1.5, "city", NULL FROM pets AS T1 WHERE name <> 'x' /* so */""")
    found = page.evaluate(_TOKENS)
    assert {".name", "/", "1.5", "NULL", "'x'", "/* so */", "FROM"} <= {text for text, _ in found}
    assert [(text, contrast) for text, contrast in found if contrast < 4.5] == []
