"""Records of jobs beside the loop: written together, told when they are durable, and no trouble if the disk is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio
from test_job_files import begun, later, summary

from agent.daemon import job_journal
from agent.daemon.job_files import JobFiles
from agent.daemon.job_journal import LAZY_S, WAITING_BYTES_MAX, JobJournal
from agent.runtime.messages.job_records import LinesRecord
from agent.runtime.messages.programs import Line
from overlay import Id


class Journal:
    """A journal in a folder, and what it has told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stored: list[int] = []
        self.said: list[tuple[str, str]] = []
        self.repeats = 0
        self.journal = JobJournal(JobFiles(folder), self.stored.append, self._repeat, self._warn)

    def _repeat(self) -> None:
        self.repeats += 1
        self.journal.add(begun(1))

    def _warn(self, what: str, why: str) -> None:
        self.said.append((what, why))

    def kept(self) -> dict[int, tuple[int, int, list[int], list[str]]]:
        return summary(JobFiles(self.folder).read())


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


async def until_stored(journal: Journal, count: int) -> None:
    with trio.fail_after(30):
        while sum(journal.stored) < count:
            await trio.sleep(0)


@pytest.mark.trio
async def test_what_comes_at_once_is_durable_with_one_fsync(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (synced.append(file), real(file)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.journal.run)
        for app in range(200):
            journal.journal.add(begun(app))
        await until_stored(journal, 200)
        assert len(synced) == 1
        assert len(journal.kept()) == 200
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_what_waits_is_written_at_the_end(journal: Journal) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.journal.run)
        journal.journal.add(begun(1))
        nursery.cancel_scope.cancel()
    assert set(journal.kept()) == {1}


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_lines_of_a_log_wait_for_others_a_while(journal: Journal) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.journal.run)
        journal.journal.add(begun(1))
        await until_stored(journal, 1)
        since = trio.current_time()
        for number in range(5):
            journal.journal.add(LinesRecord(Id(1), [Line(0, "a", str(number))]))
        while len(journal.stored) < 2:
            await trio.sleep(0.1)
        assert trio.current_time() - since >= LAZY_S
        assert journal.stored == [1, 5]
        nursery.cancel_scope.cancel()
    assert journal.kept()[1][3] == ["0", "1", "2", "3", "4"]


@pytest.mark.trio
@pytest.mark.usefixtures("autojump_clock")
async def test_a_full_disk_is_told_nobody_waits_for_it_and_all_is_written_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(job_journal, "RETRY_S", 3.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.journal.run)
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            journal.journal.add(begun(1))
            while not journal.stored:
                await trio.sleep(0.1)
            journal.journal.add(later(1, 1))
            while len(journal.stored) < 2:
                await trio.sleep(0.1)
            assert journal.repeats == 0, "nothing waits while the disk is full"
        assert journal.said == [("jobs are not kept", "no space left on device")]
        assert journal.kept() == {}
        while not journal.repeats:
            await trio.sleep(0.1)
        assert journal.repeats == 1
        journal.journal.add(later(1, 2))
        while sum(journal.stored) < 4:
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert journal.kept() == {1: (1, 2000, [2000], [])}


@pytest.mark.trio
async def test_a_disk_that_is_too_slow_costs_no_more_memory(journal: Journal) -> None:
    record = later(1, 1)
    large = type(record)(**{name: getattr(record, name) for name in record.__struct_fields__} | {
        "results": [(1000, bytes(WAITING_BYTES_MAX // 4))]
    })  # fmt: skip
    for _ in range(20):
        journal.journal.add(large)
    assert sum(journal.stored) == 16, "nobody waits for those that were dropped"
