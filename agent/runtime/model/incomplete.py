"""Remembers the panes that were published without some agent, so that each agent learns what became of its runs.

An agent seals a pane, and hears only that the pane is published: its run may have come too late, or on the other side
of a cut. So a master names the spans in which somebody it knows is no contributor, for a while and again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agent.runtime.model import contributors as bitmaps
from agent.runtime.model.panes import Run

SPANS_MAX = 64
"""Upper bound on the spans that a master names; past it the oldest are forgotten."""
HEAL_RETENTION_MS = 300_000
"""Default of `heal_retention`: time for which panes that were published without somebody are remembered."""

WireSpan = tuple[int, int, bytes]


class IncompleteSpan(NamedTuple):
    """The panes in (after, upto], published with these contributors, who are not all that their master knew."""

    after: int
    upto: int
    contributors: int


class IncompleteSpans:
    """The incomplete spans of one job at its master, in pane order; neighbours with equal contributors are one."""

    def __init__(self, spans: Iterable[IncompleteSpan] = ()) -> None:
        self._spans = list(spans)

    def note(self, span: IncompleteSpan, known: int) -> None:
        """Notes a span, which follows all others, if one of the known agents is no contributor. O(1)."""
        if not known & ~span.contributors:
            return
        last = self._spans[-1] if self._spans else None
        if last is not None and (last.upto, last.contributors) == (span.after, span.contributors):
            self._spans[-1] = last._replace(upto=span.upto)
        else:
            self._spans.append(span)
            del self._spans[:-SPANS_MAX]

    def forget(self, before: int) -> None:
        """Forgets the spans that end before a pane."""
        while self._spans and self._spans[0].upto < before:
            del self._spans[0]

    def within(self, after: int, upto: int) -> Iterator[IncompleteSpan]:
        """The spans, cut to the panes in (after, upto]."""
        for span in self._spans:
            if span.after < upto and span.upto > after:
                yield span._replace(after=max(span.after, after), upto=min(span.upto, upto))

    def __bool__(self) -> bool:
        return bool(self._spans)


class UnshownSpan(NamedTuple):
    """The panes in (after, upto], published without these agents, of which no window has been shown."""

    after: int
    upto: int
    agents: int


class UnshownSpans:
    """The panes that a job's master has published without somebody since its last window: nobody who was heard had
    events of them, so no window says who lacks in it. The next window does, whichever that is."""

    def __init__(self, spans: Iterable[UnshownSpan] = ()) -> None:
        self._spans = list(spans)

    def note(self, span: UnshownSpan) -> None:
        """Notes a span, which follows all others, if it lacks anybody. Past `SPANS_MAX` the two oldest become one."""
        if not span.agents:
            return
        last = self._spans[-1] if self._spans else None
        if last is not None and (last.upto, last.agents) == (span.after, span.agents):
            self._spans[-1] = last._replace(upto=span.upto)
            return
        self._spans.append(span)
        if len(self._spans) > SPANS_MAX:
            first, second = self._spans[:2]
            self._spans[:2] = [UnshownSpan(first.after, second.upto, first.agents | second.agents)]

    def shown(self, start: int, end: int) -> list[UnshownSpan]:
        """Forgets the panes up to the end of a window that is shown; returns those before its start.

        >>> spans = UnshownSpans([UnshownSpan(0, 5000, 0b1)])
        >>> spans.shown(3000, 4000), spans.shown(5000, 6000)
        ([UnshownSpan(after=0, upto=2999, agents=1)], [UnshownSpan(after=3999, upto=4999, agents=1)])
        """
        before = [one._replace(upto=min(one.upto, start - 1)) for one in self._spans if one.after < start - 1]
        self._spans = [one._replace(after=max(one.after, end - 1)) for one in self._spans if one.upto >= end]
        return before

    def __iter__(self) -> Iterator[UnshownSpan]:
        return iter(self._spans)

    def __bool__(self) -> bool:
        return bool(self._spans)


def to_wire(spans: Iterable[IncompleteSpan | UnshownSpan]) -> tuple[WireSpan, ...]:
    """The spans as messages carry them."""
    return tuple((after, upto, bitmaps.to_bytes(agents)) for after, upto, agents in spans)


def from_wire(spans: Iterable[WireSpan]) -> list[IncompleteSpan]:
    """The spans of a message."""
    return [IncompleteSpan(after, upto, bitmaps.from_bytes(agents)) for after, upto, agents in spans]


@dataclass(frozen=True, slots=True)
class Publication:
    """The master's word to one agent: the panes up to `frontier` are published, some `without` it.

    `incomplete`: the incomplete spans, whoever lacks in them. `without`: those of them that lack this agent.
    """

    frontier: int
    incomplete: tuple[tuple[int, int], ...] = ()
    without: tuple[tuple[int, int], ...] = ()

    @classmethod
    def to(cls, numbers: int, frontier: int, spans: Iterable[IncompleteSpan]) -> Publication:
        """The word to the agent that has these numbers (a bitmap)."""
        spans = tuple(spans)
        without = tuple(span[:2] for span in spans if not span.contributors & numbers)
        return cls(frontier, tuple(span[:2] for span in spans), without)

    def lacks(self, pane: int) -> bool:
        """Whether a pane was published without this agent."""
        return any(after < pane <= upto for after, upto in self.without)

    def is_incomplete_in(self, after: int, upto: int) -> bool:
        """Whether a pane in (after, upto] was published without somebody."""
        return _overlaps(self.incomplete, after, upto)

    def parts_with(self, run: Run) -> Iterator[Run]:
        """The parts of this agent's run that are published with it; the run itself if that is all of it."""
        after = run.after
        for begin, end in self.without:
            if begin < run.upto and end > after:
                if after < begin:
                    yield run.within(after, begin)
                after = end
        if after < run.upto:
            yield run.within(after, run.upto)


def _overlaps(spans: Iterable[tuple[int, int]], after: int, upto: int) -> bool:
    return any(begin < upto and end > after for begin, end in spans)
