"""An agent is killed and its log is deleted: what it had sealed is in its windows all the same, from its disk."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import trio
from numbered_lines import Windows, Writer
from test_agents_remember import MASTER, follow, until

from agent.daemon.sealed_files import SealedFiles
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
QUERY = (
    "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 1 SECOND GRACE 1 SECOND "
    "ON STRAGGLER WAIT RECOVER FOR 30 SECONDS"
)
FIRST_LINE = '{"time": "2026-01-01T00:00:00Z", "id": -1}\n'
PANE_MS = 1000


def specs(folder: Path) -> list[AgentSpec]:
    """Agents without copies: the master's, the one that is killed, and one that keeps windows from being published."""
    found = []
    for name, node_id in (("agent-1", MASTER), ("agent-2", MASTER ^ (1 << 127)), ("agent-3", MASTER ^ (1 << 126))):
        log = folder / f"{name}.json"
        log.write_text(FIRST_LINE)
        found.append(AgentSpec(name, (StreamFiles("web", (str(log),)),), node_id, settings=(("copies", 0),)))
    return found


def sealed_upto_ms(fleet: AgentFleet, name: str) -> int:
    """The end (epoch ms) of what an agent, which is not running, has sealed on its disk."""
    warnings: list[str] = []
    folder = fleet.process(name).folder / "data" / "sealed"
    files = SealedFiles(folder, 1, 1 << 30, lambda what, why: warnings.append(f"{what}: {why}"))
    assert warnings == []
    return max(chain.upto for chains in files.chains.values() for chain in chains.values()) + PANE_MS


def test_what_was_sealed_when_the_agent_was_killed_is_in_windows_although_the_log_is_deleted(tmp_path: Path) -> None:
    windows, writer, ends_ms = Windows(), Writer(tmp_path / "agent-2.json"), list[int]()
    written_ms: list[int] = []

    def kill_and_delete(fleet: AgentFleet) -> None:
        with writer.writing():
            until(lambda: windows.counted() > 0)
            fleet.process("agent-3").signal(signal.SIGSTOP)
            time.sleep(4.0)  # panes are sealed that nobody publishes
            fleet.kill("agent-2")
        written_ms.extend(round(1000 * when) for when in writer.times)
        ends_ms.append(sealed_upto_ms(fleet, "agent-2"))
        writer.log.unlink()
        writer.log.write_text(FIRST_LINE)
        fleet.restart("agent-2")
        fleet.process("agent-3").signal(signal.SIGCONT)
        sealed = [number for number, at_ms in enumerate(written_ms) if at_ms < ends_ms[0]]
        until(lambda: windows.ids.keys() >= {number for number in sealed if number >= min(windows.ids)})

    with AgentFleet(tmp_path / "agents", specs(tmp_path)) as fleet:
        trio.run(follow, fleet, QUERY, windows, lambda: kill_and_delete(fleet))
        assert fleet.faults() == []
    sealed = {number for number, at_ms in enumerate(written_ms) if at_ms < ends_ms[0]} - set(range(min(windows.ids)))
    print(f"{writer.written} written, {len(sealed)} sealed, {len(set(windows.ids) & sealed)} of them in windows")
    assert len(sealed) > 100
    assert sealed <= windows.ids.keys()
    assert max(windows.ids.values()) == 1, "nobody counts twice"
    assert writer.written > len(sealed) + min(windows.ids), "what was not sealed is gone with the log"
