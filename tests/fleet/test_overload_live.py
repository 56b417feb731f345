"""Agents in earnest whose job wants more than they can do, one of whom is killed: WITHIN ... ELSE PARTIAL loses track
of nothing."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agent_process import DEADLINE_S, eventually
from test_job_processes import done, job_file
from watching import Watch

from agent.programs.confinement import refusal
from elf.client import RefusedError, SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = ("agent-1", "agent-2", "agent-3")
PER_S = 400
SLOW = """
    import hashlib, elf

    class Slow(elf.Job):
        reads = {"id": "string"}
        query = (
            "SELECT id, COUNT(*) AS n FROM web GROUP BY id "
            "WINDOWING 1 SECOND GRACE 250 MILLISECONDS WITHIN 2 SECONDS ELSE PARTIAL"
        )

        def map(self, event):
            digest = b""
            for _ in range(4000):
                digest = hashlib.sha256(digest).digest()
            yield {"id": event["id"]}
"""


class Log:
    """The log of one agent, with numbered lines."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.path = name, folder / f"{name}.json"
        self.path.write_text('{"time": "2026-01-01T00:00:00Z", "id": "-"}\n')
        self.written = 0

    def write(self, lines: int) -> None:
        now = datetime.now(UTC).isoformat()
        every = [{"time": now, "id": f"{self.name} {self.written + number}"} for number in range(lines)]
        with self.path.open("a") as file:
            file.write("".join(json.dumps(one) + "\n" for one in every))
        self.written += lines


@contextmanager
def writing(logs: list[Log], per_s: int) -> Iterator[None]:
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.05):
            for log in logs:
                log.write(per_s // 20)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def master(fleet: AgentFleet) -> str:
    """The agent that is the job's master, once it is told: on a busy machine an agent may have to join again."""

    def told() -> str:
        try:
            return SyncClient(str(fleet.socket("agent-1")), DEADLINE_S).latency("slow").master
        except RefusedError:
            return ""

    found: str = eventually(told, "the job's master")
    return found


@pytest.mark.parametrize("is_master_killed", [False, True], ids=["another", "the master"])
def test_each_line_is_counted_once_or_late_or_of_an_agent_that_is_missing(
    tmp_path: Path, is_master_killed: bool
) -> None:
    logs = [Log(tmp_path, name) for name in AGENTS]
    specs = [AgentSpec(log.name, (StreamFiles("web", (str(log.path),)),)) for log in logs]
    with AgentFleet(tmp_path / "agents", specs) as fleet:
        done(fleet, "submit", job_file(tmp_path, SLOW))
        lead = master(fleet)
        victim = lead if is_master_killed else next(name for name in AGENTS if name != lead)
        through = next(name for name in AGENTS if name not in (victim, lead))
        with Watch(fleet.socket(through), "slow") as watch:
            with writing(logs, 20):
                watch.wait_for("windows of all agents", lambda came: came.result.contributors == 3, after=11)
            before = len(watch.windows)
            with writing(logs, PER_S):
                watch.wait_for("an overload", lambda _: sum(one.result.late for one in watch.windows) > PER_S)
                fleet.kill(victim)
                watch.wait_for("a window without it", lambda came: came.result.missing == [victim], after=before)
            written = {log.name: log.written for log in logs}
            living = [log for log in logs if log.name != victim]
            with writing(living, 20):
                watch.wait_for("a calm", lambda _: True, after=len(watch.windows) + 8)
        assert fleet.faults() == []
    windows = [came.result for came in watch.windows]
    counted = Counter(str(row["id"]) for one in windows for row in one.rows for _ in range(row["n"]))
    assert max(counted.values()) == 1, "nothing counts twice"
    first = {name: min(int(id_.split()[1]) for id_ in counted if id_.startswith(name)) for name in AGENTS}
    sure = sum(written[log.name] - first[log.name] for log in living)
    found = sum(one.events + one.late for one in windows)
    print(f"{written} written, {len(counted)} counted, {sum(one.late for one in windows)} late")
    assert sure <= found <= sum(log.written for log in logs), "each line is counted, or late, and once"
    assert [(one.late, one.partial) for one in windows[-2:]] == [(0, [])] * 2, "they recover"
