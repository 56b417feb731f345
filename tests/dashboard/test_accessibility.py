"""axe-core finds nothing serious on the page: empty, live, dark, on a phone, with a tree and a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from fleet_for_pages import AGENTS, Dashboard
from opened_page import QUERY, button, opened_page, region

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.dashboard, pytest.mark.filterwarnings("default")]
WEIGHTY = ("serious", "critical")


@pytest.fixture(scope="module")
def faults() -> Callable[[Page], list[str]]:
    """Looks for faults on a page as it is now."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

    def found(page: Page) -> list[str]:
        violations = axe.Axe().run(page).response["violations"]
        return [
            f"{one['impact']}: {one['id']}: {place['html']}: {place['failureSummary']}"
            for one in violations
            if one["impact"] in WEIGHTY
            for place in one["nodes"]
        ]

    return found


@pytest.fixture(params=[(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], ids=str)
def page(browser: Browser, served: Dashboard, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, scheme = request.param
    with opened_page(browser, served, width, 844) as opened:
        opened.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield opened


def test_axe_finds_nothing_serious(page: Page, faults: Callable[[Page], list[str]]) -> None:
    page.get_by_text(f"{AGENTS} of {AGENTS} agents are well").wait_for()
    found = {"without a query": faults(page)}

    editor = page.get_by_label("Query in ELF QL")
    editor.fill("SELECT product FROM web GRUP BY product")
    button(page, "Run").click()
    page.get_by_role("alert").get_by_text("column 25").wait_for()
    found["with an error"] = faults(page)

    editor.fill(QUERY)
    button(page, "Run").click()
    region(page, "Result").get_by_text(f"{AGENTS} of {AGENTS} agents", exact=True).wait_for()
    region(page, "Result").get_by_role("img").get_by_text("shoes").wait_for()
    button(page, "Explain").click()
    page.locator("#query").get_by_text("At the master").wait_for()
    region(page, "Jobs").get_by_role("rowheader").first.wait_for()
    found["with a live query and its plan"] = faults(page)

    page.get_by_role("combobox", name="Job").select_option(index=1)
    button(page, "Tree").click()
    region(page, "Details of a job").get_by_role("rowheader", name="agent-").first.wait_for()
    found["with a tree"] = faults(page)

    button(page, "Stop job").click()
    page.get_by_text(re.compile(": stopped$")).wait_for()
    found["with a message"] = faults(page)
    page.get_by_text("no jobs").wait_for()
    assert {state: lines for state, lines in found.items() if lines} == {}
