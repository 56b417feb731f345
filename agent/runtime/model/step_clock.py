"""The clocks of an agent's core, as the shell around it tells them."""

from __future__ import annotations

from collections.abc import Callable


class StepClock:
    """`ms` is epoch milliseconds, as the shell has told before this step.

    `now` is the time within the step: seconds, of the clock whose times the shell gives. Without a `live` clock it
    stands still within a step, and the core does the same whatever that takes.
    """

    def __init__(self, live: Callable[[], float] | None = None) -> None:
        self.ms = 0
        self._told = self._lead_ms = 0.0
        self._live = live

    def tell(self, now: float, wall_ms: float) -> None:
        """Begins a step at a time of both clocks."""
        self._told, self._lead_ms = now, wall_ms - 1000 * now

    @property
    def now(self) -> float:
        """Seconds; no earlier than the step began."""
        return self._told if self._live is None else max(self._told, self._live())

    @property
    def wall_ms(self) -> float:
        """Epoch milliseconds at `now`."""
        return 1000 * self.now + self._lead_ms
