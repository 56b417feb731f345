"""Tells from the times of a log's last lines how fast they come, how late, and whether that can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from agent.runtime.ingest.event_clock import FUTURE_MS
from query.latency.buckets import LONGEST_US
from query.latency.statistics import PhaseStatistics

Doubt = Literal["", "few lines", "no times", "standstill", "clock", "more logs"]
"""Reason not to believe a rate: too few lines; lines without times of their own; none has come for long; the times are
far from the agent's clock while lines come; or more logs are there, which add to it. "": there is none."""
LINES_MIN = 200
"""Lines below which nothing is told from their times."""
STANDSTILL_MS = 30_000
"""Time without a line after which none is expected, or _GAPS times their mean distance if that is longer."""
CLOCK_MS = 600_000
"""Distance of the newest time from a log's last write from which on one of the two is wrong."""
_GAPS = 20
_LAST = 16
"""Lines whose middle time is taken as the newest: one alone may be wrong."""
_WITHIN = (0.02, 0.98)
"""Shares of times between which lines are counted: some may be far from all others."""
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogTimes:
    """The lines a second of a log, 0 where that is not known, why it is to be doubted, and how late its lines are: the
    time by which the newest event before them was beyond the ends of their panes."""

    rate: float
    doubt: Doubt
    late: PhaseStatistics


def log_times(times: Times, arrival_ms: int, written_ms: float, wall_ms: int, pane_ms: int) -> LogTimes:
    """From the times (epoch ms) of a log's last lines, in their order. `arrival_ms`: that of lines without any.
    `written_ms`: when the log was written last; `wall_ms`: now. O(n log n)."""
    if not len(times):
        return LogTimes(0.0, "few lines", PhaseStatistics())
    late = _lateness(times, pane_ms)
    if bool((times == arrival_ms).all()):
        return LogTimes(0.0, "no times", late)
    low, high = np.quantile(times, _WITHIN)
    counted, span_ms = int(((times >= low) & (times <= high)).sum()), float(high - low)
    if len(times) < LINES_MIN or span_ms <= 0:
        return LogTimes(0.0, "few lines", late)
    pause_ms, newest_ms = _GAPS * span_ms / counted, float(np.median(times[-_LAST:]))
    if wall_ms - written_ms > max(STANDSTILL_MS, pause_ms):
        return LogTimes(0.0, "standstill", late)
    if newest_ms > wall_ms + FUTURE_MS or newest_ms < written_ms - max(CLOCK_MS, pause_ms):
        return LogTimes(0.0, "clock", late)
    return LogTimes(1000 * counted / span_ms, "", late)


def all_times(logs: Sequence[LogTimes]) -> LogTimes:
    """The times of all logs of an agent: rates add up; where none is known, the first doubt stays. A clock that is
    wrong in one of them makes all doubtful."""
    if not logs:
        return LogTimes(0.0, "few lines", PhaseStatistics())
    late = PhaseStatistics()
    for one in logs:
        late = late.combine(one.late)
    doubts = [one.doubt for one in logs]
    if "clock" in doubts:
        return LogTimes(0.0, "clock", late)
    rate = sum(one.rate for one in logs)
    return LogTimes(rate, "" if rate > 0 else doubts[0], late)


def _lateness(times: Times, pane_ms: int) -> PhaseStatistics:
    """Statistics of the time from the end of each line's pane to the newest event that had come before it."""
    newest = np.concatenate((times[:1], np.maximum.accumulate(times)[:-1]))
    ends = (times // pane_ms + 1) * pane_ms
    late_us = np.clip((newest - ends) * 1000, 0, LONGEST_US)
    told = PhaseStatistics()
    for late, count in zip(*map(np.ndarray.tolist, np.unique(late_us, return_counts=True)), strict=True):
        told.add(late / 1e6, count)
    return told
