"""Agents in earnest whose job wants more than they can do, one of whom is killed: WITHIN ... ELSE PARTIAL loses track
of nothing."""

from __future__ import annotations

import json
import os
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import elf_process
import pytest

import elf
from agent.programs.confinement import refusal
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


@contextmanager
def followed(fleet: AgentFleet, windows: list[elf.Result], through: str) -> Iterator[None]:
    is_over = threading.Event()

    def follow() -> None:
        with elf.connect_sync(fleet.socket(through)) as client, client.follow("slow", reconnect=True) as job:
            while not is_over.is_set():
                if isinstance(update := job.wait(0.5), elf.Result):
                    windows.append(update)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def master(fleet: AgentFleet) -> str:
    with elf.connect_sync(fleet.socket("agent-1")) as client:
        return client.latency("slow").master


def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.1)


@pytest.mark.parametrize("is_master_killed", [False, True], ids=["another", "the master"])
def test_each_line_is_counted_once_or_late_or_of_an_agent_that_is_missing(
    tmp_path: Path, is_master_killed: bool
) -> None:
    logs, windows = [Log(tmp_path, name) for name in AGENTS], list[elf.Result]()
    job = tmp_path / "job.py"
    job.write_text(textwrap.dedent(SLOW))
    specs = [AgentSpec(log.name, (StreamFiles("web", (str(log.path),)),)) for log in logs]
    with AgentFleet(tmp_path / "agents", specs) as fleet:
        environment = {"ELF_SOCKET": str(fleet.socket("agent-1")), "ELF_CREATOR": str(fleet.creator)}
        with mock.patch.dict(os.environ, environment):
            finished = elf_process.elf("submit", str(job))
        assert finished.code == 0, finished.err
        lead = master(fleet)
        victim = lead if is_master_killed else next(name for name in AGENTS if name != lead)
        through = next(name for name in AGENTS if name not in (victim, lead))
        with followed(fleet, windows, through):
            with writing(logs, 20):
                until(lambda: len(windows) >= 12 and windows[-1].contributors == 3, "windows of all agents")
            before = len(windows)
            with writing(logs, PER_S):
                until(lambda: sum(one.late for one in windows) > PER_S, "an overload")
                fleet.kill(victim)
                until(lambda: any(one.missing == [victim] for one in windows[before:]), "a window without it")
            written = {log.name: log.written for log in logs}
            living = [log for log in logs if log.name != victim]
            with writing(living, 20):
                calm = len(windows)
                until(lambda: len(windows) > calm + 8, "a calm")
        assert fleet.faults() == []
    counted = Counter(str(row["id"]) for one in windows for row in one.rows for _ in range(row["n"]))
    assert max(counted.values()) == 1, "nothing counts twice"
    first = {name: min(int(id_.split()[1]) for id_ in counted if id_.startswith(name)) for name in AGENTS}
    sure = sum(written[log.name] - first[log.name] for log in living)
    found = sum(one.events + one.late for one in windows)
    print(f"{written} written, {len(counted)} counted, {sum(one.late for one in windows)} late")
    assert sure <= found <= sum(log.written for log in logs), "each line is counted, or late, and once"
    assert [(one.late, one.partial) for one in windows[-2:]] == [(0, [])] * 2, "they recover"
