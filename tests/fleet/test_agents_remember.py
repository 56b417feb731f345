"""Agents that are killed or ended while their servers write on: each line is in one window, or counted late."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from numbered_lines import Rotate, Windows, Writer, check, count_while

import elf
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from overlay import app_id

pytestmark = pytest.mark.live
APP = "ids"
MASTER = int(app_id(APP, b""))
QUERY = "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 1 SECOND GRACE 2 SECONDS"
LONG = QUERY.replace("1 SECOND ", "8 SECONDS ")
PATIENCE_S = 60.0


def nothing(_log: Path) -> None:
    """The log stays."""


def rename(log: Path) -> None:
    log.rename(log.with_name(f"{log.name}.{time.monotonic_ns()}"))


def rename_and_create(log: Path) -> None:
    rename(log)
    log.touch()


def truncate(log: Path) -> None:
    """As `copytruncate` does: what was not read by then is gone."""
    with log.open("r+") as file:
        file.truncate()


@contextmanager
def remembering(folder: Path, *, has_times: bool = True) -> Iterator[tuple[AgentFleet, Writer]]:
    """Two agents; the job's master is on the first, and the second's server writes."""
    log = folder / "web.json"
    log.write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n' if has_times else '{"id": -1}\n')
    (folder / "quiet.json").write_text('{"time": "2026-01-01T00:00:00Z", "id": -1}\n')
    specs = [
        AgentSpec("agent-1", (StreamFiles("web", (str(folder / "quiet.json"),)),), MASTER),
        AgentSpec("agent-2", (StreamFiles("web", (str(log),)),), MASTER ^ (1 << 127)),
    ]
    with AgentFleet(folder / "agents", specs) as fleet:
        yield fleet, Writer(log, has_times=has_times)
        assert fleet.faults() == []


async def follow(
    fleet: AgentFleet, query: str, windows: Windows, body: Callable[[], None], through: str = "agent-1"
) -> None:
    """Runs what restarts agents in a thread, while the job is followed; then waits until all is counted."""
    await count_while(body, fleet.socket(through), len(fleet.names), query, APP, windows)


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def lived(
    folder: Path, rounds: list[tuple[str, Rotate]], query: str = QUERY, *, has_times: bool = True, beside: str = ""
) -> tuple[Writer, Windows]:
    chance, windows = random.Random(len(rounds)), Windows()
    has_lost = any(rotate is truncate for _, rotate in rounds)
    with remembering(folder, has_times=has_times) as (fleet, writer):

        def restarts() -> None:
            if beside:
                socket = fleet.socket("agent-1")
                with (
                    elf.connect_sync(socket) as client,
                    client.query(beside, app="beside", detach=True, max_groups=10_000),
                ):
                    pass
            with writer.writing():
                until(lambda: windows.counted() > 0)
                for how, rotate in rounds:
                    time.sleep(chance.uniform(0.2, 2.0))
                    if how == "SIGKILL":
                        fleet.kill("agent-2")
                    else:
                        assert fleet.terminate("agent-2") == 0
                    writer.rotate(rotate)
                    fleet.restart("agent-2")
                    before = windows.counted()
                    until(lambda before=before: windows.counted() > before + 20)  # type: ignore[misc]
            until(lambda: windows.counted() >= writer.written or has_lost, 20.0)
            until(lambda: max(windows.ids) >= writer.written - 1)

        trio.run(follow, fleet, query, windows, restarts)
    return writer, windows


def test_what_was_written_while_an_agent_was_killed_is_in_its_windows(tmp_path: Path) -> None:
    writer, windows = lived(tmp_path, [("SIGKILL", rename)], LONG)
    check(writer, windows)
    assert windows.late == 0 or windows.incomplete, "\n".join(windows.told)


@pytest.mark.parametrize("how", ["SIGKILL", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_lines_without_a_time_count_at_least_once(tmp_path: Path, how: str) -> None:
    """Another job needs older lines than this one, which are read again with the time of that: see guarantees.md."""
    writer, windows = lived(tmp_path, [(how, nothing)], has_times=False, beside=LONG)
    lost = set(range(min(windows.ids), writer.written)) - set(windows.ids)
    again = sum(count - 1 for count in windows.ids.values())
    print(f"{writer.written} written, {windows.late} late, {len(lost)} in no window, {again} counted again")
    assert len(lost) <= windows.late, "nothing is lost"
    assert again == 0 or how == "SIGKILL", "nothing is read again after an orderly end"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_restarts_and_rotations(tmp_path: Path, how: str) -> None:
    rounds = [(how, rotate) for rotate in (nothing, rename, rename_and_create) for _ in range(2)]
    check(*lived(tmp_path, rounds))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_what_truncation_has_taken_is_said(tmp_path: Path, how: str) -> None:
    writer, windows = lived(tmp_path, [(how, truncate)])
    lost = set(range(min(windows.ids), writer.written)) - set(windows.ids)
    assert max(windows.ids.values()) == 1, "nobody counts twice"
    assert len(lost) >= windows.late
    assert windows.incomplete, "and windows name the agent:\n" + "\n".join(windows.told)
