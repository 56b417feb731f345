"""How long a master holds back a pane that is without agents it expects.

Who loses its parent is back within about a second, with what it has sealed; publishing meanwhile would tell of missing
agents that are well. So a pane waits a little, once for each agent that is away: who was given up is not waited for
again until it has contributed again.
"""

from __future__ import annotations

PATIENCE_S = 2.0
TAKE_OVER_PATIENCE_S = 4.0
"""In a new epoch everyone has to hear of it first."""
NEW_EPOCH_S = 10.0


class HoldbackTimer:
    """Of one master in one epoch. `given_up` are the agents that are not waited for."""

    def __init__(self, now: float, given_up: int, *, took_over: bool) -> None:
        self.given_up = given_up
        self._longer_until = now + NEW_EPOCH_S if took_over else now
        self._waits_since: float | None = None

    def waits(self, missing: int, now: float) -> bool:
        """Whether to wait for these agents (still)."""
        if not missing & ~self.given_up:
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = now
        limit = TAKE_OVER_PATIENCE_S if self._waits_since < self._longer_until else PATIENCE_S
        if now - self._waits_since < limit:
            return True
        self.stop_waiting(missing)
        return False

    def stop_waiting(self, agents: int) -> None:
        """These are not coming."""
        self.given_up |= agents
        self._waits_since = None

    def seen(self, contributors: int) -> None:
        """These have contributed: they are waited for again."""
        self.given_up &= ~contributors
