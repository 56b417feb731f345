# ruff: noqa: ARG001 - a test takes the virtual clock among its arguments
"""Feeds are looked at when panes are due: results of quiet logs wait for no poll, and looks stay few."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from test_feeds import DAY_MS, FakeAgent, live, stream, write
from test_feeds_with_agent import LonelyAgent, alone, start_ms
from trio.testing import MockClock

from agent import PublishedWindow, Update
from agent.feeding.feeds import Feeds
from agent.runtime.ingest.feed import FeedKey

pytestmark = pytest.mark.trio
BEGIN_MS = DAY_MS + 10_000
DUE_MS = 25
"""Time for which a window may take: timers are handled at multiples of 10 ms."""
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING"


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads where it is: the virtual clock would run on beside a thread."""

    async def run_here(call: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        return call(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_here)


class DueAgent(FakeAgent):
    """Has panes that are due at these times (ms after the beginning), or as often as `every_ms`."""

    def __init__(self, *dues: int, every_ms: int | None = None, look_s: float | None = None) -> None:
        super().__init__(live())
        self.dues, self.every_ms, self.chosen_s = [BEGIN_MS + due for due in dues], every_ms, look_s

    def next_due(self, key: FeedKey, after_ms: int) -> float | None:  # noqa: ARG002
        if self.every_ms is not None:
            return (after_ms // self.every_ms + 1) * self.every_ms
        return min((due for due in self.dues if due > after_ms), default=None)

    def look_s(self, key: FeedKey) -> float | None:  # noqa: ARG002
        return self.chosen_s


@dataclass
class Looks:
    """The looks of some seconds that have found the end, as milliseconds after the beginning."""

    at_ms: list[int]

    @property
    def off_grid(self) -> list[int]:
        return [at for at in self.at_ms if at % 100]

    def are_at(self, *dues_ms: int) -> bool:
        """Whether there is one look for each of these moments off the grid, and no other; clocks tell milliseconds."""
        off = self.off_grid
        return len(off) == len(dues_ms) and all(due <= at <= due + 1 for at, due in zip(off, dues_ms, strict=True))

    def most_in_a_second(self) -> int:
        return max(sum(since <= at < since + 1000 for at in self.at_ms) for since in self.at_ms)


async def looks(agent: FakeAgent, log: Path, seconds: float, *, appends: Iterable[int] = (), **options: Any) -> Looks:
    """Reads a log in virtual time, into which a line is written at each of some times (ms)."""
    write(log, [0])
    began = trio.current_time()

    def wall_ms() -> int:
        return BEGIN_MS + int(1000 * (trio.current_time() - began) + 1e-6)

    feeds = Feeds(agent, [stream(log)], clock=trio.current_time, wall_ms=wall_ms, pump=lambda: None, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feeds.run)
        for at in appends:
            await trio.sleep_until(began + at / 1000)
            write(log, [at])
        await trio.sleep_until(began + seconds)
        nursery.cancel_scope.cancel()
    return Looks([at - BEGIN_MS for at in agent.caught_up_ms])


async def test_a_pane_that_is_due_waits_for_no_poll(autojump_clock: MockClock, tmp_path: Path) -> None:
    found = await looks(DueAgent(337, 400, 725), tmp_path / "access.log", 1.0)
    assert found.are_at(337, 725), found.off_grid
    assert found.at_ms.count(400) == 1, "one that is due at a poll costs no look"


async def test_a_pane_is_due_also_in_a_log_that_is_written_all_the_time(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    agent = DueAgent(337, 725)
    found = await looks(agent, tmp_path / "access.log", 1.0, appends=range(5, 1000, 7))
    assert found.are_at(337, 725), found.off_grid
    assert len(agent.numbers(live().key)) > 120


async def test_jobs_for_which_fewer_looks_do_have_fewer_but_those_that_are_due(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    found = await looks(DueAgent(337, 725, look_s=0.5), tmp_path / "access.log", 1.95)
    assert found.are_at(337, 725), found.off_grid
    assert [at for at in found.at_ms if at not in found.off_grid and at > 0] == [500, 1000, 1500]


async def test_a_new_job_does_not_wait_for_the_looks_that_do_for_others(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    log, agent, began = tmp_path / "access.log", DueAgent(look_s=0.5), trio.current_time()
    write(log, [0])

    def wall_ms() -> int:
        return BEGIN_MS + int(1000 * (trio.current_time() - began) + 1e-6)

    feeds = Feeds(agent, [stream(log)], clock=trio.current_time, wall_ms=wall_ms, pump=lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feeds.run)
        await trio.sleep_until(began + 0.61)
        agent.chosen_s, agent.wanted = None, (*agent.wanted,)
        feeds.reconcile()
        await trio.sleep_until(began + 0.75)
        nursery.cancel_scope.cancel()
    assert [at - BEGIN_MS for at in agent.caught_up_ms if at > BEGIN_MS] == [500, 700]


async def test_without_due_looks_no_job_has_fewer_looks(autojump_clock: MockClock, tmp_path: Path) -> None:
    found = await looks(DueAgent(look_s=0.5), tmp_path / "access.log", 1.95, due_looks=False)
    assert [at for at in found.at_ms if at > 0] == list(range(100, 2000, 100))


async def test_without_due_looks_there_are_polls_alone(autojump_clock: MockClock, tmp_path: Path) -> None:
    found = await looks(DueAgent(every_ms=13), tmp_path / "access.log", 2.0, due_looks=False)
    assert found.off_grid == []


@pytest.mark.parametrize("every_ms", [1, 7, 19, 33])
@pytest.mark.parametrize("is_written", [True, False])
async def test_many_panes_make_no_more_than_fifty_looks_a_second(
    autojump_clock: MockClock, tmp_path: Path, every_ms: int, is_written: bool
) -> None:
    appends = range(3, 1500, 9) if is_written else ()
    found = await looks(DueAgent(every_ms=every_ms), tmp_path / "access.log", 1.5, appends=appends)
    assert 20 < found.most_in_a_second() <= 51
    assert all(later - earlier >= 20 for earlier, later in pairwise(found.at_ms) if later % 100)


async def test_a_quiet_log_without_due_panes_is_looked_at_as_rarely_as_ever(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    found = await looks(DueAgent(), tmp_path / "access.log", 20.0)
    quiet = [at for at in found.at_ms if at > 5500]
    assert quiet == list(range(5600, 20_001, 200))


async def test_a_quiet_log_is_looked_at_for_its_panes(autojump_clock: MockClock, tmp_path: Path) -> None:
    found = await looks(DueAgent(*range(1100, 12_000, 1100)), tmp_path / "access.log", 12.0)
    quiet = [at for at in found.at_ms if at > 5500]
    assert all(due in quiet or due + 1 in quiet for due in (6600, 7700, 8800, 9900, 11_000))
    assert len(quiet) <= len(range(5600, 12_000, 200)) + 3


async def test_logs_whose_clock_is_that_of_their_events_are_not_looked_at_for_panes(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    agent, began = DueAgent(every_ms=30), []
    agent.observe = lambda _now, wall_ms: began.append(wall_ms) or wall_ms  # type: ignore[func-returns-value,method-assign]
    of_events = stream(tmp_path / "access.log")
    object.__setattr__(of_events, "clock", "events")
    write(tmp_path / "access.log", [0])
    feeds = Feeds(
        agent, [of_events], clock=trio.current_time, pump=lambda: None,
        wall_ms=lambda: BEGIN_MS + int(1000 * trio.current_time() + 1e-6),
    )  # fmt: skip
    with trio.move_on_after(1.0):
        await feeds.run()
    assert len(began) <= 12


# With an agent.


async def windows(lonely: LonelyAgent, log: Path, seconds: float, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """How many milliseconds after their ends the windows of jobs come, where a line is written now and then."""
    begun, end = len(lonely.events), trio.current_time() + seconds
    while trio.current_time() < end:
        now_ms = lonely.wall_ms()
        with log.open("a") as file:
            file.write(json.dumps({"time": now_ms, "number": 1}) + "\n")
        await trio.sleep(0.0713)
    found = dict[str, list[int]]()
    for event, came_ms in zip(lonely.events[begun:], lonely.came_ms[begun:], strict=True):
        if isinstance(event, PublishedWindow):
            result = json.loads(bytes(event.result))
            assert result["late"] == 0
            start = start_ms([result])
            assert start is not None
            found.setdefault(result["app"], []).append(came_ms - start - sizes[result["app"]])
    return found


async def test_windows_of_jobs_with_different_ends_come_when_they_are_due(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    async with alone(log, "end", poll_s=0.1) as lonely:
        sizes = {"half": 500, "third": 300, "long": 1000}
        lonely.submit(f"{COUNT} 500 MILLISECONDS WITHIN 500 MILLISECONDS", bounded=False, name="half")
        lonely.submit(f"{COUNT} 300 MILLISECONDS GRACE 40 MILLISECONDS", bounded=False, name="third")
        await windows(lonely, log, 2.0, sizes)
        lonely.submit(f"{COUNT} 1 SECOND GRACE 270 MILLISECONDS", bounded=False, name="long")
        found = await windows(lonely, log, 8.0, sizes)
    for name, grace_ms, count in (("half", 125, 15), ("third", 40, 25), ("long", 270, 6)):
        assert len(found[name]) >= count
        assert grace_ms <= min(found[name]) <= max(found[name]) <= grace_ms + DUE_MS, name


async def test_windows_of_a_later_version_come_when_they_are_due(autojump_clock: MockClock, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    async with alone(log, "end", poll_s=0.1) as lonely:
        key = lonely.submit(f"{COUNT} 500 MILLISECONDS GRACE 125 MILLISECONDS", bounded=False)
        await windows(lonely, log, 3.0, {"job": 500})
        text = f"{COUNT.replace('n FROM', 'n, SUM(number) AS total FROM')} 500 MILLISECONDS GRACE 125 MILLISECONDS"
        update = Update(key, lonely.plan(text).to_wire(), text, False, 0)
        lonely.pump.do(lambda now: lonely.agent.commands.update(update, lambda _reply: None, now, lonely.wall_ms()))
        found = (await windows(lonely, log, 12.0, {"job": 500}))["job"]
        assert "total" in lonely.results()[-1]["rows"][0]
    assert len(found) >= 20
    assert 125 <= min(found) <= max(found) <= 125 + DUE_MS


async def test_a_window_whose_log_has_been_quiet_comes_when_it_is_due(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    write(log, [0])
    async with alone(log, "end", poll_s=0.1) as lonely:
        lonely.submit(f"{COUNT} 20 SECONDS GRACE 130 MILLISECONDS", bounded=False)
        await windows(lonely, log, 22.0, {"job": 20_000})
        await trio.sleep(19.0)
        (*_, last), (*_, came_ms) = lonely.results(), lonely.came_ms
        start = start_ms([last])
    assert start is not None
    assert 20_130 <= came_ms - start <= 20_130 + DUE_MS
