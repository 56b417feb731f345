"""An agent that is killed while its disk is full starts again on it, and is in windows."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from test_agents_remember import MASTER, QUERY, Windows, Writer, follow, until

from benchmarks.chaos.hosts import SmallDisks, disks_unavailable
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

REASON = disks_unavailable()
pytestmark = [pytest.mark.live, pytest.mark.skipif(REASON is not None, reason=REASON or "")]
FIRST_LINE = '{"time": "2026-01-01T00:00:00Z", "id": -1}\n'


def test_an_agent_starts_on_a_full_disk(tmp_path: Path) -> None:
    windows, writer, specs = Windows(), Writer(tmp_path / "agent-2.json"), []
    written_by_then: list[int] = []
    for name, node_id in (("agent-1", MASTER), ("agent-2", MASTER ^ (1 << 127))):
        (tmp_path / f"{name}.json").write_text(FIRST_LINE)
        specs.append(AgentSpec(name, (StreamFiles("web", (str(tmp_path / f"{name}.json"),)),), node_id))
    with (
        SmallDisks({"agent-2": tmp_path / "agents" / "agent-2" / "data"}) as disks,
        AgentFleet(tmp_path / "agents", specs) as fleet,
    ):

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
