"""Files, feeds and a real agent together: every event is in its window, once, and none is late."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import query
from agent import Agent, Ended, PublishedWindow, StreamOptions, Submit
from agent.configuration.config import StreamConfig
from agent.driver import CoreDriver
from agent.feeding.feeds import Feeds
from agent.feeding.stream_schema import stream_schema
from agent.runtime.messages.client_events import JobEvent
from agent.sources.file.source import FileSource
from elf.local import LocalOptions, LocalRun, LocalSource
from overlay import Node, Peer, app_id

pytestmark = [pytest.mark.trio, pytest.mark.live]
BEGIN_MS = 1_767_225_600_000
HOUR_MS = 3_600_000
GRACE_MS = 3000
"""More than a busy machine needs to write an event that has its time."""
COUNT = "SELECT product, COUNT(*) AS n, SUM(number) AS total FROM web GROUP BY product ORDER BY product"


class LonelyAgent:
    """A fleet of one, with the daemon's own pump, and a wall clock that stands an hour after the logs' beginning."""

    def __init__(self, paths: Path, read_from: Literal["end", "beginning"], poll_s: float) -> None:
        self.stream = StreamConfig("web", FileSource((str(paths),)), "auto", None, read_from)
        self.node = Node(Peer(1, "alone:1"), random=random.Random(1))
        self.agent = Agent("alone", self.node, {"web": StreamOptions(read_from)})
        self.events: list[JobEvent] = []
        self.came_ms: list[int] = []
        """The wall clock's times of the events."""
        self.started = trio.current_time()
        self.pump = CoreDriver(
            self.node, self.agent, wall_ms=self.wall_ms, send=self._send, order=lambda _order: None,
            settled=lambda: self.feeds.reconcile(),
        )  # fmt: skip
        self.feeds = Feeds(
            self.agent.ingest,
            [self.stream],
            clock=trio.current_time,
            wall_ms=self.wall_ms,
            pump=self.pump.settle,
            poll_s=poll_s,
        )

    def _send(self, peer: Peer, data: bytes) -> None:
        raise AssertionError(f"{len(data)} bytes for {peer}: nobody else is here")

    def wall_ms(self) -> int:
        return BEGIN_MS + HOUR_MS + int((trio.current_time() - self.started) * 1000)

    def plan(self, text: str) -> query.Plan:
        return query.analyze(query.parse(text), {"web": stream_schema(self.stream.source)})

    def submit(self, text: str, *, bounded: bool, name: str = "job") -> int:
        key = app_id(name, b"")
        job = Submit(key, name, "web", self.plan(text).to_wire(), text=text, bounded=bounded, grace_ms=GRACE_MS)
        self.pump.do(lambda now: self.agent.commands.submit(job, lambda _reply: None, now, self.wall_ms()))
        self.pump.do(lambda now: self.agent.following.follow(key, None, self._note, now))
        return key

    def _note(self, event: JobEvent) -> None:
        self.events.append(event)
        self.came_ms.append(self.wall_ms())

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(bytes(event.result)) for event in self.events if isinstance(event, PublishedWindow)]


@asynccontextmanager
async def alone(
    paths: Path, read_from: Literal["end", "beginning"] = "beginning", poll_s: float = 0.01
) -> AsyncIterator[LonelyAgent]:
    lonely = LonelyAgent(paths, read_from, poll_s)
    async with trio.open_nursery() as nursery:
        lonely.pump.do(lonely.node.start)
        lonely.pump.do(lonely.agent.start)
        for part in (lonely.pump.run_timers, lonely.pump.run_work, lonely.feeds.run):
            nursery.start_soon(part)
        yield lonely
        assert lonely.pump.failure is None
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(120):
        while not condition():
            await trio.sleep(0.005)


def start_ms(results: list[dict[str, Any]]) -> int | None:
    """When the first of the windows starts, if there is one."""
    return int(datetime.fromisoformat(results[0]["window_start"]).timestamp() * 1000) if results else None


class Shop:
    """Writes events and remembers them."""

    def __init__(self) -> None:
        self.written: list[tuple[int, str, int]] = []

    def write(self, path: Path, times_ms: range | list[int]) -> None:
        with path.open("a") as file:
            for time_ms in times_ms:
                event = (time_ms, f"p{time_ms % 7}", len(self.written))
                self.written.append(event)
                file.write(json.dumps(dict(zip(("time", "product", "number"), event, strict=True))) + "\n")

    def counts(self, window_ms: int) -> Counter[tuple[int, str]]:
        return Counter((time // window_ms * window_ms, product) for time, product, _ in self.written)


async def test_windows_are_complete_from_the_backlog_of_many_files_to_what_is_written_now(tmp_path: Path) -> None:
    shop = Shop()
    for name, step in (("a.log", 3), ("b.log", 5), ("c.log", 7)):
        shop.write(tmp_path / name, range(BEGIN_MS, BEGIN_MS + 120_000, step))
    async with alone(tmp_path / "*.log") as lonely:
        lonely.submit(COUNT + " WINDOWING 1 SECOND", bounded=False)
        await until(lambda: len(lonely.results()) == 120)
        for rotation in range(5):
            now = lonely.wall_ms()
            shop.write(tmp_path / "a.log", list(range(now, now + 20)))
            (tmp_path / "a.log").rename(tmp_path / f"rotated-{rotation}")
            shop.write(tmp_path / "a.log", [now])
            await trio.sleep(0.15)
        expected = shop.counts(1000)
        await until(lambda: len(lonely.results()) == len({window for window, _ in expected}))
        results = lonely.results()
    found = Counter[tuple[int, str]]()
    for window in results:
        assert window["late"] == window["malformed"] == 0
        assert (window["contributors"], window["expected"]) == (1, 1)
        for row in window["rows"]:
            found[(start_ms([window]), row["product"])] += row["n"]
    assert found == expected


async def test_from_the_end_no_window_is_without_its_first_events(tmp_path: Path) -> None:
    """Whatever it takes until the files are open: the first window reported is one that is known from its start."""
    shop, log = Shop(), tmp_path / "a.log"
    log.touch()
    async with alone(log, "end") as lonely:
        lonely.submit(COUNT + " WINDOWING 200 MILLISECONDS", bounded=False)
        for _ in range(200):
            shop.write(log, [lonely.wall_ms()])
            await trio.sleep(0.005)
        written = Counter(time // 200 * 200 for time, _, _ in shop.written)
        await until(lambda: start_ms(lonely.results()[-1:]) == max(written))
        results = lonely.results()
    found = {start_ms([window]): sum(row["n"] for row in window["rows"]) for window in results}
    assert found == {window: count for window, count in written.items() if window >= min(found)}
    assert sum(window["late"] for window in results) == 0


@pytest.mark.parametrize("where", ["", " WHERE number >= 20 AND product <> 'p3'"])
async def test_a_bounded_job_gives_what_elf_local_gives(tmp_path: Path, where: str) -> None:
    shop = Shop()
    for number in range(3):
        shop.write(tmp_path / f"{number}.log", range(BEGIN_MS, BEGIN_MS + 30_000, 3 + number))
    (tmp_path / "4.log").write_text("not an event\n" + '{"time": 1767225600, "product": "last", "number": 1}')
    paths = tuple(str(path) for path in sorted(tmp_path.glob("*.log")))
    text = COUNT.replace(" GROUP BY", f"{where} GROUP BY") + " WINDOWING 5 SECONDS"
    async with alone(tmp_path / "*.log") as lonely:
        lonely.submit(text, bounded=True)
        (feed,) = lonely.agent.ingest.feeds()
        assert bool(feed.clauses) == bool(where), "readers pass over what certainly fails WHERE"
        await until(lambda: any(isinstance(notice, Ended) for notice in lonely.events))
        results = lonely.results()
        counted = lonely.feeds.statistics()["web"].events
    local = list(LocalRun(text, [LocalSource("web", paths)], LocalOptions(arrival_ms=0)).results())
    assert [window["rows"] for window in results] == [list(window.rows) for window in local]
    assert [window["events"] for window in results] == [window.events for window in local]
    assert counted == sum(window["events"] for window in results)
    wanted = [number for _, product, number in shop.written if not where or (number >= 20 and product != "p3")]
    assert sum(row["n"] for window in results for row in window["rows"] if row["product"] != "last") == len(wanted)
    assert len(results) == 6
    assert sum(window["malformed"] for window in results) == 1
