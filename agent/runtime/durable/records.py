"""Describes sealed runs on their way to the disk and back, with the places that readings had come to.

The runs of one version of a job on one agent are a *chain*: each follows the one before. What was read before the place
of a run is in that run, in an earlier one, or in panes after it: of panes up to it nothing is to be counted again, as
an event of its window or as a late one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import Counted, Run

NO_NUMBER = -1


class Chain(NamedTuple):
    """The runs that a worker seals of one version of a job."""

    term: JobTerm
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place in the reading of a feed: what was given to the core lies before it.

    `number` orders the places of one feed, `reading` is the shell's own. `replayed`: the chains whose last run came
    after what lies just before this place, which is read again. `is_inside`: more of the same block follows. `file`
    tells the file of what lies just before it from others.
    """

    number: int
    reading: object = None
    replayed: frozenset[Chain] = frozenset()
    is_inside: bool = False
    file: Hashable = None


Places = Mapping[tuple[str, int | None], Place]
"""The places of feeds, by their keys; the stream comes first."""
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SealedAt:
    """The moment at which a sealing began: what was read before `places` is counted with it, and of the runs before it
    those of the panes in the spans `held` are still needed, and the run itself.
    """

    places: Places = field(default_factory=dict)
    held: tuple[Span, ...] = ()

    def with_run(self, run: Run) -> SealedAt:
        """Returns the moment for a run of the sealing, and those after it."""
        *others, last = self.held or ((run.after, run.after),)
        joined = [(last[0], run.upto)] if last[1] == run.after else [last, (run.after, run.upto)]
        return SealedAt(self.places, (*others, *joined))


@dataclass(frozen=True, slots=True, eq=False)
class SealedRun:
    """A run for the disk. `function` identifies what was computed, `old_functions` what older versions have, by their
    numbers. `number`: the worker's number on the roster, or NO_NUMBER. `oldest`: no run of a version before this one is
    needed.
    """

    chain: Chain
    function: bytes
    run: Run
    at: SealedAt
    number: int = NO_NUMBER
    oldest: int = 0
    old_functions: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job is over on this agent."""

    term: JobTerm


SealedRecord = SealedRun | EndedJob


@dataclass(frozen=True, slots=True)
class StoredPatch:
    """A patch as it comes back from the disk. `panes`: those that it tells of; `lacks`: late events may be lost."""

    carrier: int
    state: bytes
    counted: Counted
    panes: tuple[int, ...]
    lacks: bool


@dataclass(frozen=True, slots=True)
class StoredOldPanes:
    """Panes of an older version as they come back from the disk. `function` identifies what was computed."""

    after: int
    upto: int
    version: int
    function: bytes
    is_partial: bool
    counted: Counted
    state: bytes


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it comes back from the disk; `state`: as bytes. `cut_by`: the number of the placement by which it was
    cut, if it has left."""

    after: int
    upto: int
    number: int
    is_partial: bool
    counted: Counted
    state: bytes
    patches: tuple[StoredPatch, ...] = ()
    before: tuple[StoredOldPanes, ...] = ()
    cut_by: int = 0


@dataclass(frozen=True, slots=True)
class StoredChain:
    """The content of the disk for a chain: its last sealed pane, and the runs of which a part is needed, in pane order.
    `held`: the panes that are.
    """

    function: bytes
    upto: int
    runs: tuple[StoredRun, ...] = ()
    held: tuple[Span, ...] = ()


StoredChains = Mapping[int, StoredChain]
"""The chains of a job, by version."""


@dataclass(frozen=True, slots=True)
class RestoredChain:
    """The runs of a chain that may leave again, without gaps up to its last pane."""

    upto: int
    runs: tuple[Run, ...]


BEFORE_ALL = Place(0)
"""The place at which a reading begins."""


def first_place(places: Iterable[Place | None]) -> Place | None:
    """The first of some places in one reading; None if there are none."""
    return min((place for place in places if place is not None), key=lambda place: place.number, default=None)
