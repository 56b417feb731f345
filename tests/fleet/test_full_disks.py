"""Agents whose disks are full, or read-only: they are in windows, and start again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from numbered_lines import Windows, Writer, check
from test_agents_remember import MASTER, QUERY, follow, until

from benchmarks.chaos.hosts import SmallDisks, disks_unavailable
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

REASON = disks_unavailable()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=REASON or "")]
FIRST_LINE = '{"time": "2026-01-01T00:00:00Z", "id": -1}\n'


@contextmanager
def second_on_a_small_disk(folder: Path) -> Iterator[tuple[SmallDisks, AgentFleet]]:
    """Two agents; the first is the job's master."""
    specs = []
    for name, node_id in (("agent-1", MASTER), ("agent-2", MASTER ^ (1 << 127))):
        (folder / f"{name}.json").write_text(FIRST_LINE)
        specs.append(AgentSpec(name, (StreamFiles("web", (str(folder / f"{name}.json"),)),), node_id))
    with SmallDisks({"agent-2": data_of(folder)}) as disks, AgentFleet(folder / "agents", specs) as fleet:
        yield disks, fleet


def data_of(folder: Path) -> Path:
    return folder / "agents" / "agent-2" / "data"


def test_an_agent_starts_on_a_full_disk(tmp_path: Path) -> None:
    windows, writer = Windows(), Writer(tmp_path / "agent-2.json")
    written_by_then: list[int] = []
    with second_on_a_small_disk(tmp_path) as (disks, fleet):

        def fill_and_kill() -> None:
            with writer.writing():
                until(lambda: windows.counted() > 0)
                disks.fill("agent-2")
                fleet.kill("agent-2")
                fleet.restart("agent-2")
                written_by_then.append(writer.written)
                until(lambda: max(windows.ids) > written_by_then[0])
                disks.free("agent-2")

        trio.run(follow, fleet, QUERY, windows, fill_and_kill)
        assert max(windows.ids.values()) == 1, "nobody counts twice"
        assert max(windows.ids) > written_by_then[0], "it is in windows while its disk is full"


@pytest.mark.slow
def test_an_agent_whose_disk_becomes_read_only_counts_on_and_remembers_again(tmp_path: Path) -> None:
    """As a file system that has found a fault: the agent warns, and counts what it could not store when it can."""
    windows, writer = Windows(), Writer(tmp_path / "agent-2.json")
    with second_on_a_small_disk(tmp_path) as (_, fleet):

        def break_and_mend() -> None:
            with writer.writing():
                until(lambda: windows.counted() > 0)
                with read_only(data_of(tmp_path)):
                    broken_at = writer.written
                    until(lambda: max(windows.ids) > broken_at + 100)
                    assert fleet.is_running("agent-2")
                mended_at = writer.written
                until(lambda: max(windows.ids) > mended_at + 200)
                assert fleet.terminate("agent-2") == 0
                fleet.restart("agent-2")
                back_at = writer.written
                until(lambda: max(windows.ids) > back_at + 50)
            until(lambda: windows.counted() >= writer.written, 20.0)

        trio.run(follow, fleet, QUERY, windows, break_and_mend)
        check(writer, windows)
        log = (tmp_path / "agents" / "agent-2" / "agent.log").read_text()
        assert "read-only file system" in log.lower()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing in the folder can be opened for writing meanwhile. What is open stays so, as an agent's lock."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
