"""The page in a real Chromium, with eight agents behind it: `make test-dashboard`.

    ELF_SCREENSHOTS=docs/images make test-dashboard

writes pictures of the page, on a desk and on a phone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from fleet_for_pages import AGENTS, Dashboard
from opened_page import QUERY, button, opened_page, region

from elf.demo.agents.agents import AgentFleet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.slow, pytest.mark.dashboard, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(browser: Browser, served: Dashboard) -> Iterator[Page]:
    with opened_page(browser, served) as opened:
        yield opened


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("ELF_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder, name)), full_page=True)


def result(page: Page) -> Locator:
    return region(page, "Result")


def test_a_query_its_live_chart_a_killed_agent_explain_and_stop(page: Page, fleet: AgentFleet) -> None:
    """The way of a user, by keyboard alone."""
    page.get_by_text(f"{AGENTS} of {AGENTS} agents are well").wait_for()
    editor = page.get_by_label("Query in ELF QL")
    editor.focus()
    page.keyboard.insert_text(QUERY)
    page.keyboard.press("Control+Enter")
    result(page).get_by_text(f"{AGENTS} of {AGENTS} agents", exact=True).wait_for()
    rows = page.get_by_role("region", name="Rows of the newest window")
    rows.get_by_role("rowheader", name="hats").wait_for()
    assert rows.get_by_text("<b>coats</b>\\x1b[31m").is_visible(), "what logs say is text, and no markup"
    chart = result(page).get_by_role("img", name="chart of n, 3 groups")
    chart.get_by_text("shoes").wait_for()
    before = page.locator("#result").inner_text()
    page.wait_for_function("before => document.getElementById('result').innerText != before", arg=before)

    fleet.kill("agent-5")
    result(page).get_by_text(f"{AGENTS - 1} of {AGENTS} agents · missing agent-5").wait_for()
    page.get_by_text("agent-5 is silent").wait_for()
    job = region(page, "Jobs").get_by_role("row").filter(has_text="GROUP BY product")
    job.get_by_role("cell", name=f"{AGENTS - 1} of {AGENTS}").first.wait_for()
    rate = job.get_by_role("cell", name=re.compile(r"^\d+\.\d$"))
    rate.wait_for()
    assert 10 < float(rate.inner_text()) < 60, "an event each 20 ms"

    button(page, "Explain").focus()
    page.keyboard.press("Enter")
    page.locator("#query").get_by_text("At the master").wait_for()
    picture(page, "dashboard.png")

    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.body.classList.contains('body--dark')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing is cut on a phone"
    picture(page, "dashboard-phone.png")

    button(page, "Stop").focus()
    page.keyboard.press("Enter")
    result(page).get_by_text("was stopped").wait_for()
    page.get_by_text("no jobs").wait_for()
    fleet.restart("agent-5")


def test_words_are_completed_by_keys_alone(page: Page) -> None:
    editor = page.get_by_label("Query in ELF QL")
    editor.focus()
    page.keyboard.type("SELECT COUNT(*) FROM we")
    completions = page.get_by_role("group", name="Completions")
    completions.get_by_role("button", name="web", exact=True).wait_for()
    page.get_by_role("status").get_by_text("1 completion", exact=True).wait_for()
    page.keyboard.press("Control+Space")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('elf-query').value == 'SELECT COUNT(*) FROM web'")
    page.keyboard.type(" WHERE prod")
    completions.get_by_role("button", name="product", exact=True).click()
    page.wait_for_function("document.getElementById('elf-query').value.endsWith(' FROM web WHERE product')")
    page.keyboard.type(" = 'hats'")
    button(page, "Explain").click()
    page.locator("#explanation").get_by_text("product = 'hats'").first.wait_for()


def test_a_report_is_shown_in_a_frame_in_which_nothing_runs(page: Page) -> None:
    reports = region(page, "Reports")
    reports.get_by_text("1 report", exact=True).wait_for()
    reports.get_by_role("combobox", name="Report").select_option("errors.html")
    page.frame_locator("#reports iframe").get_by_text("3 of 3 windows agree").wait_for()
    assert page.evaluate("document.title") == "ELF dashboard"


def test_an_error_is_shown_at_its_place_and_nothing_is_run(page: Page) -> None:
    page.get_by_label("Query in ELF QL").fill("SELECT product, COUNT(*)\nFROM web GRUP BY product")
    button(page, "Run").click()
    page.get_by_role("alert").get_by_text("line 2, column 10").wait_for()
    page.wait_for_function("document.getSelection().toString() == 'GRUP'")
    assert "Run a query" in result(page).inner_text()


def test_a_query_ends_with_its_page_unless_it_goes_on(page: Page, served: Dashboard) -> None:
    page.get_by_label("Query in ELF QL").fill(QUERY)
    page.get_by_label("Name (optional)").fill("stays")
    page.get_by_role("checkbox", name="Goes on when this page is closed").click()
    button(page, "Run").click()
    result(page).get_by_text("stays: ").wait_for()
    page.goto(served.link.partition("login")[0])
    region(page, "Jobs").get_by_role("rowheader", name="stays", exact=True).click()
    button(page, "Follow").click()
    result(page).get_by_text(re.compile(r"stays: \d+ windows?")).wait_for()
    button(page, "Tree").click()
    details = page.get_by_role("region", name="Details of a job")
    details.get_by_text(f"stays: {AGENTS} of {AGENTS} agents, master agent-").wait_for()
    assert details.get_by_role("rowheader", name="agent-").count() == AGENTS
    button(page, "Log").click()
    details.get_by_text("Last lines of stays").wait_for()
    button(page, "Stop job").click()
    page.get_by_text("no jobs").wait_for()


def test_nobody_comes_in_without_the_token_nor_from_another_site(served: Dashboard) -> None:
    address = served.link.partition("login")[0]
    socket = "socket.io/?EIO=4&transport=polling"
    with httpx.Client(base_url=address) as stranger:
        assert stranger.get("/").headers["location"] == "/login"
        assert stranger.get(f"/_nicegui_ws/{socket}").status_code == 401
        assert stranger.post("/login", data={"token": "guessed"}).status_code == 401
        hostile = {b"cookie": b"elf-dashboard=\xff; " + b"a=b; " * 200 + b"c=d"}
        assert stranger.get("/x", headers=hostile).status_code == 401
    with httpx.Client(base_url=address) as user:
        assert user.get(served.link).status_code == 303
        answer = user.get("/?query=SELECT+1")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert user.get(f"/_nicegui_ws/{socket}", headers={"origin": address.rstrip("/")}).status_code != 403
        foreign = {"origin": "http://127.0.0.1:1"}
        assert user.post(f"/_nicegui_ws/{socket}", headers=foreign).status_code == 403
