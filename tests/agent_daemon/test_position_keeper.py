"""What an agent stores of its places in logs while it starts, runs, leaves, and is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agent.configuration.config import StreamConfig
from agent.daemon.position_keeper import STORE_S, UNREAD_S, PositionKeeper
from agent.daemon.sealed_files import SealedFiles
from agent.feeding.reading_ledger import FeedPosition
from agent.runtime.durable.feed_memory import FeedMemory
from agent.runtime.durable.records import EndedJob, SealedRecord
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.source import FileSource

pytestmark = pytest.mark.trio
FIRST, SECOND = JobTerm(1, 10), JobTerm(2, 20)
STREAMS = [StreamConfig("web", FileSource(("/var/log/web.log",)), "auto", None, "end")]


def position(offset: int, *jobs: JobTerm, stream: str = "web", exact: bool = False) -> FeedPosition:
    file = ReadUpTo("/var/log/web.log", (1, 2), 0, "", offset)
    return FeedPosition(stream, (file,), 1000 + offset, dict.fromkeys(jobs, 500), exact)


class FakeFeeds:
    """Feeds that have come to these positions; some never pause."""

    def __init__(self, *positions: FeedPosition, pauses: bool = True) -> None:
        self.now = list(positions)
        self.looks = 0
        self._pauses = pauses

    async def pause(self) -> None:
        if not self._pauses:
            await trio.sleep_forever()

    def take_news(self) -> bool:
        return True

    def positions(self) -> list[FeedPosition]:
        self.looks += 1
        return self.now

    def last_positions(self) -> list[FeedPosition]:
        return [position(99, *one.jobs, exact=True) for one in self.now]


class FakeJournal:
    """Has what the core seals."""

    def __init__(self) -> None:
        self.new: list[SealedRecord] = []

    @property
    def is_urgent(self) -> bool:
        return bool(self.new)

    def take(self) -> list[SealedRecord]:
        new, self.new = self.new, []
        return new

    def end(self, term: JobTerm) -> None:
        self.new.append(EndedJob(term))


class Start:
    """One start of an agent."""

    def __init__(self, folder: Path, incarnation: int, *feeds: FeedPosition, pauses: bool = True) -> None:
        self.warnings: list[str] = []
        self.memory = FeedMemory()
        self.feeds = FakeFeeds(*feeds, pauses=pauses)
        self.file = SealedFiles(folder / "sealed", incarnation, 1 << 30, self.warn)
        self.journal = FakeJournal()
        self.stored: list[tuple[int, bool]] = []
        self.keeper = PositionKeeper(self.file, self.memory, self.journal, STREAMS, self.note_stored, self.warn)

    def note_stored(self, count: int, are_kept: bool) -> None:
        self.stored.append((count, are_kept))

    def warn(self, what: str, why: str) -> None:
        self.warnings.append(f"{what}: {why}")

    async def run_for(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.keeper.run(self.feeds)


async def test_an_agent_that_is_killed_before_its_jobs_are_back_still_knows_their_places(
    tmp_path: Path,
    autojump_clock: MockClock,  # noqa: ARG001
) -> None:
    await Start(tmp_path, 1, position(5, FIRST, SECOND)).run_for(2 * STORE_S)
    second = Start(tmp_path, 2)
    assert set(second.memory.jobs) == {FIRST, SECOND}
    await second.run_for(2 * STORE_S)
    third = Start(tmp_path, 3)
    assert set(third.memory.jobs) == {FIRST, SECOND}
    third.feeds.now = [position(7, FIRST)]
    await third.run_for(2 * STORE_S)
    fourth = Start(tmp_path, 4)
    assert fourth.keeper.remembered["web"].files[0].offset == 5, "one of them has not read on"
    assert fourth.keeper.remembered["web"].jobs == {FIRST: 500, SECOND: 500}


async def test_jobs_that_seal_often_do_not_have_all_places_looked_at_each_time(
    tmp_path: Path,
    autojump_clock: MockClock,  # noqa: ARG001
) -> None:
    start, seals = Start(tmp_path, 1, position(5, FIRST)), 100
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start.keeper.run, start.feeds)
        for number in range(seals):
            await trio.sleep(STORE_S / 10)
            start.journal.end(JobTerm(number, 30))
            start.keeper.settled()
            while sum(count for count, _ in start.stored) <= number:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    looks_max = (trio.current_time() - began) / STORE_S + 1
    assert 5 <= start.feeds.looks <= looks_max


async def test_jobs_that_are_over_or_never_come_back_are_forgotten(tmp_path: Path, autojump_clock: MockClock) -> None:
    await Start(tmp_path, 1, position(5, FIRST, SECOND)).run_for(2 * STORE_S)
    second = Start(tmp_path, 2)
    second.memory.forget(FIRST)
    await second.run_for(2 * STORE_S)
    third = Start(tmp_path, 3)
    assert set(third.memory.jobs) == {SECOND}
    autojump_clock.jump(UNREAD_S + 1.0)
    await third.run_for(2 * STORE_S)
    assert not Start(tmp_path, 4).memory.jobs


async def test_an_agent_that_leaves_stores_where_it_has_stopped_once_all_is_handed_over(
    tmp_path: Path,
    autojump_clock: MockClock,  # noqa: ARG001
) -> None:
    first = Start(tmp_path, 1, position(5, FIRST))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.keeper.run, first.feeds)
        await trio.sleep(2 * STORE_S)
        await first.keeper.pause(first.feeds, 2.0)
        first.feeds.now = []
        await trio.sleep(2 * STORE_S)
        nursery.cancel_scope.cancel()
    assert Start(tmp_path, 2).keeper.remembered == {"web": position(5, FIRST)}, "not yet"
    await first.keeper.left()
    assert Start(tmp_path, 2).keeper.remembered == {"web": position(99, FIRST, exact=True)}


async def test_feeds_that_do_not_stop_in_time_keep_their_last_stored_place(
    tmp_path: Path,
    autojump_clock: MockClock,  # noqa: ARG001
) -> None:
    first = Start(tmp_path, 1, position(5, FIRST), pauses=False)
    await first.run_for(2 * STORE_S)
    await first.keeper.pause(first.feeds, 2.0)
    await first.keeper.left()
    assert Start(tmp_path, 2).keeper.remembered == {"web": position(5, FIRST)}


async def test_a_disk_that_takes_nothing_is_warned_of(tmp_path: Path, autojump_clock: MockClock) -> None:  # noqa: ARG001
    first = Start(tmp_path / "missing", 1, position(5, FIRST))
    await first.run_for(2 * STORE_S)
    assert first.warnings
    assert set(first.warnings) == {"places in logs and sealed panes are not kept: No such file or directory"}


async def test_streams_that_are_not_configured_any_more_are_left_out(tmp_path: Path, autojump_clock: MockClock) -> None:  # noqa: ARG001
    Start(tmp_path, 1).file.write([position(5, FIRST, stream="gone")], [])
    assert not Start(tmp_path, 2).memory.jobs
