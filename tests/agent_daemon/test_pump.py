"""The pump: calls that come in the middle of others wait, broken cores end, conditions are told."""

from __future__ import annotations

import random
import time
from itertools import count

import pytest
import trio
from pumped_fleet import IdleCore, MemoryFleet

from agent.driver import STUCK_TIMER_S, STUCK_TIMES, CoreDriver
from overlay import Node, Peer

pytestmark = pytest.mark.trio


async def test_a_call_in_the_middle_of_another_waits_for_its_end() -> None:
    async with trio.open_nursery() as nursery:
        pump = MemoryFleet(nursery).add("a:1")
        order: list[str] = []

        def outer(_now: float) -> None:
            pump.do(lambda _now: order.append("inner"))
            order.append("outer")

        pump.do(outer)
        assert order == ["outer", "inner"]
        nursery.cancel_scope.cancel()


async def test_a_machine_that_was_suspended_asks_its_neighbours_before_it_owns_keys_again() -> None:
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        first, second = fleet.add("a:1"), fleet.add("a:2")
        first.do(first.node.start)
        second.do(lambda now: second.node.join(first.node.peer, now))
        with trio.fail_after(60):
            await second.until(lambda: second.node.is_active)
        fleet.wall_ms += 2_000
        second.settle()
        assert second.node.is_active, "clocks are set by a little all the time"
        fleet.wall_ms += 60_000
        second.settle()
        assert not second.node.is_active
        with trio.fail_after(60):
            await second.until(lambda: second.node.is_active)
        nursery.cancel_scope.cancel()


async def test_a_core_that_raises_is_called_no_more(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[float] = []

    class Broken(IdleCore):
        def process_events(self, now: float, _wall_ms: int) -> bool:
            calls.append(now)
            raise ValueError("cannot go on")

    async with trio.open_nursery() as nursery:
        pump = MemoryFleet(nursery).add("a:1", Broken)
        pump.settle()
        pump.settle()
        with trio.fail_after(60):
            await pump.failed.wait()
        assert len(calls) == 1
        assert isinstance(pump.failure, ValueError)
        (record,) = [record for record in caplog.records if record.message == "agent failed"]
        assert record.exc_info
        nursery.cancel_scope.cancel()


async def test_both_clocks_are_of_one_moment_though_others_have_the_processor_in_between(
    mock_clock: trio.testing.MockClock,
) -> None:
    told: list[tuple[float, int]] = []
    reads = count(1)

    class Told(IdleCore):
        def process_events(self, now: float, wall_ms: int) -> bool:
            told.append((now, wall_ms))
            return False

    def wall_ms() -> int:
        if next(reads) % 3:
            mock_clock.jump(0.05)
        return 1_000_000 + round(1000 * mock_clock.current_time())

    node = Node(Peer(1 << 120, "a:1"), random=random.Random(1))
    pump = CoreDriver(node, Told(node), wall_ms=wall_ms, send=lambda *_: None, order=lambda _: None)
    for _ in range(5):
        pump.settle()
    assert len(told) == 5
    assert [wall - 1_000_000 for _, wall in told] == pytest.approx([1000 * now for now, _ in told], abs=1.0)


async def test_timers_are_handled_when_they_are_due(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    due: list[float] = []

    class Ticking(IdleCore):
        def next_timer(self) -> float | None:
            return 10.0 * (len(due) + 1)

        def handle_timer(self, now: float, _wall_ms: int) -> None:
            due.append(now)

    async with trio.open_nursery() as nursery:
        pump = MemoryFleet(nursery).add("a:1", Ticking)
        with trio.fail_after(60):
            await pump.until(lambda: len(due) == 3)
        assert due == pytest.approx([10, 20, 30], abs=0.2)
        nursery.cancel_scope.cancel()


async def test_what_is_due_again_at_once_a_few_times_does_not_wait(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    """As steps of event time are, where each leads to the next."""
    due: list[float] = []

    class Stepping(IdleCore):
        def next_timer(self) -> float | None:
            return 0.0 if len(due) < STUCK_TIMES else None

        def handle_timer(self, now: float, _wall_ms: int) -> None:
            due.append(now)

    async with trio.open_nursery() as nursery:
        MemoryFleet(nursery).add("a:1", Stepping)
        await trio.sleep(1)
        assert len(due) == STUCK_TIMES
        assert due[-1] - due[0] < STUCK_TIMER_S
        nursery.cancel_scope.cancel()


async def test_a_timer_that_stays_due_does_not_take_the_whole_loop(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    asked: list[float] = []

    class Stuck(IdleCore):
        def next_timer(self) -> float | None:
            return 0.0

        def handle_timer(self, now: float, _wall_ms: int) -> None:
            asked.append(now)

    async with trio.open_nursery() as nursery:
        MemoryFleet(nursery).add("a:1", Stuck)
        await trio.sleep(10)
        assert len(asked) <= 10 / STUCK_TIMER_S + STUCK_TIMES + 1
        nursery.cancel_scope.cancel()


async def test_long_work_leaves_others_several_turns_for_each_slice() -> None:
    class Working(IdleCore):
        slices = 0

        def work(self, _now: float, _wall_ms: int) -> bool:
            self.slices += 1
            return self.has_work

        @property
        def has_work(self) -> bool:
            return self.slices < 100

    async with trio.open_nursery() as nursery:
        pump = MemoryFleet(nursery).add("a:1", Working)
        core = pump.core
        assert isinstance(core, Working)
        turns = 0
        pump.settle()
        with trio.fail_after(60):
            while core.slices < 100:
                turns += 1
                await trio.lowlevel.checkpoint()
        assert turns >= 350, "a request that takes a dozen turns waits for a few slices"
        nursery.cancel_scope.cancel()


async def test_a_dozen_turns_wait_for_few_of_long_slices_however_many_tasks_work_in_them() -> None:
    class Working(IdleCore):
        has_work = True
        slices = 0

        def work(self, _now: float, _wall_ms: int) -> bool:
            self.slices += 1
            time.sleep(0.02)
            return True

    async with trio.open_nursery() as nursery:
        pump = MemoryFleet(nursery).add("a:1", Working)
        core = pump.core
        assert isinstance(core, Working)
        pump.settle()
        with trio.fail_after(60):
            while core.slices < 3:
                await trio.lowlevel.checkpoint()
            before = core.slices
            for _ in range(36):
                await trio.lowlevel.checkpoint()
        assert core.slices <= before + 3, "three requests of a dozen turns wait for two slices"
        nursery.cancel_scope.cancel()
