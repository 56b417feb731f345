"""Real agents, one of which is the master of a job and of its stage: it is killed in the midst of long windows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from agent_process import eventually
from elf_process import elf
from known_logs import KnownLogs
from watching import Came, Watch

from agent.programs.confinement import refusal
from elf.client.sync_client import SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,  # tests/agent/test_long_readers_simulated.py shows it of simulated agents
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
NAMES = [f"agent-{number}" for number in range(1, 6)]
SIZE_MS, SLIDE_MS = 20_000, 1_000
JOB = """
import elf

class Staged(elf.Job):
    stages = {"counts": "SELECT agent, COUNT(*) AS n FROM web GROUP BY agent WINDOWING 1 SECOND GRACE 1 SECOND"}
    query = "SELECT agent, SUM(n) AS n FROM app('counts') GROUP BY agent WINDOWING 20 SECONDS EVERY 1 SECOND"
"""


def counts(came: Came) -> Counter[str]:
    return Counter({row["agent"]: row["n"] for row in came.result.rows})


def masters(fleet: AgentFleet, asked: str) -> set[str]:
    return {job.master for job in SyncClient(str(fleet.socket(asked)), 60.0).jobs()}


def test_long_windows_of_a_stage_go_on_when_the_agent_of_both_masters_is_killed(tmp_path: Path) -> None:
    (tmp_path / "staged.py").write_text(JOB)
    with KnownLogs(tmp_path / "logs", NAMES) as logs:
        specs = [AgentSpec(name, (StreamFiles("web", (str(logs.path(name)),)),)) for name in NAMES]
        with AgentFleet(tmp_path / "agents", specs) as fleet:
            options = ("--creator", str(fleet.creator), "--socket", str(fleet.socket(NAMES[0])))
            said = elf("submit", "staged.py", *options, folder=tmp_path)
            assert said.code == 0, said.err
            (victim,) = masters(fleet, NAMES[0])
            asked = next(name for name in NAMES if name != victim)
            with Watch(fleet.socket(asked), "staged.counts") as stage, Watch(fleet.socket(asked), "staged") as job:
                first = stage.wait_for("a window of the stage", lambda _: True)
                job.wait_for("a long window of what is known", lambda came: came.start_ms >= first.start_ms)
                fleet.kill(victim)
                killed = len(job.windows)
                eventually(lambda: victim not in masters(fleet, asked), "others are masters")
                assert len(masters(fleet, asked)) == 1
                begun = job.wait_for("the next window", lambda _: True, after=killed)
                job.wait_for(
                    "windows after it", lambda came: came.start_ms > begun.start_ms + 2 * SIZE_MS, after=killed
                )
                windows, read = list(job.windows), {came.start_ms: came for came in stage.windows}
            assert fleet.faults() == []
    known = [came for came in windows if came.start_ms >= min(read)]
    assert {came.result.epoch for came in known} == {1, 2}
    for earlier, later in pairwise(known):
        assert later.start_ms == earlier.start_ms + SLIDE_MS, "a window is left out, or there twice"
    for came in known:
        inside = [read[start] for start in range(came.start_ms, came.end_ms, SLIDE_MS)]
        assert counts(came) == sum(map(counts, inside), Counter[str]()), came.result.json
        assert bool(came.result.partial) == any(one.result.missing or one.result.partial for one in inside)
