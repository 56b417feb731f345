"""`elf drain`: agents leave a fleet under load, and no window, no second and no event is lost."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from elf_process import elf_process
from numbered_lines import Windows, Writer
from test_agents_remember import APP, MASTER, QUERY, follow, until
from watching import milliseconds

from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
DRAIN_QUERY = QUERY.replace("GRACE 2 SECONDS", "GRACE 1 SECOND RECOVER FOR 60 SECONDS")
OF_OTHERS = 1_000_000
"""First id of the agent that stays."""
LATE_S = 30.0
"""Time after its end within which each window is there, however busy the machine: one that waited for the part of an
agent that has left would take twice as long."""


class TimedWindows(Windows):
    """What a job has published, with the times at which it came."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[tuple[float, int, list[str], list[str]]] = []

    def add(self, window: object) -> None:
        super().add(window)
        about = (milliseconds(window.window_start), list(window.missing), list(window.partial))  # type: ignore[attr-defined]
        self.came.append((time.time(), *about))

    def last_of(self, writer: Writer) -> bool:
        """Whether the last event that was written is there."""
        return writer.first + writer.written - 1 in self.ids


def drain(fleet: AgentFleet, name: str) -> list[dict[str, object]]:
    """Drains an agent, whose process then ends; returns what the command said."""
    finished = elf_process("drain", "--output", "json", "--socket", str(fleet.socket(name)))
    assert finished.code == 0, finished.err
    until(lambda: not fleet.is_running(name))
    return [json.loads(line) for line in finished.out.splitlines()]


def test_a_master_and_a_leaf_are_drained_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    streams = {}
    for name in ("agent-1", "agent-2", "agent-3"):
        (tmp_path / f"{name}.json").write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
        streams[name] = (StreamFiles("web", (str(tmp_path / f"{name}.json"),)),)
    ids = {"agent-1": MASTER, "agent-2": MASTER ^ (1 << 127), "agent-3": MASTER ^ (1 << 126)}
    specs = [AgentSpec(name, streams[name], node_id) for name, node_id in ids.items()]
    drained = Writer(tmp_path / "agent-2.json")
    staying = Writer(tmp_path / "agent-3.json", OF_OTHERS)
    windows, said = TimedWindows(), {}
    with AgentFleet(tmp_path / "agents", specs) as fleet:

        def drains() -> None:
            with drained.writing(), staying.writing():
                until(lambda: len(windows.came) > 2)
                said["agent-1"] = drain(fleet, "agent-1")
                before = len(windows.came)
                until(lambda: len(windows.came) > before + 3)
                said["agent-2"] = drain(fleet, "agent-2")
                until(lambda: len(windows.came) > before + 8)
                fleet.restart("agent-2")
                before = len(windows.came)
                until(lambda: len(windows.came) > before + 6)
            until(lambda: windows.last_of(drained) and windows.last_of(staying))
            before = windows.late
            until(lambda: windows.late > before, 3.0)

        trio.run(follow, fleet, DRAIN_QUERY, windows, drains, "agent-3")
        assert fleet.faults() == []
    for answers in said.values():
        assert answers[-1] == {"type": "drained", "whole": True}
        assert answers[0]["type"] == "draining"
    check((drained, staying), windows)


def check(writers: tuple[Writer, ...], windows: TimedWindows) -> None:
    assert max(windows.ids.values()) == 1, "nobody counts twice"
    lacking = []
    for writer in writers:
        ids = {one for one in windows.ids if writer.first <= one < writer.first + OF_OTHERS}
        lacking.append(len(set(range(min(ids), writer.first + writer.written)) - ids))
    assert lacking == [windows.late, 0], "what was written while the agent was away is late, and nothing is lost"
    starts = [start for _, start, _, _ in windows.came]
    assert all(later - earlier == 1000 for earlier, later in pairwise(starts)), f"no second is lost: {windows.came}"
    delays = [came - start / 1000 - 1.0 for came, start, _, _ in windows.came]
    assert max(delays) < LATE_S, f"no window waits: {delays}"
    assert not any(missing for _, _, missing, _ in windows.came), "nobody is missing"
    partial = [names for _, _, _, names in windows.came if names]
    assert len(partial) <= 3, f"whole but where an agent leaves or is back: {partial}"


@pytest.mark.slow
def test_an_agent_that_cannot_hand_over_in_time_says_so(tmp_path: Path) -> None:
    log = tmp_path / "web.json"
    log.write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
    specs = [AgentSpec("agent-1", (StreamFiles("web", (str(log),)),), MASTER), AgentSpec("agent-2", ())]
    with AgentFleet(tmp_path / "agents", specs) as fleet:
        started = elf_process("query", "--detach", "--app", APP, QUERY, "--socket", str(fleet.socket("agent-1")))
        assert started.code == 0, started.err
        fleet.process("agent-2").signal(signal.SIGSTOP)
        finished = elf_process("drain", "--patience", "0.5", "--socket", str(fleet.socket("agent-1")))
        fleet.process("agent-2").signal(signal.SIGCONT)
        assert finished.code == 1
        assert "1 job led" in finished.err
        assert "before everything was handed over" in finished.out
        until(lambda: not fleet.is_running("agent-1"))
