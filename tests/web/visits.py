"""The page as a visitor drives it, for the tests in a browser; `conftest.py` opens it."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.web.shops import QUESTION

Visit = Callable[..., Page]
HOSTILE = "<img src=x onerror=window.harmed=1>"
SCREEN = {"width": 1280, "height": 900}
expect.set_options(timeout=30_000)


def ask(page: Page, question: str = QUESTION, *, has_query: bool = True) -> None:
    """Ask, and wait for the query if there will be one."""
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    if has_query:
        expect(page.locator("#sql .cm-content")).to_contain_text("SELECT")


def run(page: Page, sql: str | None = None) -> None:
    """Run what the editor has, or what is written there instead."""
    if sql is not None:
        editor = page.locator("#sql .cm-content")
        editor.click()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.insert_text(sql)
        expect(editor).to_have_text(sql)
    page.get_by_role("button", name="Run", exact=True).click()


def choose(page: Page, name: str) -> None:
    page.get_by_label("Database").click()
    page.get_by_role("option", name=name).click()


def has_overflow(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
