"""Feeding an agent: what its jobs want to read reaches them once, in order, in time and in small steps."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import trio
from seeds import seeds

from agent.configuration.config import StreamConfig
from agent.control.status_report import stream_counters
from agent.feeding.feeds import NOTHING_REMEMBERED, Feeds
from agent.feeding.reading import ROWS_PER_INSERT, Columns, FeedReader, ReadBatch
from agent.feeding.reading_ledger import FeedPosition
from agent.parsing import Parsed, Parser, SourceColumn
from agent.runtime.durable.feed_memory import REMEMBERED, FeedNeeds
from agent.runtime.durable.records import Place
from agent.runtime.ingest.feed import Feed, FeedKey, FeedUrgency
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.backlog import BoundedReader
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.source import FileSource
from agent.sources.file.tail import TailReader

pytestmark = pytest.mark.trio
NUMBER = SourceColumn("number", ("number",), "any")
WORD = SourceColumn("word", ("word",), "any")
DAY_MS = 1_767_225_600_000  # 2026-01-01
JOB = JobTerm(1, 2)


class FakeAgent:
    """Wants what it is told to want, and keeps what it gets."""

    def __init__(self, *feeds: Feed) -> None:
        self.wanted = feeds
        self.events: dict[FeedKey, list[tuple[Any, ...]]] = {}
        self.malformed = 0
        self.rows_at_once: list[int] = []
        self.places: list[Place | None] = []
        self.watermarks: list[int | None] = []
        self.said: list[tuple[str, FeedKey]] = []
        self.caught_up_ms: list[int] = []
        self.lacking: dict[FeedKey, bool] = {}
        self.was_lacking = False
        self.needed: dict[FeedKey, FeedNeeds] = {}
        self.full: set[FeedKey] = set()
        self.asked_for_room = 0
        self.clock = 0.0
        self.on_insert: Callable[[], None] = lambda: None

    def feeds(self) -> tuple[Feed, ...]:
        return self.wanted

    def insert(
        self, key: FeedKey, parsed: Parsed, now: float, wall_ms: int, place: Place | None = None, read: object = None
    ) -> None:
        assert read is not None
        self.places.append(place)
        self._note_time(now, wall_ms)
        (feed,) = (feed for feed in self.wanted if feed.key == key)
        for frame in parsed.frames:
            if not {column.name for column in feed.columns} <= set(frame.columns):
                # Was read before a job joined, and that job alone may do without it.
                frame = frame.with_columns(pl.lit(None).alias(column.name) for column in feed.columns[1:])
            rows = frame.select("@time", *(column.name for column in feed.columns)).rows()
            self.events.setdefault(key, []).extend(rows)
        self.rows_at_once.append(sum(frame.height for frame in parsed.frames))
        self.watermarks.append(parsed.watermark_ms)
        self.malformed += parsed.malformed
        self.on_insert()

    def observe(self, now: float, wall_ms: int) -> int:
        self._note_time(now, wall_ms)
        return wall_ms

    def caught_up(self, key: FeedKey, now: float, wall_ms: int) -> None:
        self._note_time(now, wall_ms)
        self.said.append(("caught up", key))
        self.caught_up_ms.append(wall_ms)

    def next_due(self, key: FeedKey, after_ms: int) -> float | None:  # noqa: ARG002
        return None

    def urgency(self, key: FeedKey) -> FeedUrgency:  # noqa: ARG002
        return FeedUrgency(None, 1.0)

    def has_room(self, key: FeedKey) -> bool:
        self.asked_for_room += 1
        return key not in self.full

    def began(self, key: FeedKey, reading: object) -> None:
        pass

    def kept_place(self, key: FeedKey) -> Any:  # noqa: ARG002
        return None

    abandoned_ms = look_s = kept_place

    def lacks(self, key: FeedKey, some: bool) -> None:
        self.lacking[key] = some
        self.was_lacking |= some

    def lost(self, key: FeedKey, upto_ms: int) -> None:
        assert upto_ms > DAY_MS
        self.said.append(("lost", key))

    def needs(self, key: FeedKey) -> FeedNeeds | None:
        return self.needed.get(key)

    def end_of_feed(self, key: FeedKey, now: float, wall_ms: int) -> None:
        self._note_time(now, wall_ms)
        self.said.append(("ended", key))

    def _note_time(self, now: float, wall_ms: int) -> None:
        assert now >= self.clock
        assert wall_ms > DAY_MS
        self.clock = now

    def numbers(self, key: FeedKey) -> list[int]:
        return [row[1] for row in self.events.get(key, [])]


def live(stream: str = "web", *columns: SourceColumn, start: str = "end", app_id: int | None = None) -> Feed:
    return Feed(stream, app_id, start, False, columns or (NUMBER,))  # type: ignore[arg-type]


def bounded(stream: str = "web", app_id: int = 1) -> Feed:
    return Feed(stream, app_id, "beginning", True, (NUMBER,))


def stream(*paths: Path, name: str = "web", kind: str = "auto") -> StreamConfig:
    return StreamConfig(name, FileSource(tuple(map(str, paths))), kind, None, "end")


def write(path: Path, numbers: Sequence[int], *, time_ms: int = DAY_MS, word: str = "w") -> None:
    lines = (json.dumps({"time": time_ms + number, "number": number, "word": word}) for number in numbers)
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(120):
        while not condition():
            await trio.sleep(0.002)


def make_feeds(
    agent: FakeAgent,
    *streams: StreamConfig,
    pump: Callable[[], None] = lambda: None,
    remembered: Mapping[str, FeedPosition] = NOTHING_REMEMBERED,
) -> Feeds:
    return Feeds(
        agent, streams, clock=time.monotonic, wall_ms=lambda: int(time.time() * 1000), pump=pump, poll_s=0.005,
        remembered=remembered,
    )  # fmt: skip


async def test_the_first_end_is_no_later_than_what_is_read_meanwhile(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Else events without a time that are read before an agent is told of the first batch would be late."""
    log = tmp_path / "access.log"
    write(log, [0])
    agent, stood_still = FakeAgent(live()), [0]
    feeds = Feeds(
        agent, [stream(log)], clock=time.monotonic, wall_ms=lambda: DAY_MS + 1 + stood_still[0], pump=lambda: None,
        poll_s=0.005,
    )  # fmt: skip
    agent.began = lambda *_: stood_still.append(stood_still.pop() + 500)  # type: ignore[method-assign]
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 1)
    assert agent.caught_up_ms[:2] == [DAY_MS + 1, DAY_MS + 501]


async def test_new_lines_reach_the_agent_and_it_is_told_when_there_are_no_more(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    agent, pumped = FakeAgent(live()), []
    feeds = make_feeds(agent, stream(log), pump=lambda: pumped.append(1))
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 2)
    assert set(agent.said) == {("caught up", ("web", None))}
    assert not agent.events, "a stream read from its end begins with what comes next"
    for number in range(1, 30):
        write(log, [number])
        await trio.sleep(0.001)
    await until(lambda: len(agent.numbers(("web", None))) == 29)
    assert agent.numbers(("web", None)) == list(range(1, 30))
    assert len(pumped) == len(agent.said) + len(agent.rows_at_once)
    assert agent.caught_up_ms == sorted(agent.caught_up_ms)
    statistics = feeds.statistics()["web"]
    assert (statistics.events, statistics.malformed, statistics.files) == (29, 0, 1)
    assert statistics.bytes_read == log.stat().st_size - len('{"time": 1767225600000, "number": 0, "word": "w"}\n')
    assert statistics.events_per_s > 0
    assert statistics.at_end


async def test_a_bounded_feed_ends_and_is_not_read_again(tmp_path: Path, nursery: trio.Nursery) -> None:
    write(tmp_path / "b.log", range(10, 20))
    write(tmp_path / "a.log", range(10))
    with (tmp_path / "a.log").open("a") as file:
        file.write("no event\n")
    agent = FakeAgent(bounded())
    feeds = make_feeds(agent, stream(tmp_path / "*.log"))
    nursery.start_soon(feeds.run)
    await until(lambda: bool(agent.said))
    write(tmp_path / "b.log", [99])
    await trio.sleep(0.05)
    assert agent.said == [("ended", ("web", 1))]
    assert agent.numbers(("web", 1)) == list(range(20)), "in the order of the files' names"
    assert agent.malformed == 1
    agent.wanted = ()
    feeds.reconcile()
    agent.wanted = (bounded(),)
    feeds.reconcile()
    await until(lambda: len(agent.said) == 2)
    assert agent.numbers(("web", 1)) == [*range(20), *range(20), 99]


@pytest.mark.parametrize("others", seeds(None, slow=["no line of any log\n"]))
@pytest.mark.parametrize("feed", [bounded(), live(start="beginning", app_id=1)])
async def test_files_that_cannot_be_read_make_a_feed_partial(
    tmp_path: Path, nursery: trio.Nursery, feed: Feed, others: str | None
) -> None:
    write(tmp_path / "a.log", [1])
    agent = FakeAgent(feed)
    nursery.start_soon(make_feeds(agent, stream(tmp_path / "a.log", tmp_path / "b.log")).run)
    await until(lambda: bool(agent.said))
    assert not agent.lacking[feed.key], "one of the patterns may match nothing"
    if others is None:
        (tmp_path / "a.log").unlink()
    else:
        (tmp_path / "b.log").write_text(others)
    agent = FakeAgent(feed)
    nursery.start_soon(make_feeds(agent, stream(tmp_path / "a.log", tmp_path / "b.log")).run)
    await until(lambda: agent.lacking.get(feed.key, False))


async def test_nothing_is_read_that_no_job_wants(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    agent = FakeAgent()
    feeds = make_feeds(agent, stream(log))
    nursery.start_soon(feeds.run)
    await trio.sleep(0.03)
    assert feeds.statistics()["web"].files == 0
    agent.wanted = (live(), live(start="beginning", app_id=7))
    await until(lambda: len(set(agent.said)) == 2)
    assert agent.numbers(("web", 7)) == [0]
    agent.wanted = (live(),)
    feeds.reconcile()
    said = len(agent.said)
    write(log, [1])
    await until(lambda: agent.numbers(("web", None)) == [1])
    assert agent.numbers(("web", 7)) == [0]
    assert ("caught up", ("web", 7)) not in agent.said[said:]
    agent.wanted = ()
    await until(lambda: feeds.statistics()["web"].files == 0)
    assert feeds.statistics()["web"].events == 2, "what was read stays counted"


async def test_nothing_is_kept_of_a_feed_that_goes_as_it_is_read(tmp_path: Path, nursery: trio.Nursery) -> None:
    path = tmp_path / "web.log"
    write(path, range(3))
    agent = FakeAgent(live(start="beginning"))
    feeds = make_feeds(agent, stream(path))
    ended: list[trio.Event] = []

    def stop() -> None:
        ended.extend(reading.ended for reading in feeds._readings.values())
        agent.wanted = ()
        feeds.reconcile()

    agent.on_insert = stop
    nursery.start_soon(feeds.run)
    await until(lambda: bool(ended))
    await ended[0].wait()
    assert not feeds._times._means


async def test_what_is_read_after_a_job_joined_has_its_columns(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "access.log"
    write(log, range(300_000))
    agent = FakeAgent(live(start="beginning", app_id=7))
    joined_at = 0

    def join() -> None:
        nonlocal joined_at
        if len(agent.rows_at_once) == 5:
            joined_at = len(agent.events[("web", 7)])
            agent.wanted = (live("web", NUMBER, WORD, start="beginning", app_id=7),)

    agent.on_insert = join
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: bool(agent.said))
    assert sorted(agent.numbers(("web", 7))) == list(range(300_000))
    without = [row[2] for row in agent.events[("web", 7)][joined_at:]].count(None)
    assert without <= ROWS_PER_INSERT, "at most the rest of the block that was being inserted"


async def test_inserts_are_small_whatever_the_lines_are_like(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "tiny.log"
    log.write_text('{"number":1}\n' * 400_000)
    agent = FakeAgent(bounded())
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: bool(agent.said))
    assert sum(agent.rows_at_once) == 400_000
    assert max(agent.rows_at_once) <= ROWS_PER_INSERT


async def test_the_watermark_is_that_of_the_file_furthest_behind(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Read one after the other, the second file's events would all be late."""
    for name in ("a.log", "b.log", "c.log"):
        write(tmp_path / name, range(100_000))
    write(tmp_path / "a.log", [10**12])  # of the year 2057: says nothing about the file
    agent = FakeAgent(live(start="beginning", app_id=7))
    late = 0

    def compare() -> None:
        nonlocal late
        watermark = max((mark for mark in agent.watermarks[:-1] if mark is not None), default=0)
        fresh = agent.events[("web", 7)][-agent.rows_at_once[-1] :]
        late += sum(row[0] < watermark for row in fresh)

    agent.on_insert = compare
    nursery.start_soon(make_feeds(agent, stream(tmp_path / "*.log")).run)
    await until(lambda: bool(agent.said))
    assert len(agent.numbers(("web", 7))) == 300_001
    assert late == 0
    assert agent.watermarks[-1] == DAY_MS + 99_999
    assert len(set(agent.watermarks)) > 3, "it moves on along the way"


async def test_a_file_without_events_does_not_hold_back_the_others(tmp_path: Path, nursery: trio.Nursery) -> None:
    write(tmp_path / "good.log", range(1000))
    write(tmp_path / "bad.log", [0])
    with (tmp_path / "bad.log").open("a") as file:
        file.write("garbage\n" * 600_000)
    agent = FakeAgent(live(start="beginning", app_id=7))
    nursery.start_soon(make_feeds(agent, stream(tmp_path / "*.log", kind="json")).run)
    await until(lambda: bool(agent.said))
    assert agent.malformed == 600_000
    assert len(agent.numbers(("web", 7))) == 1001
    assert agent.watermarks[-1] == DAY_MS + 999


async def test_a_feed_whose_jobs_have_no_room_waits_and_loses_nothing(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "access.log"
    write(log, range(100))
    agent = FakeAgent(bounded())
    agent.full.add(bounded().key)
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: agent.asked_for_room > 3)
    assert not agent.events
    agent.full.clear()
    await until(lambda: bool(agent.said))
    assert agent.numbers(bounded().key) == list(range(100))


async def test_a_slow_agent_holds_the_reading_back(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "access.log"
    write(log, range(200_000), word="w" * 100)
    read_bytes = given_bytes = most_ahead = 0
    read = FeedReader.read

    def counting(reader: FeedReader, columns: Columns, now: float, wall_ms: int, *more: Any) -> ReadBatch:
        nonlocal read_bytes
        found = read(reader, columns, now, wall_ms, *more)
        read_bytes += sum(len(parsed.piece.block.data) for parsed in found.blocks)
        return found

    def compare() -> None:
        nonlocal given_bytes, most_ahead
        most_ahead = max(most_ahead, read_bytes - given_bytes)
        given_bytes += agent.rows_at_once[-1] * log.stat().st_size // 200_000
        time.sleep(0.005)  # not even an agent that blocks everyone is overrun

    monkeypatch.setattr(FeedReader, "read", counting)
    agent = FakeAgent(bounded())
    agent.on_insert = compare
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: bool(agent.said))
    assert read_bytes == log.stat().st_size > 25 << 20
    assert most_ahead < 16 << 20


async def test_the_event_loop_goes_on_while_a_backlog_is_read(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "access.log"
    write(log, range(100_000), word="w" * 100)
    agent = FakeAgent(bounded())
    went_on, read, reads = threading.Event(), FeedReader.read, 0

    def read_meanwhile(reader: FeedReader, columns: Columns, now: float, wall_ms: int, *more: Any) -> ReadBatch:
        nonlocal reads
        reads += 1
        for _ in range(10):
            went_on.clear()
            assert went_on.wait(60.0), "the loop waits for the thread that reads"
        return read(reader, columns, now, wall_ms, *more)

    async def beat() -> None:
        while True:
            went_on.set()
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(FeedReader, "read", read_meanwhile)
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    nursery.start_soon(beat)
    await until(lambda: bool(agent.said))
    assert reads > 1
    assert agent.said == [("ended", ("web", 1))]
    assert sum(agent.rows_at_once) == 100_000


async def test_soon_after_the_end_there_is_no_thread_and_no_file(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    write(log, range(300_000))
    agent = FakeAgent(bounded(), live(), live(start="beginning", app_id=7))
    feeds = make_feeds(agent, stream(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feeds.run)
        await until(lambda: len(agent.rows_at_once) > 1)
        nursery.cancel_scope.cancel()
    inserted = len(agent.rows_at_once)
    await until(lambda: feeds._threads.borrowed_tokens == 0)
    await trio.sleep(0.05)
    assert len(agent.rows_at_once) == inserted
    open_files = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            open_files.append(str(entry.readlink()))
        except OSError:
            continue
    assert str(log) not in open_files


async def test_a_quiet_stream_is_looked_at_without_threads(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.major(tmp_path.stat().st_dev) == 0:
        pytest.skip("the files of tests are on no disk: looking at them might block")
    log = tmp_path / "access.log"
    write(log, [0])
    reads, read = 0, FeedReader.read

    def counting(reader: FeedReader, columns: Columns, now: float, wall_ms: int, *more: Any) -> ReadBatch:
        nonlocal reads
        reads += 1
        return read(reader, columns, now, wall_ms, *more)

    monkeypatch.setattr(FeedReader, "read", counting)
    agent = FakeAgent(live())
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: len(agent.said) >= 100)
    assert reads < 50
    write(log, [1])
    await until(lambda: agent.numbers(("web", None)) == [1])


async def test_faults_are_said_and_counted(
    tmp_path: Path, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dir.log").mkdir()
    write(tmp_path / "good.log", [1])
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 10 + b"\n")
    agent = FakeAgent(bounded())
    feeds = make_feeds(agent, stream(tmp_path / "*.log"))
    nursery.start_soon(feeds.run)
    await until(lambda: bool(agent.said))
    faults = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert faults == [
        {"stream": "web", "fault": f"{tmp_path}/dir.log: is a directory, not a file"},
        {"stream": "web", "fault": f"{tmp_path}/binary.log: is binary, not log text"},
    ]
    assert agent.numbers(("web", 1)) == [1]
    assert stream_counters(feeds.statistics()) == {"stream.web.unreadable": 2}


async def test_a_block_that_breaks_its_parser_costs_only_itself(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "access.log"
    write(log, range(5))
    agent = FakeAgent(live(start="beginning", app_id=7))

    def broken(*_: object) -> Parser:
        raise RuntimeError("no way")

    with monkeypatch.context() as patch:
        patch.setattr("agent.feeding.reading.parser", broken)
        nursery.start_soon(make_feeds(agent, stream(log)).run)
        await until(lambda: agent.malformed == 5)
    agent.wanted = (live("web", NUMBER, WORD, start="beginning", app_id=7),)
    write(log, [5])
    await until(lambda: agent.numbers(("web", 7)) == [5])
    assert "5 lines cannot be parsed: RuntimeError('no way')" in caplog.records[0].fields["fault"]  # type: ignore[attr-defined]


class StuckReader:
    """A reader whose `poll` does not come back until it is released."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.is_stuck, self.released, self.is_closed = threading.Event(), threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def is_quiet(self, _now: float) -> bool:
        return False

    def poll(self, _now: float) -> list[Any]:
        self.is_stuck.set()
        self.released.wait(60)
        assert not self.is_closed.is_set(), "nothing is closed under the thread that reads"
        return []

    def close(self) -> None:
        self._reader.close()
        self.is_closed.set()


async def test_the_end_does_not_wait_for_a_thread_that_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[StuckReader] = []
    opened = FileSource.open

    def stuck(*arguments: Any, **options: Any) -> StuckReader:
        readers.append(StuckReader(opened(*arguments, **options)))
        return readers[-1]

    monkeypatch.setattr(FileSource, "open", stuck)
    feeds = make_feeds(FakeAgent(live()), stream(tmp_path / "access.log"))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feeds.run)
            await until(lambda: bool(readers) and readers[0].is_stuck.is_set())
            nursery.cancel_scope.cancel()
    assert not readers[0].is_closed.is_set()
    readers[0].released.set()
    await until(readers[0].is_closed.is_set)


async def test_a_closed_reader_reads_no_more(tmp_path: Path) -> None:
    write(tmp_path / "access.log", [1])
    feed = live(start="beginning")
    reader = FeedReader(feed, stream(tmp_path / "access.log"))
    reader.close()
    assert reader.read(feed.columns, 0.0, DAY_MS).blocks == ()


async def test_a_feed_goes_on_where_the_one_of_an_earlier_process_is_needed(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    agent = FakeAgent(live())
    agent.needed[live().key] = FeedNeeds(DAY_MS + 3, {JOB: DAY_MS})
    feeds = make_feeds(agent, stream(log))
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 2)
    for number in range(1, 6):
        write(log, [number], time_ms=int(time.time() * 1000) + 1000)
        await until(lambda number=number: len(agent.numbers(live().key)) == number)  # type: ignore[misc]
    (stored,) = feeds.positions()
    assert stored.complete_from_ms > DAY_MS
    await feeds.pause()
    write(log, [6])
    (last,) = feeds.last_positions()
    assert last.exact
    remembered = live(start="remembered", app_id=REMEMBERED)
    again = FakeAgent(remembered)
    nursery.start_soon(make_feeds(again, stream(log), remembered={"web": last}).run)
    await until(lambda: again.numbers(remembered.key) == [6])
    older = FakeAgent(remembered)
    nursery.start_soon(make_feeds(older, stream(log), remembered={"web": stored}).run)
    await until(lambda: older.numbers(remembered.key)[-1:] == [6])
    assert older.numbers(remembered.key) == [1, 2, 3, 4, 5, 6], "all that may be needed"
    assert ("lost", remembered.key) not in older.said


async def test_what_is_written_while_a_backlog_is_inserted_holds_the_watermark_back(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    log = tmp_path / "access.log"
    write(log, [0, 1])
    agent, written_ms = FakeAgent(live(start="beginning")), list[int]()
    told_ms: list[list[int]] = []

    def write_on() -> None:
        told_ms.append(agent.caught_up_ms[:])
        if not written_ms:
            before = time.time()
            while time.time() < before + 0.02:
                pass
            written_ms.append(int(time.time() * 1000))
            write(log, [2], time_ms=written_ms[0])

    agent.on_insert = write_on
    nursery.start_soon(make_feeds(agent, stream(log)).run)
    await until(lambda: len(agent.numbers(live().key)) == 3)
    before, until_it_came = told_ms
    assert not before
    assert all(told < written_ms[0] for told in until_it_came)


async def test_what_cannot_be_read_again_is_said(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    gone = ReadUpTo(str(tmp_path / "gone.log"), (1, 1), 0, "", 10)
    remembered = live(start="remembered", app_id=REMEMBERED)
    agent = FakeAgent(remembered)
    feeds = make_feeds(agent, stream(log), remembered={"web": FeedPosition("web", (gone,), DAY_MS, {JOB: DAY_MS})})
    nursery.start_soon(feeds.run)
    await until(lambda: agent.numbers(remembered.key) == [0])
    assert ("lost", remembered.key) in agent.said
    assert feeds.statistics()["web"].gone == 1
    assert stream_counters(feeds.statistics())["stream.web.gone"] == 1


@pytest.mark.parametrize("failing", [1, 2, 7])
async def test_a_reading_that_fails_begins_anew_and_nothing_is_lost_or_doubled(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    monkeypatch.setattr("agent.feeding.feeds.RESTART_S", 0.01)
    polls, poll = itertools.count(1), TailReader.poll

    def fail_at_times(reader: TailReader[Any], now: float) -> list[Any]:
        read = poll(reader, now)
        if next(polls) in (failing, failing + 1):
            raise ValueError("odd: what was read just now is gone")
        return read

    monkeypatch.setattr(TailReader, "poll", fail_at_times)
    log = tmp_path / "access.log"
    write(log, [0, 1, 2])
    feed = live(start="beginning", app_id=1)
    agent = FakeAgent(feed)
    feeds = make_feeds(agent, stream(log))
    nursery.start_soon(feeds.run)
    for number in range(3, 40):
        write(log, [number])
        await until(lambda number=number: agent.numbers(feed.key)[-1:] == [number])  # type: ignore[misc]
    assert agent.numbers(feed.key) == list(range(40))
    assert agent.was_lacking, "the feed is not whole meanwhile"
    assert not agent.lacking[feed.key]
    assert ("lost", feed.key) not in agent.said
    statistics = feeds.statistics()["web"]
    assert (statistics.events, statistics.broken, statistics.files) == (40, 2, 1)


async def test_a_bounded_reading_that_fails_ends_and_its_agent_lacks_events(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_reader: BoundedReader[Any], _now: float) -> list[Any]:
        raise ExceptionGroup("some", [ValueError("odd")])

    monkeypatch.setattr(BoundedReader, "poll", fail)
    write(tmp_path / "access.log", [0])
    agent = FakeAgent(bounded())
    nursery.start_soon(make_feeds(agent, stream(tmp_path / "access.log")).run)
    await until(lambda: bool(agent.said))
    assert agent.said == [("ended", ("web", 1))]
    assert agent.lacking[bounded().key]
    faults = [getattr(record, "fields", {}).get("fault") for record in caplog.records]
    assert "reading failed: ValueError: odd" in faults


async def test_the_end_of_a_stream_whose_clock_is_that_of_its_events_is_no_time(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    past, present = tmp_path / "past.log", tmp_path / "present.log"
    write(past, [1])
    write(present, [1])
    agent = FakeAgent(*(live(name, start="beginning", app_id=1) for name in ("past", "present")))
    of_events = replace(stream(past, name="past"), read_from="beginning", clock="events")
    feeds = make_feeds(agent, of_events, replace(stream(present, name="present"), read_from="beginning"))
    nursery.start_soon(feeds.run)
    await until(lambda: agent.said.count(("caught up", ("present", 1))) > 3 and ("past", 1) in agent.events)
    write(past, [2])
    await until(lambda: agent.numbers(("past", 1)) == [1, 2])
    assert ("caught up", ("past", 1)) not in agent.said
