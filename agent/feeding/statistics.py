"""Counts what an agent has read of a stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.feeding.reading import ReadBatch
from agent.parsing import Parsed
from agent.sources.reader import ReaderStatistics

RATE_S = 5.0
"""Time over which rates are averaged."""


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Totals of one stream since the agent started. Lines that several readings read count once for each.

    `files` and `unreadable` are numbers of the readings that run now, or else of the last one; `at_end`: all readings
    have read all lines.
    """

    files: int = 0
    unreadable: int = 0
    events: int = 0
    malformed: int = 0
    bytes_read: int = 0
    truncated: int = 0
    broken: int = 0
    gone: int = 0
    missed: int = 0
    events_per_s: float = 0.0
    at_end: bool = True


class StreamMeter:
    """Sums up the readings of one stream."""

    def __init__(self) -> None:
        self._events = 0
        self._malformed = 0
        self._readings: dict[object, tuple[ReaderStatistics, bool]] = {}
        self._ended = ReaderStatistics()
        self._last_unreadable = 0
        self._samples: deque[tuple[float, int]] = deque()  # time, events until then

    def count(self, parsed: Parsed, now: float) -> None:
        """Counts events inserted into the agent."""
        if not self._samples or now - self._samples[-1][0] >= RATE_S / 10:
            self._samples.append((now, self._events))
        self._events += sum(frame.height for frame in parsed.all_frames)
        self._malformed += parsed.malformed
        self._forget(now)

    def note(self, reading: object, found: ReadBatch) -> None:
        """Notes the progress of a reading."""
        self._readings[reading] = (found.statistics, found.at_end)

    def end(self, reading: object) -> None:
        """Ends a reading; its totals stay counted."""
        last, _ = self._readings.pop(reading, (ReaderStatistics(), True))
        self._ended = _sum(self._ended, last)
        self._last_unreadable = last.unreadable

    def statistics(self, now: float) -> StreamStatistics:
        self._forget(now)
        total = self._ended
        for reading, _ in self._readings.values():
            total = _sum(total, reading)
        current = [reading for reading, _ in self._readings.values()]
        return StreamStatistics(
            files=max((reading.files for reading in current), default=0),
            unreadable=max((reading.unreadable for reading in current), default=self._last_unreadable),
            events=self._events,
            malformed=self._malformed,
            bytes_read=total.bytes_read,
            truncated=total.truncated,
            broken=total.broken,
            gone=total.gone,
            missed=total.missed,
            events_per_s=self._rate(now),
            at_end=all(at_end for _, at_end in self._readings.values()),
        )

    def _forget(self, now: float) -> None:
        while self._samples and self._samples[0][0] < now - RATE_S:
            self._samples.popleft()

    def _rate(self, now: float) -> float:
        if not self._samples:
            return 0.0
        since, before = self._samples[0]
        return (self._events - before) / max(now - since, 1.0)


def _sum(one: ReaderStatistics, other: ReaderStatistics) -> ReaderStatistics:
    return ReaderStatistics(
        bytes_read=one.bytes_read + other.bytes_read,
        truncated=one.truncated + other.truncated,
        broken=one.broken + other.broken,
        gone=one.gone + other.gone,
        missed=one.missed + other.missed,
    )
