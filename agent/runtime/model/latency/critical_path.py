"""Measures how long the last part of each run takes in each phase of its way from a log to the master.

A barrier goes on when its last source has come, so a run is as late as that one: it keeps that one's path, and no
other. Durations are measured where they pass, by one clock each; between two agents, half of what an acknowledgement
takes counts. So only the first phase, from the line that was written to the look that finds it, compares two clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec

from query.latency.phases import Phase

MICROS_MAX = 1 << 40
"""Upper bound on the microseconds of a phase that are told of: some twelve days."""
LEVELS_MAX = 12
"""Upper bound on the levels of a tree that are told apart; further ones are added to the last."""
AT_SOURCE = (Phase.TAIL, Phase.READ_WAIT, Phase.PARSE, Phase.INSERT, Phase.CLOSE, Phase.SEAL_WAIT, Phase.SEAL)
"""The phases of an agent's own part, in the order in which they are told of."""
_FIELDS = 1 + len(AT_SOURCE)

Micros = Annotated[int, msgspec.Meta(ge=0, le=MICROS_MAX)]
WirePath = Annotated[list[Micros], msgspec.Meta(max_length=_FIELDS + 2 * LEVELS_MAX)]
"""The number of the source on the roster, the microseconds of its phases, and those of uplink and combining by level.
Empty: not measured. 200 bytes at most."""


class BlockRead(NamedTuple):
    """The time at which a block was looked for (seconds of the agent's clock), and that which parsing it has taken."""

    looked_at: float
    parse_s: float


class Found(NamedTuple):
    """The look at a feed that has let a pane be closed: when that was (epoch ms, and seconds of the agent's clock), how
    long parsing has taken, when what was found had come, and the time that events have reached; None: there was nothing
    more to find. `taken_at`: when the operator had it, after its turn, and the job's code."""

    looked_ms: int
    looked_at: float
    parse_s: float
    came_at: float
    reached_ms: int | None
    taken_at: float = 0.0


NOT_FOUND = Found(0, 0.0, 0.0, 0.0, None)
"""No look at a feed."""


def found_in_block(read: BlockRead, now: float, wall_ms: int) -> Found:
    """The look that has found a block that is inserted now; the time that events have reached is not known yet."""
    looked_at = min(read.looked_at, now)
    return Found(round(wall_ms - 1000 * (now - looked_at)), looked_at, min(read.parse_s, now - looked_at), now, None)


def found_at_end(looked_ms: int, now: float, wall_ms: float) -> Found:
    """A look (epoch ms) that has found nothing more, as is known now."""
    return Found(looked_ms, now - max(0.0, wall_ms - looked_ms) / 1000, 0.0, now, None)


class Level(NamedTuple):
    """The microseconds from the level below, and those of waiting for others there and combining."""

    uplink: int
    combine: int


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The path of a run's last part. `agent`: its source's number on the roster. `source`: the microseconds in each of
    the phases `AT_SOURCE`. `levels`: those in trees, from the source's own agent on. `at`: the time up to which it is
    measured, by this agent's clock (s)."""

    agent: int
    source: tuple[int, ...]
    levels: tuple[Level, ...]
    at: float

    @classmethod
    def begun(cls, found: Found, end_ms: int, grace_ms: int, pane_ms: int) -> CriticalPath:
        """The path of a pane that ends at a time (epoch ms), and is closed by what was found.

        It could be closed when it and its grace were over or, where an event had to come, once that was written, which
        is not known better than by its own time.
        """
        due_ms = end_ms + grace_ms
        reached_ms = due_ms if found.reached_ms is None else found.reached_ms
        opened_ms = min(max(due_ms, reached_ms), found.looked_ms) if reached_ms < due_ms + pane_ms else due_ms
        opened_ms = max(end_ms, opened_ms)
        tail_s, wait_s = (found.looked_ms - opened_ms) / 1000, found.came_at - found.looked_at - found.parse_s
        spent = {
            Phase.TAIL: tail_s, Phase.READ_WAIT: wait_s, Phase.PARSE: found.parse_s,
            Phase.CLOSE: (opened_ms - end_ms) / 1000,
        }  # fmt: skip
        path = cls(0, tuple(micros_of(spent.get(phase, 0.0)) for phase in AT_SOURCE), (), found.came_at)
        return path.spent(Phase.INSERT, found.taken_at) if found.taken_at > found.came_at else path

    def spent(self, phase: Phase, upto: float) -> CriticalPath:
        """Counts the time up to now for a phase of the source."""
        return replace(self._longer(phase, upto - self.at), at=max(self.at, upto))

    def combined(self, now: float) -> CriticalPath:
        """Counts the time since it has come for this level of the tree."""
        spent = micros_of(now - self.at)
        *below, last = self.levels or (Level(0, 0),)
        last = last._replace(combine=min(MICROS_MAX, last.combine + spent))
        return replace(self, levels=(*below, last), at=max(self.at, now))

    def waited(self, seconds: float) -> CriticalPath:
        """Counts a time for which what was read of a pane had to wait before it came to be closed."""
        return self._longer(Phase.READ_WAIT, seconds)

    def _longer(self, phase: Phase, seconds: float) -> CriticalPath:
        source, place = list(self.source), AT_SOURCE.index(phase)
        source[place] = min(MICROS_MAX, source[place] + micros_of(seconds))
        return replace(self, source=tuple(source))

    def phases(self) -> dict[Phase, float]:
        """Seconds in each phase so far; those of all levels together."""
        found = {phase: micros / 1e6 for phase, micros in zip(AT_SOURCE, self.source, strict=True)}
        found[Phase.UPLINK] = sum(level.uplink for level in self.levels) / 1e6
        found[Phase.COMBINE] = sum(level.combine for level in self.levels) / 1e6
        return found

    def to_wire(self) -> list[int]:
        """The path as it goes up, to the level that has been combined."""
        return [self.agent, *self.source, *(micros for level in self.levels for micros in level)]

    @classmethod
    def from_wire(cls, told: Sequence[int], now: float) -> CriticalPath | None:
        """The path of a run that has come; None if it was not measured, or cannot be one. The last number is that of
        the way to here."""
        if len(told) < _FIELDS:
            return None
        pairs = list(told[_FIELDS:])
        if len(pairs) % 2:
            pairs.append(0)
        levels = [Level(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
        return cls(told[0], tuple(told[1:_FIELDS]), tuple(_bounded(levels)), now)


def _bounded(levels: list[Level]) -> list[Level]:
    """As many levels as may be, of which the last has what further ones took."""
    if len(levels) < LEVELS_MAX:
        return levels
    beyond = levels[LEVELS_MAX - 2 :]
    last = Level(*(min(MICROS_MAX, sum(micros)) for micros in zip(*beyond, strict=True)))
    return [*levels[: LEVELS_MAX - 2], last]


def with_way(told: list[int], seconds: float) -> list[int]:
    """A path as it is sent, with the time that its way to the parent will take.

    >>> with_way([3, 0, 0, 0, 0, 0, 0, 0, 0, 120], 0.0005)[-2:]
    [120, 500]
    """
    return [*told, micros_of(seconds)] if told else told


def last_of(paths: Iterable[CriticalPath | None]) -> CriticalPath | None:
    """The path that came last."""
    return max((path for path in paths if path is not None), key=lambda path: path.at, default=None)


def micros_of(seconds: float) -> int:
    """Whole microseconds, as many as may be told of: also of a time without an end."""
    return round(min(float(MICROS_MAX), max(0.0, 1e6 * seconds)))
