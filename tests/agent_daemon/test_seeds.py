"""How agents get into a fleet, on a clock that jumps: minutes pass in no time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
from pumped_fleet import MemoryFleet

from agent.daemon.seeds import Seeds
from agent.driver import CoreDriver
from agent.seeding.neighbours_file import NEIGHBOURS_MAX, NeighboursFile

pytestmark = pytest.mark.trio
A, B, C = "a:1", "b:1", "c:1"


def seek(fleet: MemoryFleet, nursery: trio.Nursery, address: str, *seeds: str) -> CoreDriver:
    pump = fleet.add(address)
    nursery.start_soon(Seeds(seeds, pump, fleet.identify, random.Random(1)).run)
    return pump


async def active(*pumps: CoreDriver, within_s: float) -> float:
    """Waits until all are in the overlay; returns when that was."""
    with trio.fail_after(within_s):
        for pump in pumps:
            await pump.until(lambda pump=pump: pump.node.is_active)
    return trio.current_time()


def ring(*pumps: CoreDriver) -> bool:
    """Whether they all know each other."""
    return all(len(pump.node.leaf_set.members) == len(pumps) - 1 for pump in pumps)


async def test_an_agent_without_seeds_is_the_first_at_once(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        assert await active(seek(fleet, nursery, A), within_s=1) < 0.1
        nursery.cancel_scope.cancel()


async def test_others_join_through_whichever_seed_answers(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        first = seek(fleet, nursery, A)
        second = seek(fleet, nursery, B, "nobody:1", A)
        await active(first, second, within_s=3)
        with trio.fail_after(5):
            await first.until(lambda: ring(first, second))
        nursery.cancel_scope.cancel()


async def test_silent_seeds_are_asked_for_ever_and_more_rarely(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        lost = seek(fleet, nursery, B, A)
        await trio.sleep(600)
        assert not lost.node.is_active
        assert 40 < len(fleet.dialled) < 120
        complaints = [record for record in caplog.records if "no seed lets this agent in" in record.message]
        assert 9 <= len(complaints) <= 11
        assert complaints[0].fields["failures"] == ["a:1: connection refused"]  # type: ignore[attr-defined]
        # The seed comes after ten minutes: the agent is in within one pause.
        first = seek(fleet, nursery, A)
        await active(first, lost, within_s=20)
        nursery.cancel_scope.cancel()


async def test_a_seed_whose_name_is_not_found_is_told_at_once_and_once(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        seek(fleet, nursery, B, A, "unknown.host:1")
        await trio.sleep(0.1)
        (told,) = caplog.records
        assert told.message == "the host name of a seed is not found"
        assert told.fields["seed"] == "unknown.host:1"  # type: ignore[attr-defined]
        await trio.sleep(600)
        assert [record.message for record in caplog.records].count(told.message) == 1
        nursery.cancel_scope.cancel()


async def test_a_seed_that_nobody_answers_begins_after_two_seconds(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        assert 1.9 < await active(seek(fleet, nursery, A, A, B), within_s=5) < 3
        nursery.cancel_scope.cancel()


async def test_an_agent_without_seeds_finds_its_fleet_by_the_neighbours_that_it_had(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        other = seek(fleet, nursery, B)
        NeighboursFile(tmp_path / "neighbours", pytest.fail).store([C, B])
        remembered = NeighboursFile(tmp_path / "neighbours", pytest.fail).read()
        again = seek(fleet, nursery, A, A, *remembered)
        assert await active(other, again, within_s=1) < 0.5
        assert ring(other, again)
        nursery.cancel_scope.cancel()


async def test_an_agent_whose_neighbours_are_gone_begins_its_fleet(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        assert await active(seek(fleet, nursery, A, A, B, C), within_s=4) >= 2
        nursery.cancel_scope.cancel()


async def test_neighbours_that_are_no_addresses_are_nobody(tmp_path: Path) -> None:
    warnings: list[str] = []
    file = NeighboursFile(tmp_path / "neighbours", lambda what, _why: warnings.append(what))
    assert file.read() == ()
    (tmp_path / "neighbours").write_bytes(b"a:1\nnobody\n\xff:\x1b[31m\nb:1\n" + b"c:1\n" * 100_000)
    assert file.read()[:3] == (A, B, C)
    assert len(file.read()) <= NEIGHBOURS_MAX
    file.store([])
    assert file.read()[:2] == (A, B)
    NeighboursFile(tmp_path / "missing/neighbours", lambda what, _why: warnings.append(what)).store([A])
    assert warnings == ["neighbours are not kept"]


async def test_seeds_that_wait_for_each_other_become_one_ring(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        seeds = (A, B, C)
        pumps = [seek(fleet, nursery, address, *seeds) for address in seeds]
        await active(*pumps, within_s=10)
        with trio.fail_after(30):
            await pumps[0].until(lambda: ring(*pumps))
        nursery.cancel_scope.cancel()


async def test_a_seed_that_began_alone_meets_the_others_later(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        alone = seek(fleet, nursery, A, A, B)
        await active(alone, within_s=5)
        await trio.sleep(300)
        other = seek(fleet, nursery, B)  # which began by itself too
        await active(other, within_s=1)
        with trio.fail_after(60):
            await alone.until(lambda: ring(alone, other))
        nursery.cancel_scope.cancel()


async def test_an_agent_that_is_its_own_seed_under_another_name(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        pump = seek(fleet, nursery, A, "other-name:1")
        fleet.members["other-name:1"] = pump
        await active(pump, within_s=5)
        nursery.cancel_scope.cancel()
