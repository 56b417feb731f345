"""The windows of a plan: plain data, beside the plan's other parts.

Windows are aligned to the Unix epoch. All windows of a plan are made of *panes*, and agents know only these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

from query.model.limits import DAY_MS, WINDOW_DAYS_MAX

SIZES_MAX = 8
PANES_MAX = 10_000
"""Upper bound on the panes of a window: the panes of an open window are kept."""
OPEN_MAX = 100
"""Upper bound on open windows where each pane gives a result of every open window."""
SESSION_MAX_MS = DAY_MS
"""Approximate length at which a session is cut, or a hundred gaps where these are longer."""
_SESSION_GAPS = 100
PARTS_MAX = 10
PART_MIN_MS = 1_000
"""Upper bound on the panes of a window whose changes are shown, and of a session's gap; panes have at least a second,
unless the query is to show changes sooner. Panes of a second do not wait for late events, shorter ones do."""


class WindowsError(ValueError):
    """Invalid windows; the message says why, `hint` what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, order=True)
class PlanWindowSize:
    """Windows of `size_ms`, one every `slide_ms`."""

    size_ms: int
    slide_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """Sessions: each of a group's events is at most `gap_ms` after the one before; cut at multiples of `max_ms`."""

    gap_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class Windowing:
    """The windows of a query: `sizes` in ascending order, or a `session`. `changes`: windows are also shown while they
    are open. `grace_ms`: the time for which late events are awaited; None for the job's default. `part_ms`: panes have
    this length, and not all that sizes and slides have in common or, for changes, up to PARTS_MAX parts of it.

    >>> Windowing((PlanWindowSize(600_000, 60_000),)).pane_ms
    60000
    """

    sizes: tuple[PlanWindowSize, ...] = ()
    session: Session | None = None
    changes: bool = False
    grace_ms: int | None = None
    part_ms: int | None = None

    def end_after(self, time_ms: int) -> int:
        """The first end of a window of any size after a time (epoch ms). Raises ValueError for sessions.

        >>> Windowing((PlanWindowSize(10_000, 4_000), PlanWindowSize(60_000, 60_000))).end_after(10_000)
        14000
        """
        return min(time_ms - (time_ms - one.size_ms) % one.slide_ms + one.slide_ms for one in self.sizes)

    @property
    def pane_ms(self) -> int:
        """The length of a pane (ms): the greatest common divisor of sizes and slides, or a part of it."""
        if self.session is not None:
            return _part(self.session.gap_ms)
        return self.part_ms or (_part(self.common_ms) if self.changes else self.common_ms)

    @property
    def cuts(self) -> int:
        """The number of panes that what sizes and slides have in common is cut into, which are merged before it is
        shown; parts of changes are shown one by one."""
        return 1 if self.session is not None or self.changes else self.common_ms // self.pane_ms

    def cut(self, cuts: int) -> Windowing:
        """The windows with what their sizes and slides have in common cut into so many panes, of a size. Raises
        WindowsError where that cannot be.

        >>> Windowing((PlanWindowSize(1_000, 1_000),)).cut(4).pane_ms
        250
        """
        if cuts < 1 or self.common_ms % cuts:
            raise WindowsError(f"{self.common_ms:,} ms cannot be cut into {cuts:,} panes")
        windowing = replace(self, part_ms=None if cuts == 1 else self.common_ms // cuts)
        windowing.check()
        return windowing

    @property
    def common_ms(self) -> int:
        """The greatest common divisor of sizes and slides (ms)."""
        return gcd(*(length for one in self.sizes for length in (one.size_ms, one.slide_ms)))

    @property
    def size_ms(self) -> int:
        """The length of its windows (ms), of the longest if there are several; of sessions, the longest there is."""
        return self.session.max_ms if self.session is not None else self.sizes[-1].size_ms

    @property
    def slide_ms(self) -> int:
        """The interval (ms) at which windows of each size begin; the longest if there are several."""
        return self.pane_ms if self.session is not None else max(one.slide_ms for one in self.sizes)

    @property
    def is_tumbling(self) -> bool:
        """Whether each event is in one window, which follows from its time."""
        return len(self.sizes) == 1 and self.sizes[0].size_ms == self.sizes[0].slide_ms

    @property
    def is_of_panes(self) -> bool:
        """Whether each window is one pane."""
        return self.is_tumbling and not self.changes and self.part_ms is None

    def check(self) -> None:
        """Raises WindowsError for invalid windows."""
        lengths = [length for one in self.sizes for length in (one.size_ms, one.slide_ms)]
        lengths += [] if self.session is None else [self.session.gap_ms]
        if not lengths or min(lengths) < 1:
            raise WindowsError("a window of zero length holds nothing", "as in WINDOWING 30 SECONDS")
        if max(lengths) > WINDOW_DAYS_MAX * DAY_MS:
            raise WindowsError(f"a window may be at most {WINDOW_DAYS_MAX:,} days long")
        if self.session is not None:
            self._check_session(self.session)
        else:
            self._check_sizes()

    def _check_session(self, own: Session) -> None:
        if own != session(own.gap_ms) or self.sizes:
            raise WindowsError("sessions are cut elsewhere")
        if self.changes or self.part_ms is not None:
            raise WindowsError("EMIT CHANGES is for windows of a size: a session comes when it is over")

    def _check_sizes(self) -> None:
        if self.part_ms is not None and not (self.part_ms >= 1 and self.common_ms % self.part_ms == 0):
            raise WindowsError("the parts of windows divide them")
        if len(self.sizes) > SIZES_MAX:
            raise WindowsError(f"a query has windows of at most {SIZES_MAX} sizes")
        if any(one.slide_ms > one.size_ms for one in self.sizes):
            hint = "EVERY is at most as long as the window"
            raise WindowsError("these windows would leave out the events between them", hint)
        if any(one.size_ms >= other.size_ms for one, other in pairwise(self.sizes)):
            raise WindowsError("each size of windows is given once")
        if self.size_ms > PANES_MAX * self.pane_ms:
            raise WindowsError(
                f"a window would have {self.size_ms // self.pane_ms:,} panes of {self.pane_ms:,} ms, which all sizes "
                f"have in common: at most {PANES_MAX:,}",
                "choose sizes that divide each other",
            )
        at_once = sum(-(-one.size_ms // one.slide_ms) for one in self.sizes) if self.changes else len(self.sizes)
        if self.changes and at_once > OPEN_MAX:
            hint = "leave EMIT CHANGES out, or let windows overlap less"
            raise WindowsError(f"{at_once:,} windows would change at once: at most {OPEN_MAX}", hint)
        if at_once > self.pane_ms:
            raise WindowsError("windows this short come one size at a time, and without EMIT CHANGES")


def session(gap_ms: int) -> Session:
    """Sessions with this gap, and the longest they may be: whole panes."""
    pane_ms = _part(max(1, gap_ms))
    most = max(SESSION_MAX_MS, _SESSION_GAPS * gap_ms)
    return Session(gap_ms, -(-most // pane_ms) * pane_ms)


def _part(length_ms: int) -> int:
    """The length in up to PARTS_MAX equal parts of a second or more, or as a whole."""
    parts = (n for n in range(PARTS_MAX, 1, -1) if length_ms % n == 0 and length_ms // n >= PART_MIN_MS)
    return length_ms // next(parts, 1)


def parts_within(windowing: Windowing, limit_ms: int) -> Windowing:
    """The windows with parts so short that changes can be shown within a limit of the time of an event.

    At most half of the limit is for the event's part to be over. Parts under a second wait for late events as well: a
    quarter. Raises WindowsError where windows would have too many parts.

    >>> minute = Windowing((PlanWindowSize(60_000, 60_000),), changes=True)
    >>> [parts_within(minute, limit_ms).pane_ms for limit_ms in (20_000, 3_000, 500)]
    [6000, 1500, 125]
    """
    if not windowing.changes:
        return windowing
    longest = _longest_part(windowing, limit_ms // 2)
    if longest < PART_MIN_MS:
        longest = _longest_part(windowing, limit_ms // 4)
    return windowing if longest == windowing.pane_ms else replace(windowing, part_ms=longest)


def _longest_part(windowing: Windowing, most_ms: int) -> int:
    """The length of the longest parts up to a length (ms), and no longer than they are already."""
    length_ms, most_ms = windowing.common_ms, min(windowing.pane_ms, max(1, most_ms))
    parts = (n for n in range(-(-length_ms // most_ms), PANES_MAX + 1) if length_ms % n == 0)
    if (fewest := next(parts, None)) is None:
        raise WindowsError(f"a window would have more than {PANES_MAX:,} parts of at most {most_ms:,} ms")
    return length_ms // fewest


def tumbling(size_ms: int) -> Windowing:
    """Windows of one size, one after the other."""
    return Windowing((PlanWindowSize(size_ms, size_ms),))
