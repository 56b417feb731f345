"""Decides how long a job waits for stragglers, and when it leaps over them.

Two places ask. A tree node asks about each of its sources: a source that lags behind others and stands still for
`straggler_timeout_s` is skipped, and waited for again once it has come up. The master asks about the agents that a
complete pane lacks. Whoever loses its parent is back within about a second, with what it has sealed; publishing
meanwhile would report agents as missing that are well. So a pane is held back a little, once for each agent that is
away: agents that were written off are not waited for again until they have contributed again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from agent.runtime.function.versions import Versions
from agent.runtime.model.panes import END

STRAGGLER_TIMEOUT_S = 60.0
"""Time after which a source of a live job that lags behind others and stands still is skipped."""
SELF_PACED_STRAGGLER_TIMEOUT_S = 10.0
"""Straggler timeout where the job's code cuts the panes."""
LAG_PANES = 2
"""Panes (the longest of any version) by which a straggler lags behind the source that is farthest ahead."""
LOOK_INTERVAL_S = 1.0
"""Time between looks for stragglers among the sources of a tree node."""
HOLDBACK_S = 2.0
"""Time for which a master holds back a pane that lacks agents."""
TAKE_OVER_HOLDBACK_S = 4.0
"""Holdback time in a new epoch: all agents have to learn of it first."""
NEW_EPOCH_S = 10.0
"""Time for which an epoch counts as new."""


class StragglerDecision(Enum):
    """The verdict on a straggler: wait for it, or leap over it."""

    WAIT = auto()
    LEAP = auto()


class StragglerView(NamedTuple):
    """The observed state of a source, or of the agents that a pane lacks.

    `still_s`: time since it has moved. `lag_ms`: pane time by which it is behind the farthest one.
    """

    still_s: float
    lag_ms: int = 0


@dataclass(frozen=True, slots=True)
class StragglerPolicy:
    """Leaps over whoever lags by `lag_ms` and has not moved for `straggler_timeout_s`."""

    straggler_timeout_s: float
    lag_ms: int = 0

    @classmethod
    def of_sources(cls, versions: Versions) -> StragglerPolicy:
        """The policy for the sources of a job's tree nodes."""
        longest_ms = max(one.function.pane_ms or END for one in versions)
        self_paced = versions.newest.function.self_paced
        return cls(SELF_PACED_STRAGGLER_TIMEOUT_S if self_paced else STRAGGLER_TIMEOUT_S, LAG_PANES * longest_ms)

    def decide(self, view: StragglerView) -> StragglerDecision:
        """Whether to wait any longer.

        >>> policy = StragglerPolicy(60.0, 2000)
        >>> policy.decide(StragglerView(61.0, 1000)).name, policy.decide(StragglerView(61.0, 2000)).name
        ('WAIT', 'LEAP')
        """
        is_straggler = view.lag_ms >= self.lag_ms and view.still_s >= self.straggler_timeout_s
        return StragglerDecision.LEAP if is_straggler else StragglerDecision.WAIT


class SourceWatch:
    """The sources of one tree node that are skipped, and since when each of the others has stood still."""

    def __init__(self) -> None:
        self.skipped: set[Hashable] = set()
        self._standing: dict[Hashable, tuple[int, float]] = {}

    def forget(self, source: Hashable) -> None:
        """Stops watching a source."""
        self._standing.pop(source, None)
        self.skipped.discard(source)

    def look(self, progress: Mapping[Hashable, int], frontier: int, policy: StragglerPolicy, now: float) -> bool:
        """Skips stragglers, and stops skipping sources that have come up; returns whether the set has changed."""
        before = len(self.skipped)
        most = max(progress.values(), default=frontier)
        for source, reached in progress.items():
            stood_at, since = self._standing.get(source, (None, now))
            if stood_at != reached:
                self._standing[source] = (reached, now)
            elif policy.decide(StragglerView(now - since, most - reached)) is StragglerDecision.LEAP:
                self.skipped.add(source)
            if reached >= frontier and most - reached < policy.lag_ms:
                self.skipped.discard(source)
        return len(self.skipped) != before


class HoldbackTimer:
    """Holds back the panes of one master in one epoch. `written_off` are the agents that are not waited for."""

    def __init__(self, now: float, written_off: int, *, took_over: bool) -> None:
        self.written_off = written_off
        self._is_new_until = now + NEW_EPOCH_S if took_over else now
        self._since: float | None = None

    def holds_back(self, missing: int, now: float) -> bool:
        """Whether to wait (longer) for these agents; writes off the agents over which it leaps."""
        if not missing & ~self.written_off:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        policy = StragglerPolicy(TAKE_OVER_HOLDBACK_S if self._since < self._is_new_until else HOLDBACK_S)
        if policy.decide(StragglerView(now - self._since)) is StragglerDecision.WAIT:
            return True
        self.write_off(missing)
        return False

    def write_off(self, agents: int) -> None:
        """Stops waiting for these agents."""
        self.written_off |= agents
        self._since = None

    def contributed(self, agents: int) -> None:
        """Waits for these agents again, because they have contributed."""
        self.written_off &= ~agents
