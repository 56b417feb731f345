"""`elf shell` on a real terminal with two real agents: live tables, Ctrl-C, and an agent that goes and comes back."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell_screen import CTRL_C, ENTER, TAB, ShellScreen, shell

import elf
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
ASKED = "agent-2"
LIVE = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 1 SECOND;"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFleet]:
    """Agents with a stream `web` that somebody writes all the time."""
    folder = tmp_path_factory.mktemp("fleet")
    logs = [folder / f"web-{number}.json" for number in (1, 2)]
    specs = [AgentSpec(f"agent-{number}", (StreamFiles("web", (str(log),)),)) for number, log in enumerate(logs, 1)]
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.wait(0.05):
            with logs[number % 2].open("a") as log:
                log.write(json.dumps({"time": time.time(), "product": f"p{number % 4}"}) + "\n")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with AgentFleet(folder / "agents", specs) as agents:
            yield agents
    finally:
        done.set()
        writer.join()


@pytest.fixture
def screen(fleet: AgentFleet, tmp_path: Path) -> Iterator[ShellScreen]:
    with shell("--socket", str(fleet.socket(ASKED)), history=tmp_path / "history") as running:
        yield running


def windows(screen: str) -> list[tuple[int, str]]:
    """The windows on the screen: the line, and where it begins."""
    lines = enumerate(screen.split("\n"))
    return [(number, line.split()[0]) for number, line in lines if line.startswith("20") and "…" in line]


def test_a_live_table_changes_in_place_until_ctrl_c_stops_the_query_alone(
    fleet: AgentFleet, screen: ShellScreen
) -> None:
    screen.type("SELECT product, COUNT(*) AS n FROM " + TAB)
    screen.until("app('")
    screen.type("we" + TAB)
    screen.until("FROM web")
    screen.type(LIVE.split(" FROM web")[1] + ENTER)
    screen.until("2 of 2 agents run it")
    shown = [windows(screen.until(lambda text: bool(windows(text)) and "2 of 2 agents · " in text))]
    while len(shown) < 4:
        shown.append(windows(screen.until(lambda text: windows(text) != shown[-1] and "2 of 2 agents · " in text)))
    assert [len(tables) for tables in shown] == [1, 1, 1, 1], "one table, not one below the other"
    assert len({tables[0][0] for tables in shown}) == 1, "at the same place"
    assert [tables[0][1] for tables in shown] == sorted(tables[0][1] for tables in shown)
    screen.type(CTRL_C)
    screen.until("stopped")
    screen.prompts()
    with elf.connect_sync(fleet.socket(ASKED)) as client:
        deadline = time.monotonic() + 20
        while client.jobs():
            assert time.monotonic() < deadline, "the job goes on"
            time.sleep(0.05)
    assert screen.leave() == 0
    assert screen.left_in_order()


def test_jobs_and_columns_are_completed_followed_and_stopped(fleet: AgentFleet, screen: ShellScreen) -> None:
    with elf.connect_sync(fleet.socket(ASKED)) as client, client.query(LIVE, app="products", detach=True):
        pass
    screen.type("\\follow pro" + TAB)
    screen.until("\\follow products")
    screen.type(ENTER)
    screen.until(lambda text: bool(windows(text)))
    screen.type(CTRL_C)
    screen.until("elf stop products")
    screen.prompts()
    screen.type("SHOW JOBS;" + ENTER)
    screen.until("WINDOWING")
    screen.type("\\d web" + ENTER)
    screen.until("decides its type")
    screen.prompts()
    screen.type("SELECT prod" + TAB)
    screen.until("SELECT product")
    screen.type(CTRL_C)
    screen.type("\\stop products" + ENTER)
    screen.until("products: stopped")
    screen.type("\\stop nothing" + ENTER)
    screen.until("there is no job nothing")


def test_the_shell_outlives_its_agent(fleet: AgentFleet, screen: ShellScreen) -> None:
    screen.type(LIVE + ENTER)
    screen.until(lambda text: bool(windows(text)))
    fleet.kill(ASKED)
    screen.until("the agent closed the connection")
    screen.prompts()
    screen.type("SHOW STREAMS;" + ENTER)
    screen.until("nobody listens")
    fleet.restart(ASKED)
    screen.type("SHOW STREAMS;" + ENTER)
    screen.until("web-2.json")
    screen.type("SELECT COUNT(*) AS again FROM web;" + ENTER)
    screen.until(lambda text: "again" in text.split("web;")[-1] and "of 2 agents · " in text.split("web;")[-1])
