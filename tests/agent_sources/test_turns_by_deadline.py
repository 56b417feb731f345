"""Turns of feeds that read or insert: the most urgent is next, and nobody waits for ever."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from agent.feeding.turns_by_deadline import TurnsByDeadline
from agent.runtime.ingest.feed import FeedKey, FeedUrgency
from agent.runtime.scheduling import PhaseTimes, WorkPhase

pytestmark = pytest.mark.trio
DEADLINES: dict[str, float | None] = {"soon": 1.0, "later": 9.0, "whenever": None, "first": 50.0}


async def served(waiting: list[str], cancelled: str = "", times: PhaseTimes | None = None) -> list[str]:
    """The order in which feeds have their turns that wait while the first has its own."""
    turns = TurnsByDeadline(
        WorkPhase.READ, 1, trio.current_time, lambda key: FeedUrgency(DEADLINES[key[0]], 5.0), times or PhaseTimes()
    )
    order = list[str]()

    async def take(name: str, scope: trio.CancelScope) -> None:
        key: FeedKey = (name, None)
        with scope:
            async with turns.turn(key):
                order.append(name)
                await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        scopes = {name: trio.CancelScope() for name in ("first", *waiting)}
        for name, scope in scopes.items():
            nursery.start_soon(take, name, scope)
            await trio.testing.wait_all_tasks_blocked()
        if cancelled:
            scopes[cancelled].cancel()
    async with turns.turn(("soon", None)):  # all have given theirs back
        return order


@pytest.mark.parametrize("waiting", [["whenever", "later", "soon"], ["soon", "later", "whenever"]])
async def test_the_next_turn_is_that_of_the_first_deadline(waiting: list[str], autojump_clock: object) -> None:  # noqa: ARG001
    assert await served(waiting) == ["first", "soon", "whenever", "later"]


async def test_a_feed_is_read_earlier_whose_events_take_long_to_insert(autojump_clock: object) -> None:  # noqa: ARG001
    times = PhaseTimes()
    times.measured(("later", None), WorkPhase.INSERT, 50.0)
    assert await served(["soon", "later"], times=times) == ["first", "later", "soon"]


async def test_who_waits_no_more_is_passed_over(autojump_clock: object) -> None:  # noqa: ARG001
    assert await served(["later", "soon", "whenever"], cancelled="soon") == ["first", "whenever", "later"]
    assert await served(["later", "soon"], cancelled="first") == ["first", "soon", "later"]
