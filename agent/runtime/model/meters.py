"""Counts what the jobs of an agent seal and publish, and how long after the end of its pane each run leaves."""

from __future__ import annotations

from bisect import bisect_left

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
