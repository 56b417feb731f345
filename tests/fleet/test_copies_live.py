"""SIGKILL of a job's master and of another agent that have sealed a pane, before any window has it: it is whole."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from known_logs import KnownLogs
from watching import DEADLINE_S, Came, Watch, submit

import elf
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [pytest.mark.live, pytest.mark.slow]
NAMES = [f"agent-{number}" for number in range(1, 6)]
QUERY = (
    "SELECT agent, COUNT(*) AS events FROM web GROUP BY agent WINDOWING 4 SECONDS GRACE 1 SECOND RECOVER FOR 60 SECONDS"
)
COPIES = 2
POLL_S = 0.02


def letters(fleet: AgentFleet, name: str) -> int:
    """Messages with copies that an agent has sent."""
    with elf.connect_sync(fleet.socket(name)) as client:
        return int(client.status().counters["copies.messages"])


def master_of(fleet: AgentFleet, app: str) -> str:
    with elf.connect_sync(fleet.socket(NAMES[0])) as client:
        return next(job.master for job in client.jobs() if job.app == app)


def stop_after(fleet: AgentFleet, name: str, moment_ms: int) -> None:
    """Stops an agent (SIGSTOP) once that time is over."""
    while time.time_ns() // 1_000_000 <= moment_ms:
        time.sleep(POLL_S)
    fleet.process(name).signal(signal.SIGSTOP)


def until_copied(fleet: AgentFleet, before: dict[str, int]) -> None:
    """Waits until these agents have sent the copies of one more pane."""
    deadline = time.monotonic() + DEADLINE_S
    waiting = dict(before)
    while waiting := {name: sent for name, sent in waiting.items() if letters(fleet, name) < sent + COPIES}:
        assert time.monotonic() < deadline, f"no copies of {sorted(waiting)}"
        time.sleep(POLL_S)


def test_a_pane_that_only_dead_agents_have_sealed_is_whole(tmp_path: Path) -> None:
    with KnownLogs(tmp_path / "logs", NAMES) as logs:
        specs = [AgentSpec(name, (StreamFiles("web", (str(logs.path(name)),)),)) for name in NAMES]
        with AgentFleet(tmp_path / "agents", specs) as fleet:
            submit(fleet.socket(NAMES[0]), QUERY, "held", len(NAMES))
            master = master_of(fleet, "held")
            victim, slow, follower = [name for name in NAMES if name != master][:3]
            with Watch(fleet.socket(follower), "held") as watch:
                came = watch.wait_for("a whole window", lambda came: came.result.contributors == len(NAMES))
                # One agent keeps the next window from coming until the others have sealed it.
                before = {name: letters(fleet, name) for name in (master, victim)}
                stop_after(fleet, slow, came.end_ms + 4000)
                until_copied(fleet, before)
                fleet.kill(master)
                fleet.kill(victim)
                fleet.process(slow).signal(signal.SIGCONT)

                def is_next(found: Came) -> bool:
                    return found.start_ms == came.end_ms

                result = watch.wait_for("the window that the dead had sealed", is_next).result
            assert (result.contributors, result.expected, result.missing) == (len(NAMES), len(NAMES), [])
            assert {row["agent"]: row["events"] for row in result.rows} == {
                name: logs.count(name, came.end_ms, came.end_ms + 4000) for name in NAMES
            }
            assert result.epoch == 2, "another master has published it"
            assert fleet.faults() == []
