"""When an agent's core is called for what is due."""

from __future__ import annotations

import trio
import trio.testing

from agent.driver import STUCK_TIMER_S, STUCK_TIMES, CoreDriver


class Due:
    """A core, and an overlay node with nothing to do, for which something is due so many times in a row."""

    has_work = False

    def __init__(self, times: float) -> None:
        self.called: list[float] = []
        self._times = times

    def process_events(self, *_about: object) -> bool:
        return False

    def work(self, *_about: object) -> bool:
        return False

    def orders(self) -> list:
        return []

    def messages_to_send(self) -> list:
        return []

    def next_timer(self) -> float | None:
        return trio.current_time() if len(self.called) < self._times else None

    def handle_timer(self, now: float, wall_ms: int) -> None:
        del wall_ms
        self.called.append(now)


class Resting(Due):
    def next_timer(self) -> float | None:
        return None


def calls(times: float, seconds: float) -> list[float]:
    core = Due(times)

    async def main() -> None:
        driver = CoreDriver(
            Resting(0), core, wall_ms=lambda: 0, send=lambda *_: None, order=lambda *_: None  # type: ignore[arg-type]
        )  # fmt: skip
        with trio.move_on_after(seconds):
            await driver.run_timers()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return [called - core.called[0] for called in core.called]


def test_what_is_due_again_at_once_a_few_times_does_not_wait() -> None:
    """As steps of event time are, where each leads to the next."""
    assert max(calls(STUCK_TIMES, 1.0)) < STUCK_TIMER_S


def test_what_is_always_due_leaves_the_others_their_time() -> None:
    assert len(calls(float("inf"), 10.0)) <= STUCK_TIMES + 10.0 / STUCK_TIMER_S + 1
