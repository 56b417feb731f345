"""Agents with an archive, as processes: what they archive, whoever is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl
import pytest
from agent_process import AgentProcess, eventually
from elf_command import elf
from test_agent_fleet import AUTHORITY

from agent.archive.format.log import read_info, read_state

pytestmark = pytest.mark.live
LINE = '10.0.0.%d - - [17/May/2015:10:05:%02d +0000] "GET /item/%d HTTP/1.1" 200 512 "-" "curl/8.5"\n'


class ArchivingAgent(AgentProcess):
    """An agent that archives what a web server writes beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, AUTHORITY, "web-1")
        self.config += 'read_from = "beginning"\n[archive]\ndirectory = "archive"\ndisk_free_min = "1 MiB"\n'
        self.lines_written: list[str] = []

    def serve(self, requests: int) -> None:
        """The web server writes some lines."""
        first = len(self.lines_written)
        lines = [LINE % (number % 250, number % 60, number) for number in range(first, first + requests)]
        with (self.folder / "access.log").open("a") as log:
            log.writelines(lines)
        self.lines_written += lines

    def archiver(self, number: int = 0) -> int:
        """The process id of the archiver that was started as so many before."""
        starts = eventually(
            lambda: [line for line in self.events() if line["event"] == "archiver started"][number:], "an archiver"
        )
        return int(starts[0]["pid"])

    def archiving(self, number: int = 0) -> int:
        """The same, once it archives."""
        pid = self.archiver(number)
        begun = [line["event"] for line in self.events()]
        eventually(lambda: [line["event"] for line in self.events()].count("archiving") > number, f"archives: {begun}")
        return pid

    def holds(self, size: int) -> bool:
        """Whether the archiver says that it has so many bytes to archive."""
        return self._lag_bytes() == size

    def has_seen(self, lines: int) -> bool:
        """Whether the last lines wait to be archived, or all are."""
        size = sum(len(line) for line in self.lines_written[-lines:])
        return self._lag_bytes() >= size or rows(self).height == len(self.lines_written)

    def _lag_bytes(self) -> int:
        archive = self.status().archive
        return archive.streams[0].lag_bytes if archive is not None and archive.streams else 0


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def rows(agent: ArchivingAgent) -> pl.DataFrame:
    store = agent.folder / "archive"
    assert read_info(store).agent == "web-1"
    return pl.concat(pl.read_parquet(store / segment.file) for segment in read_state(store).segments.values())


def test_every_line_is_archived_once_though_archiver_and_agent_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # no path is too long for a line
    with ArchivingAgent(tmp_path) as agent:
        agent.serve(1000)
        agent.start().ready()
        first = agent.archiving()
        size = (agent.folder / "access.log").stat().st_size
        eventually(lambda: agent.holds(size), "it has seen the log")
        code, shown, _ = elf(tmp_path, "status", "--socket", str(agent.control_socket))
        assert (code, "ARCHIVED" in shown, "archive   /" in shown) == (0, True, True), shown
        os.kill(first, signal.SIGKILL)
        agent.serve(500)
        second = agent.archiving(1)
        agent.tell(signal.SIGKILL)
        agent.wait()
        eventually(lambda: is_gone(second), "the archiver ends with the agent")
        agent.serve(250)
        (agent.folder / "access.log").rename(agent.folder / "access.log.1")
        agent.serve(125)
        agent.start().ready()
        agent.archiving()
        agent.serve(60)
        eventually(lambda: agent.has_seen(250 + 125 + 60), "it has seen what was written meanwhile")
        assert agent.stop() == 0
        found = rows(agent)
        assert sorted(found["raw:line"].to_list()) == sorted(line.rstrip().encode() for line in agent.lines_written)
        assert found["key"].n_unique() == found.height
        assert found["parsed:status"].unique().to_list() == [200]


def test_an_agent_lives_on_without_its_archive(tmp_path: Path) -> None:
    with ArchivingAgent(tmp_path) as agent:
        agent.change('"archive"', '"/proc/archive"')
        agent.start().ready()
        said = agent.event("archive waits")
        assert said["fault"].startswith("/proc/archive")
        shown = eventually(lambda: agent.status().archive, "the status of the archive")
        assert shown.fault == said["fault"]
        assert agent.stop() == 0
