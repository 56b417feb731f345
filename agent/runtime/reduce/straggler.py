"""Decides how long a job waits for stragglers, and when it leaps over them.

Tree nodes see who lags: where sources are stragglers by the policy of the job's query, they report it to the master,
and the master decides once for all trees up to which pane nobody is waited for (*leap*). It multicasts that to all. A
worker that has not sealed these panes passes over them, and says so in its run; so nobody leaps whose part is stuck
elsewhere. Sources that do not answer are given up a moment later. Where code cuts the panes, a node skips sources
that stand still.

The master also asks about the agents that a complete pane lacks. Whoever loses its parent is back within about a
second, with what it has sealed; publishing meanwhile would report agents as missing that are well. So a pane is held
back a little, once for each agent that is away: agents that were written off are not waited for again until they have
contributed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Versions
from agent.runtime.model import contributors
from agent.runtime.model.panes import END, FIRST_PANE

STRAGGLER_TIMEOUT_S = 60.0
"""Time by which a source lags before it is leaped over, where the query does not say more: pane time and, of one
that reads the past, time since others were where it is."""
SELF_PACED_STRAGGLER_TIMEOUT_S = 10.0
"""Straggler timeout where the job's code cuts the panes."""
LAG_PANES = 2
"""Panes (the longest of any version) by which a straggler lags behind the source that is farthest ahead."""
LOOK_INTERVAL_S = 1.0
"""Time between looks for stragglers among the sources of a tree node."""
RUNS_MAX = 4096
"""Upper bound on the runs of one source that wait for others. From half of it on stragglers are leaped over."""
PACES_MAX = 128
"""Upper bound on the reports of stragglers that are kept, one a second."""
LEAP_PATIENCE_S = 0.5
"""Time after a leap for which sources that do not answer are waited for."""
LEAP_AGAIN_S = 1.0
"""Least time before a leap is announced again."""
SLOW_LOOK_S = 1.0
"""Time between looks past which an agent is slow itself, and judges nobody for as long."""
SETTLED_S = 5.0
"""Age of an agent's part in an epoch from which on it judges others: all have to hand in again what they have."""
RECOVER_S = 4.0
"""Time for which a window waits for the part of a dead agent, where the query does not say more: a second less than it
may come late at the most."""
DETECTION_S = 1.0
"""Time within which a death is known, mostly."""
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

    `still_s`: time since it has moved. `lag_ms`: pane time by which it is behind the farthest one. `runs`: the number
    of runs of another source that wait for it.
    """

    still_s: float
    lag_ms: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class StragglerPolicy:
    """Leaps over whoever lags by `lag_ms` and has not moved for `straggler_timeout_s`, or holds up too many runs.

    `pane_ms`: the longest pane. `is_default`: the query does not say when anybody is leaped over.
    """

    straggler_timeout_s: float
    lag_ms: int = 0
    pane_ms: int = 0
    is_default: bool = False

    @classmethod
    def of_sources(cls, versions: Versions) -> StragglerPolicy:
        """The policy for the sources of a job's tree nodes: that of its query, for all of its versions' panes."""
        newest = versions.newest.function
        longest_ms = max(_whole_pane_ms(one.function) for one in versions)
        if newest.self_paced:
            return cls(SELF_PACED_STRAGGLER_TIMEOUT_S, LAG_PANES * longest_ms, longest_ms)
        stated = newest.plan.stragglers
        if stated.waits:
            return cls(0.0, END, longest_ms)
        if stated.leap_panes is not None:
            return cls(0.0, stated.leap_panes * longest_ms, longest_ms)
        return cls(0.0, max(LAG_PANES * longest_ms, int(1000 * STRAGGLER_TIMEOUT_S)), longest_ms, is_default=True)

    def decide(self, view: StragglerView) -> StragglerDecision:
        """Whether to wait any longer.

        >>> policy = StragglerPolicy(60.0, 2000)
        >>> policy.decide(StragglerView(61.0, 1000)).name, policy.decide(StragglerView(61.0, 2000)).name
        ('WAIT', 'LEAP')
        """
        is_straggler = view.lag_ms >= self.lag_ms and view.still_s >= self.straggler_timeout_s
        return StragglerDecision.LEAP if is_straggler or self.is_full(view.runs) else StragglerDecision.WAIT

    def is_full(self, runs: int) -> bool:
        """Whether no more runs of a source should wait for others."""
        return runs >= RUNS_MAX // 2

    def leap_to(self, reached: int, most: int, runs: int = 0) -> int | None:
        """The pane up to which nobody is waited for who has come to `reached`, where others have come to `most`; None:
        no leap.

        >>> policy = StragglerPolicy(0.0, 2000, 1000)
        >>> policy.leap_to(4000, 5000), policy.leap_to(4000, 6000), policy.leap_to(4000, 9000)
        (None, 5000, 8000)
        """
        if self.decide(StragglerView(0.0, most - reached, runs)) is StragglerDecision.WAIT:
            return None
        upto = most - self.pane_ms if self.is_full(runs) else most - self.lag_ms + self.pane_ms
        return upto if upto > reached else None


def _whole_pane_ms(function: JobFunction) -> int:
    """The length of a pane (ms) as the query has it, cut or not."""
    windowing = function.plan.windowing
    return (function.pane_ms or END) * (1 if windowing is None else windowing.cuts)


class AgentClocks:
    """The wall clocks of a job's agents, as they were when each enrolled with this master.

    A leap cannot be taken back: if one clock is an hour ahead, be it the master's own, nothing would be published for
    an hour.
    """

    def __init__(self) -> None:
        self._leads_ms: dict[int, float] = {}
        """Lead of each agent's wall clock on this agent's monotonic one, by its number."""

    def note(self, number: int, wall_ms: int, now: float) -> None:
        """Notes what an agent's clock has said just now."""
        self._leads_ms[number] = wall_ms - now * 1000

    def agreed_ms(self, present: int, own_ms: int, now: float) -> int:
        """The time (epoch ms) by the middle one of these agents' clocks and one's own; of two in the middle, the one
        that is nearer to one's own.

        >>> clocks = AgentClocks()
        >>> clocks.note(0, 5000, 1.0)
        >>> clocks.agreed_ms(0b1, 3_600_000, 2.0)
        3600000
        >>> clocks.note(1, 5010, 1.0)
        >>> clocks.agreed_ms(0b11, 3_600_000, 2.0)
        6010
        """
        own = own_ms - now * 1000
        leads = sorted([own, *(lead for number, lead in self._leads_ms.items() if present >> number & 1)])
        low, high = leads[(len(leads) - 1) // 2], leads[len(leads) // 2]
        return round(now * 1000 + min(max(own, low), high))


class ReportedPaces:
    """The panes to which others than stragglers had come, by the reports of the last minute.

    Who reads the past comes through months of panes within seconds: there, panes do not say how late anybody is.
    """

    def __init__(self) -> None:
        self._reports: deque[tuple[float, int]] = deque(maxlen=PACES_MAX)

    def note(self, most: int, now: float) -> None:
        """Notes a report of the pane to which others have come. O(1)."""
        if not self._reports or now - self._reports[-1][0] >= LOOK_INTERVAL_S:
            self._reports.append((now, most))

    def a_minute_before(self, now: float) -> int:
        """The pane to which others had come by then; FIRST_PANE if nobody had reported. O(reports).

        >>> paces = ReportedPaces()
        >>> paces.note(1000, 5.0), paces.note(9000, 6.0)
        (None, None)
        >>> paces.a_minute_before(64.0) == FIRST_PANE, paces.a_minute_before(65.5)
        (True, 1000)
        """
        return max((most for at, most in self._reports if now - at >= STRAGGLER_TIMEOUT_S), default=FIRST_PANE)


class MasterLeaps(AgentClocks):
    """Decides for all trees of one master, as agents report stragglers, up to which pane nobody is waited for.

    An agent may be ahead of time, the master's too: nobody lags behind panes that were not over by most agents' clocks.
    """

    def __init__(self, now: float) -> None:
        super().__init__()
        self.upto = FIRST_PANE
        self._at = now
        self._paces = ReportedPaces()

    def decide(self, versions: Versions, frontier: int, most: int, runs: int, time_ms: int, now: float) -> bool:
        """Whether to tell all of a leap, now or again. `most`: the pane to which others have come who lag behind
        `frontier`, for whom `runs` wait. `time_ms`: the agreed time."""
        newest, policy = versions.newest.function, StragglerPolicy.of_sources(versions)
        if newest.plan.windowing is None:
            return False
        over_ms, pane_ms = time_ms - newest.grace.waits_ms, newest.plan.windowing.pane_ms
        most = min(most, over_ms // pane_ms * pane_ms - pane_ms)
        self._paces.note(most, now)
        # Others may have come to the present: what counts is whether stragglers are farther back than they ever come
        # by standing still there.
        is_past = over_ms - frontier > 1000 * STRAGGLER_TIMEOUT_S + policy.lag_ms + 2 * policy.pane_ms
        if is_past and policy.is_default and not policy.is_full(runs):
            most = self._paces.a_minute_before(now)
        upto = policy.leap_to(frontier, most, runs)
        if upto is None or (upto <= self.upto and now - self._at < LEAP_AGAIN_S):
            return False
        self.leap(upto, now)
        return True

    def leap(self, upto: int, now: float) -> None:
        """Has nobody be waited for up to a pane, as all are told now."""
        self.upto, self._at = max(upto, self.upto), now


class LeapTimer:
    """Times the leaps of one agent in one epoch: its reports of stragglers, and its patience with silent sources.

    An agent that looks too rarely is slow itself: it then knows nothing of the others. So does one in a new epoch.
    """

    def __init__(self) -> None:
        self._trusted_from: float | None = None
        self._reported: tuple[int, float] = (FIRST_PANE, 0.0)
        self._leap: tuple[int, float] = (FIRST_PANE, 0.0)

    def look(self, now: float, *, is_slow: bool = False) -> bool:
        """Notes that the agent has its turn, which may have come late (`is_slow`); returns whether it may judge
        others."""
        if self._trusted_from is None:
            self._trusted_from = now + SETTLED_S
        elif is_slow:
            self._trusted_from = max(self._trusted_from, now + SLOW_LOOK_S)
        return now >= self._trusted_from

    @property
    def upto(self) -> int | None:
        """The pane up to which silent sources are no longer waited for; None before the first look of the epoch."""
        return None if self._trusted_from is None else self._leap[0]

    def reports(self, most: int, now: float) -> bool:
        """Whether to report stragglers to the master now, or again."""
        reported, at = self._reported
        if most <= reported and now - at < LOOK_INTERVAL_S:
            return False
        self._reported = (max(most, reported), now)
        return True

    def leap(self, upto: int, now: float) -> None:
        """Notes that the master has decided on a leap."""
        if upto > self._leap[0]:
            self._leap = (upto, now)

    def gives_up(self, now: float) -> int | None:
        """The pane up to which silent sources are no longer waited for, once they had time to pass over it."""
        upto, at = self._leap
        return upto if upto > FIRST_PANE and now - max(at, self._trusted_from or 0.0) >= LEAP_PATIENCE_S else None


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
    """Holds back the panes of one master in one epoch. `written_off` are the agents that are not waited for.

    Agents that are away may have lost their parent alone. Dead ones are waited for as long as the job says, from the
    first part of the pane on, and so are those that are back until they have handed in what they have.
    """

    def __init__(self, now: float, written_off: int, *, took_over: bool) -> None:
        self.written_off = written_off
        self._is_new_until = now + NEW_EPOCH_S if took_over else now
        self._dead = 0
        self._died_at: dict[int, float] = {}
        self._back_at: dict[int, float] = {}
        self._begun_at: float | None = None
        self._since: float | None = None

    def begun(self, *, has_parts: bool, now: float) -> None:
        """Notes whether parts of a pane have come that is not published."""
        if not has_parts:
            self._begun_at = None
        elif self._begun_at is None:
            self._begun_at = now

    def waited_s(self, now: float) -> float:
        """Time for which parts of a pane have waited that is not published."""
        return 0.0 if self._begun_at is None else now - self._begun_at

    def holds_back(self, missing: int, recover_s: float, now: float) -> bool:
        """Whether to wait (longer) for these agents; writes off the agents over which it leaps."""
        awaited = missing & ~self.written_off
        if not awaited:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        ends = []
        if awaited & ~self._dead:
            ends.append(self._since + (TAKE_OVER_HOLDBACK_S if self._since < self._is_new_until else HOLDBACK_S))
        if awaited & self._dead:
            ends.append((self._since if self._begun_at is None else self._begun_at) + recover_s)
        ends += [at + HOLDBACK_S for number, at in self._back_at.items() if awaited >> number & 1]
        if now < max(ends):
            return True
        self.write_off(missing)
        return False

    @property
    def dead(self) -> int:
        """The agents that are known to be dead."""
        return self._dead

    def died(self, agents: int, now: float, *, again: bool = False) -> None:
        """Notes that agents are dead; `again`: they have been back since they were taken for dead before."""
        for number in contributors.members(agents if again else agents & ~self._dead):
            self._died_at[number] = now
        self._dead |= agents

    def heard(self, agents: int) -> None:
        """Notes that agents work on, or again: it is not enough that they have enrolled."""
        for number in contributors.members(agents):
            self._died_at.pop(number, None)

    @property
    def unheard(self) -> int:
        """The agents that have died, and that nothing has been heard of since."""
        return sum(1 << number for number in self._died_at)

    def died_within(self, seconds: float, now: float) -> int:
        """The ones of these that have died in the last so many seconds, which may have been known a moment later."""
        return sum(1 << number for number, at in self._died_at.items() if now < at - DETECTION_S + seconds)

    def write_off(self, agents: int) -> None:
        """Stops waiting for these agents."""
        self.written_off |= agents
        self._since = None
        self._forget_return(agents)

    def returned(self, agents: int, now: float) -> None:
        """Notes that agents were started again, and bring what they had. Those that were written off are worth the
        holdback; the others are waited for as the dead are, and as long as that at least."""
        self._dead = (self._dead | agents) & ~(self.written_off & agents)
        self.written_off &= ~agents
        for number in contributors.members(agents):
            self._back_at.setdefault(number, now)

    def contributed(self, agents: int) -> None:
        """Waits for these agents again, because they have contributed."""
        self.written_off &= ~agents
        self._dead &= ~agents
        self._begun_at = None
        self._forget_return(agents)

    def _forget_return(self, agents: int) -> None:
        self._back_at = {number: at for number, at in self._back_at.items() if not agents >> number & 1}
