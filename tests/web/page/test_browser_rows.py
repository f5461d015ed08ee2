"""The editor and the rows of its query, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.web.visits import Visit, ask, run


def test_the_editor_runs_its_query_by_keyboard(visit: Visit) -> None:
    page = visit()
    ask(page)
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")
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
    expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")
    run(page, """SELECT T1.name, date, avg(age) / 1.5, "city", NULL FROM pets AS T1 WHERE name <> 'x' /* so */""")
    found = page.evaluate(_TOKENS)
    assert {".name", "/", "1.5", "NULL", "'x'", "/* so */", "FROM"} <= {text for text, _ in found}
    assert [(text, contrast) for text, contrast in found if contrast < 4.5] == []
