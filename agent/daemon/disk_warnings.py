"""Says what the disk fails to do, but not each time."""

from __future__ import annotations

from collections.abc import Callable

from agent import log

PERIOD_S = 60.0


class DiskWarnings:
    """One line a minute for each kind of failure; the others are counted. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def warn(self, what: str, why: str) -> None:
        """`what` is the kind, `why` what the system said."""
        now = self._clock()
        said_at, unsaid = self._said.get(what, (-PERIOD_S, 0))
        if now - said_at < PERIOD_S:
            self._said[what] = (said_at, unsaid + 1)
            return
        self._said[what] = (now, 0)
        log.warn("disk", what=what, why=why, times=unsaid + 1)
