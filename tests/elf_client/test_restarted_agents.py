"""A fleet of real agents that are all killed and started again: the job goes on, and what it has published is there."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from asking_process import ask
from test_real_agents import WINDOW_PATIENCE_S, running, until, written

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
QUERY = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 1 SECOND"


def windows(fleet: AgentFleet, name: str) -> dict[str, dict[str, object]]:
    """The last windows, by their starts, as an agent answers."""
    answer = ask("ask", "shop", "--windows", "60", "--output", "json", socket=fleet.socket(name))
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert len({window["window_start"] for window in found}) == len(found), "none is there twice"
    return {window["window_start"]: window for window in found}


def newest(fleet: AgentFleet, name: str) -> dict[str, object]:
    """The last window, as an agent answers."""
    return max(windows(fleet, name).items())[1]


def test_a_fleet_that_was_killed_has_its_jobs_and_goes_on(tmp_path: Path) -> None:
    specs = []
    for number in range(3):
        log = tmp_path / f"web-{number}.json"
        log.touch()
        specs.append(AgentSpec(f"agent-{number + 1}", (StreamFiles("web", (str(log),)),)))
    with AgentFleet(tmp_path / "agents", specs) as fleet, written(sorted(tmp_path.glob("web-*.json"))):
        accepted = ask("query", "--detach", "--app", "shop", QUERY, socket=fleet.socket("agent-1"))
        assert accepted.code == 0, accepted.err
        until(lambda: len(windows(fleet, "agent-2")) > 2, "windows before the end")
        before = windows(fleet, "agent-3")
        for name in fleet.names:
            fleet.kill(name)
        began = time.monotonic()
        for name in fleet.names:
            fleet.restart(name)
        until(lambda: len(running(fleet, "shop")) == 3, "every agent lists the job")
        after = windows(fleet, "agent-1")
        assert {start: after[start] for start in before} == before
        until(lambda: max(windows(fleet, "agent-2")) > max(before), "a window after the restart")
        until(lambda: newest(fleet, "agent-2")["contributors"] == 3, "all are in it")
        assert time.monotonic() - began < WINDOW_PATIENCE_S
        assert ask("stop", "shop", socket=fleet.socket("agent-1")).code == 0
        until(lambda: running(fleet, "shop") == [], "the job is stopped")
        for name in fleet.names:
            fleet.kill(name)
        for name in fleet.names:
            fleet.restart(name)
        assert running(fleet, "shop") == []
        assert fleet.faults() == []
