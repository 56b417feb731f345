"""A whole fleet of real agents is killed and comes back: states are gone, results say so, and logs are read on."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import elf_process
import pytest

from agent.programs.confinement import refusal
from elf.client import RefusedError, Result, SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 3
DEADLINE_S = 60.0
APP = "top-words"
OLD, NEW = "to be or not to be", "all that glitters is not gold"


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"quotes-{number}.json" for number in range(1, AGENTS + 1)]
    for log in found:
        log.touch()
    return found


@pytest.fixture
def fleet(tmp_path: Path, logs: list[Path]) -> Iterator[AgentFleet]:
    specs = [
        AgentSpec(f"agent-{n}", (StreamFiles("quotes", (str(log),), read_from="beginning"),))
        for n, log in enumerate(logs, 1)
    ]
    with AgentFleet(tmp_path / "agents", specs) as agents:
        yield agents


def write(logs: list[Path], text: str, times: int) -> Counter[str]:
    """Quotations on each server; returns how often each word is in them."""
    for log in logs:
        with log.open("a") as file:
            for _ in range(times):
                file.write(json.dumps({"time": datetime.now(UTC).isoformat(), "text": text}) + "\n")
    return Counter({word: count * times * len(logs) for word, count in Counter(text.split()).items()})


def windows(fleet: AgentFleet) -> list[Result]:
    try:
        return SyncClient(str(fleet.socket("agent-1")), DEADLINE_S).ask(APP, windows=60).windows
    except RefusedError:  # the job has no master yet
        return []


def latest(fleet: AgentFleet) -> Result | None:
    """The last window with rows."""
    found = [window for window in windows(fleet) if window.rows]
    return found[-1] if found else None


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def counts(result: Result | None) -> Counter[str]:
    return Counter() if result is None else Counter({row["word"]: row["n"] for row in result.rows})


def are_kept(fleet: AgentFleet, logs: list[Path]) -> bool:
    """Whether each agent has stored that all of its log is safe."""
    for number, log in enumerate(logs, 1):
        kept = json.loads((fleet.directory / f"agent-{number}" / "data" / "kept-places").read_bytes())
        (place,) = [one for one in kept["places"] if one["stream"] == "quotes"]
        if sum(count for _, count in place["counts"]) < len(log.read_text().splitlines()):
            return False
    return True


def test_states_of_a_whole_fleet_that_is_killed_are_named_lost(fleet: AgentFleet, logs: list[Path]) -> None:
    environment = {"ELF_SOCKET": str(fleet.socket("agent-1")), "ELF_CREATOR": str(fleet.creator)}
    with mock.patch.dict(os.environ, environment):
        assert elf_process.elf("submit", APP).code == 0
    before: Counter[str] = Counter()

    def is_listed() -> bool:
        before.update(write(logs, OLD, 2))  # what is written before the job's first window is late for its list
        return latest(fleet) is not None

    until(is_listed, lambda: "no list")
    until(lambda: counts(latest(fleet)) == before, lambda: latest(fleet))
    found = latest(fleet)
    assert found is not None
    assert found.lost == []
    until(lambda: are_kept(fleet, logs), lambda: "places in logs are not stored")
    for name in fleet.names:
        fleet.kill(name)
    after = write(logs, NEW, 30)
    for name in fleet.names:
        fleet.launch(name)
    fleet.wait_ready(fleet.names)
    until(lambda: any(window.lost for window in windows(fleet)), lambda: windows(fleet))
    after += write(logs, NEW, 5)  # lists of the time in which nobody ran are late
    until(lambda: counts(latest(fleet)) == after, lambda: (latest(fleet), after))  # without what had been safe
    found = latest(fleet)
    assert found is not None
    assert found.lost
