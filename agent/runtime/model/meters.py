"""Counts what the jobs of an agent seal and publish, how long after the end of its pane each run leaves, and the time
of a processor that their work on states takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from enum import IntEnum

from agent.runtime.model.fields import AMOUNT_MAX, WorkDone
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run, closed_ms, total

DELAY_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of delays; a last bucket has all that are longer."""


class DelayHistogram:
    """Delays by bucket.

    >>> delays = DelayHistogram()
    >>> for delay_s in (0.05, 0.07, 1000.0):
    ...     delays.observe(delay_s)
    >>> delays.cumulative()[:2], delays.cumulative()[-1], delays.sum_s
    ([1, 2], 3, 1000.12)
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(DELAY_BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Counts a delay. A clock that is behind makes it 0, not negative."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(DELAY_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def observe_pane(self, upto: int, pane_ms: int | None, wall_ms: int) -> None:
        """Counts the time from the end of a pane until now; nothing where panes have no end."""
        if pane_ms is not None and upto not in (FIRST_PANE, END):
            self.observe((wall_ms - closed_ms(upto, pane_ms) - 1) / 1000)

    def cumulative(self) -> list[int]:
        """The number of delays up to each bound, and of all."""
        counts, so_far = [], 0
        for count in self.counts:
            so_far += count
            counts.append(so_far)
        return counts


class JobMeter:
    """Counts what all jobs of one agent seal and publish; an event that two jobs read counts for each of them."""

    def __init__(self) -> None:
        self.sealed = Counts()
        self.runs = self.windows = 0
        self.seal_delays = DelayHistogram()
        self.publish_delays = DelayHistogram()

    def count_run(self, run: Run, pane_ms: int | None, wall_ms: int) -> None:
        """Counts a run that an agent's worker has sealed; without `pane_ms` it is of a job without a present."""
        self.runs += 1
        self.sealed = self.sealed.plus(total(run.counted.values()))
        self.seal_delays.observe_pane(run.upto, pane_ms, wall_ms)

    def count_windows(self, windows: int, upto: int, pane_ms: int | None, wall_ms: int) -> None:
        """Counts windows that a master has published, up to a pane."""
        self.windows += windows
        self.publish_delays.observe_pane(upto, pane_ms, wall_ms)


class Work(IntEnum):
    """Kinds of work for a job on states of panes and windows, by their place in `WorkDone`: further ones come last.

    COUNT: rows of events, and panes. KEEP: states that workers send, and their rows; no time. ENCODE, DECODE, JOIN:
    states that go up trees, and those that were combined. MERGE: states that came in or were merged for windows. MADE:
    windows of a root, and their rows before any is left out; no time. SHOW: windows at the master, and their rows.
    SHOWN: the rows that are left of these; no time.
    """

    COUNT = 0
    KEEP = 1
    ENCODE = 2
    DECODE = 3
    JOIN = 4
    MERGE = 5
    MADE = 6
    SHOW = 7
    SHOWN = 8


_KINDS = len(Work)


class WorkMeter:
    """Adds up the work of one job on one agent, and what others have told of theirs, until it is told of itself.

    >>> meter = WorkMeter()
    >>> meter.note(Work.KEEP, frames=1, rows=500)
    >>> meter.add([(2, 10, 30), (1, 500, 0)])
    >>> meter.take(), meter.take()
    ([(2, 10, 30), (2, 1000, 0)], [])
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        """Seconds of work that the process has done."""
        self.counted: Callable[[], float] = lambda: 0.0
        """Seconds of work on events, since it was asked last."""
        self._done = [[0, 0, 0.0] for _ in range(_KINDS)]

    def note(self, work: Work, frames: int, rows: int, seconds: float = 0.0) -> None:
        """Notes work that was done here."""
        done = self._done[work]
        done[0] += frames
        done[1] += rows
        done[2] += seconds

    def add(self, told: Iterable[tuple[int, int, int]]) -> None:
        """Adds what another agent has told; kinds of a later release are left out."""
        for work, (frames, rows, micros) in zip(Work, told, strict=False):
            self.note(work, frames, rows, micros / 1e6)

    def seconds(self, work: Work) -> float:
        """The time of one kind since it was told of last."""
        return self._done[work][2]

    def take(self) -> WorkDone:
        """All that was done since it was told of last, without kinds at the end that were not; told of now."""
        done = self._done
        done[Work.COUNT][2] += self.counted()
        while done and not any(done[-1]):
            done.pop()
        told = [(_amount(frames), _amount(rows), _amount(1e6 * seconds)) for frames, rows, seconds in done]
        self._done = [[0, 0, 0.0] for _ in range(_KINDS)]
        return told


def _amount(number: float) -> int:
    return min(AMOUNT_MAX, max(0, round(number)))
