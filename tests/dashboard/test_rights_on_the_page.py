"""Every role and every command on the page: what is offered, and what becomes of a request that is sent all the same.

The columns of the socket and of TLS are in tests/agent_daemon/test_rights_live.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent_process import eventually
from fleet_for_pages import dashboard
from opened_page import button, opened_page, region
from rights_world import QUERY, World

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.dashboard, pytest.mark.filterwarnings("default")]
ELSEWHERE = """
[[access]]
role = "operate"
creators = ["elsewhere"]
apps = ["other"]
streams = ["other"]
"""
"""A role that the page takes for one over everything, so that it offers what the agent refuses."""
MATRIX = """
             nobody    reader    asker     elsewhere  operator
look         refused   allowed   allowed   allowed    allowed
jobs         locked    allowed   hidden    hidden     allowed
follow       locked    allowed   refused   refused    allowed
tree         locked    allowed   refused   refused    allowed
log          locked    allowed   refused   refused    allowed
explain      allowed   allowed   allowed   allowed    allowed
run          locked    locked    allowed   refused    allowed
stop-own     locked    locked    allowed   locked     allowed
stop         locked    locked    locked    refused    allowed
"""
"""allowed: it works. refused: the page offers it, the agent refuses, and the page says which right is missing.
locked: the page does not offer it, and an event that a browser sends all the same does nothing. hidden: the job is
listed without its query."""
_LINES = [line.split() for line in MATRIX.strip().splitlines()]
ROLES = _LINES[0]
CELLS = [(role, command, word) for command, *words in _LINES[1:] for role, word in zip(ROLES, words, strict=True)]
_SENT_ALL_THE_SAME = """button => {
    const id = Number(button.id.slice(1));
    for (const event of mounted_app.elements[id].events)
        window.socket.emit("event", {id, client_id: window.clientId, listener_id: event.listener_id, args: ["{}"]});
}"""
OTHERS = "root-job"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="elf-rights-", dir="/tmp") as folder:
        world = World(Path(folder), ELSEWHERE)
        with world.agent:
            world.agent.start().ready()
            yield world


@pytest.fixture(autouse=True)
def job_of_somebody_else(world: World) -> None:
    """A job of root's, begun again after it has been stopped."""
    if OTHERS not in names(world):
        with world.client().query(QUERY, app=OTHERS, detach=True):
            eventually(lambda: OTHERS in names(world), "the job is announced")


@pytest.fixture(scope="module")
def pages(world: World, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """The page of somebody with a role, opened once."""
    opened: dict[str, Page] = {}
    with ExitStack() as stack:

        def page(role: str) -> Page:
            if role not in opened:
                agent = f"127.0.0.1:{world.port}"
                served = stack.enter_context(dashboard("--agent", agent, ELF_CREATOR=world.creator(role)))
                opened[role] = stack.enter_context(opened_page(browser, served))
            return opened[role]

        yield page


def names(world: World) -> list[str]:
    return [job.app for job in world.client().jobs()]


def until_refused(page: Page, role: str, act: str, right: str) -> None:
    """Waits until the page says what the agent has refused, which right is missing, and who grants it."""
    said = page.get_by_text(f"{role} may not {act}").last
    said.wait_for()
    assert f"needs the right {right}" in said.inner_text()
    assert "[[access]] in agent.toml of agent agent-1 grants it" in said.inner_text()


def press(page: Page, name: str, word: str) -> None:
    """Presses a button; where that cannot be done, sends its event, and waits until the server is past it."""
    if word != "locked":
        button(page, name).click()
        return
    assert button(page, name).is_disabled()
    button(page, name).evaluate(_SENT_ALL_THE_SAME)
    explain(page)


def look(page: Page, role: str, word: str) -> None:
    if word == "refused":
        until_refused(page, role, "see the status of this agent", "read")
    else:
        page.get_by_text("1 of 1 agents are well").wait_for()


def jobs(page: Page, word: str) -> None:
    row = region(page, "Jobs").get_by_role("row").filter(has_text=OTHERS)
    if word == "locked":
        assert row.count() == 0
        return
    row.wait_for()
    assert (QUERY in row.inner_text()) == (word == "allowed")


def of_others(page: Page, role: str, word: str, name: str, act: str, shown: str, right: str = "read") -> None:
    """Asks for something of a job of root's."""
    rows = region(page, "Jobs").get_by_role("rowheader", name=OTHERS, exact=True)
    if role != "nobody":
        rows.click()
    press(page, name, word)
    if word == "refused":
        until_refused(page, role, f"{act} {OTHERS}", f"{right} over app {OTHERS}")
    elif word == "allowed":
        page.get_by_text(shown).last.wait_for()


def explain(page: Page) -> None:
    page.get_by_label("Query in ELF QL").fill(QUERY)
    button(page, "Explain").click()
    page.locator("#explanation").get_by_text("At the master").wait_for()


def run(page: Page, role: str, word: str) -> None:
    page.get_by_label("Query in ELF QL").fill(QUERY)
    page.get_by_label("Name (optional)").fill(f"of-{role}")
    press(page, "Run", word)
    if word == "allowed":
        region(page, "Result").get_by_text(f"of-{role}: no windows, 1 of 1 agents run it").wait_for()
    elif word == "refused":
        until_refused(page, role, "query web", "query over stream web")
    else:
        page.get_by_label("Query in ELF QL").press("Control+Enter")
        explain(page)


def stop_own(page: Page, word: str) -> None:
    """Stops the query that this page has run."""
    press(page, "Stop", word)
    if word == "allowed":
        region(page, "Result").get_by_text("was stopped").wait_for()


@pytest.mark.parametrize(("role", "command", "word"), CELLS, ids=[f"{role} {command}" for role, command, _ in CELLS])
def test_role_and_command(world: World, pages: Callable[[str], Page], role: str, command: str, word: str) -> None:
    page, before = pages(role), names(world)
    match command:
        case "look":
            look(page, role, word)
        case "jobs":
            jobs(page, word)
        case "follow":
            of_others(page, role, word, "Follow", "follow", f"{OTHERS}: ")
        case "tree":
            of_others(page, role, word, "Tree", "see the tree of", f"Tree of {OTHERS}")
        case "log":
            of_others(page, role, word, "Log", "read the log of", f"Log of {OTHERS}")
        case "explain":
            explain(page)
        case "run":
            run(page, role, word)
        case "stop-own":
            stop_own(page, word)
        case "stop":
            of_others(page, role, word, "Stop job", "stop", f"{OTHERS}: stopped", "operate")
    if word in ("locked", "refused"):
        assert names(world) == before, "nothing was begun, and nothing ended"
    elif command == "stop":
        eventually(lambda: OTHERS not in names(world), "the job has ended")
