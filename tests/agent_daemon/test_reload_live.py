"""A running agent is given other configurations: jobs go on without losing a line, faults change nothing."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess, eventually
from elf_command import elf
from test_agent_fleet import AUTHORITY, Conversation

from agent.archive.format.log import read_info
from agent.control.messages import ConfigStatus, PublishedWindow, QueryRequest

pytestmark = pytest.mark.live
QUERY = (
    'SELECT product, COUNT(*) AS n, MIN(seq) AS first, MAX(seq) AS last FROM "w*" GROUP BY product'
    " WINDOWING 1 SECOND GRACE 1 SECOND"
)


@contextmanager
def written(folder: Path, *, timed: bool = False, **products: str) -> Iterator[None]:
    """Logs (`name="product"`) to which numbered events are written all the time; `timed`: with their times."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.02):
            number += 1
            time = {"time": datetime.now(UTC).isoformat()} if timed else {}
            for name, product in products.items():
                with (folder / f"{name}.log").open("a") as file:
                    file.write(json.dumps({"product": product, "seq": number} | time) + "\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def windows_until(asked: Conversation, products: set[str]) -> list[dict[str, Any]]:
    """Windows up to the first in which these products are, and no others, from beginning to end."""
    found: list[dict[str, Any]] = []
    while not found or {row["product"] for row in found[-1]["rows"]} != products or found[-1]["partial"]:
        found.append(json.loads(bytes(asked.until(PublishedWindow).result)))
    return found


def test_a_new_configuration_is_in_force_without_a_restart(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "a", AUTHORITY).change("*.log", "web.log")
    more = agent.folder / "conf.d" / "more.toml"
    more.parent.mkdir()
    socket = ("--socket", str(agent.control_socket))
    with agent, written(agent.folder, web="a", more="b"):
        agent.start().ready()
        with Conversation(agent, QueryRequest(QUERY)) as asked:
            windows = windows_until(asked, {"a"})
            more.write_text('log_level = "debug"\nrack = "b"\n[[streams]]\nname = "w2"\npaths = ["more.log"]\n')
            code, out, _ = elf(tmp_path, "reload", *socket)
            assert (code, out.splitlines()) == (
                0,
                [
                    'log_level: "debug" (was "info")',
                    "stream w2: added",
                    'rack: "b" (was not set): needs a restart',
                    "configuration 2 is in force",
                ],
            )
            windows += windows_until(asked, {"a", "b"})

            more.write_text('log_level = "loud"\n[[streams]]\nname = "web"\n')
            code, out, complaint = elf(tmp_path, "reload", *socket)
            assert (code, out, complaint.splitlines()) == (
                2,
                "",
                [
                    f"{more}:1: log_level: 'loud' is none of debug, info, warning, error",
                    f"{more}:2: streams[0].paths: is missing",
                    f"{more}:3: streams[0].name: 'web' is the name of streams[0] in "
                    f"{agent.folder / 'agent.toml'}:10 already",
                    "configuration 2 stays in force",
                ],
            )
            agent.tell(signal.SIGHUP)
            refused = agent.where(lambda line: line.get("asked_by") == "SIGHUP", "the refused one")
            assert (refused["event"], len(refused["faults"])) == ("configuration not reloaded", 3)
            path = str(agent.folder / "agent.toml")
            assert agent.status().config == ConfigStatus(path, 2, ['rack: "b" (was not set)'])
            windows += windows_until(asked, {"a", "b"})

            more.unlink()
            agent.tell(signal.SIGHUP)
            windows += windows_until(asked, {"a"})
        reloaded = agent.where(lambda line: line.get("generation") == 3, "the third")
        assert (reloaded["event"], reloaded["restart"]) == ("configuration reloaded", [])
        assert reloaded["changes"] == ['log_level: "info" (was "debug")', "stream w2: removed"]
        assert [stream.name for stream in eventually(agent.status, "it answers").streams] == ["web"]
        assert agent.stop() == 0
    ends = [window["window_end"] for window in windows]
    told = [(window["late"], window["dropped"], window["missing"]) for window in windows]
    assert told == [(0, 0, [])] * len(windows), f"windows lack lines, and say so: {windows}"
    assert len(set(ends)) == len(ends), f"a window comes twice: {ends}"
    rows = [row for window in windows for row in window["rows"] if row["product"] == "a"]
    assert all(row["last"] - row["first"] + 1 == row["n"] for row in rows), f"lines are lost within a window: {rows}"
    assert [row["first"] for row in rows[1:]] == [row["last"] + 1 for row in rows[:-1]], (
        f"lines are lost or read twice between windows: {rows}; windows: {ends}"
    )


def test_an_archive_comes_and_goes_without_a_restart(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "a", AUTHORITY)
    more = agent.folder / "conf.d" / "archive.toml"
    more.parent.mkdir()
    (agent.folder / "web.log").write_text('{"time": "2026-01-01T00:00:00Z", "product": "a"}\n')
    store, socket = agent.folder / "archive", ("--socket", str(agent.control_socket))
    with agent.start().ready():
        assert agent.status().archive is None
        more.write_text('[archive]\ndirectory = "archive"\ndisk_free_min = "1 MiB"\n')
        code, out, _ = elf(tmp_path, "reload", *socket)
        assert (code, out.splitlines()[-1]) == (0, "configuration 2 is in force")
        assert out.startswith("archive.directory: ")
        pid = int(agent.event("archiver started")["pid"])
        shown = eventually(lambda: agent.status().archive, "it archives")
        assert shown.directory == str(store)
        more.write_text('[archive]\ndirectory = "/proc/archive"\n')
        assert elf(tmp_path, "reload", *socket)[0] == 0
        eventually(lambda: (now := agent.status().archive) and "/proc/archive" in now.fault, "it says what is wrong")
        more.unlink()
        assert elf(tmp_path, "reload", *socket)[0] == 0
        eventually(lambda: agent.status().archive is None, "there is none any more")
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "the first archiver is gone")
        assert agent.stop() == 0
    assert read_info(store).agent == agent.name
    assert not [line for line in agent.events() if line["level"] == "error"]
