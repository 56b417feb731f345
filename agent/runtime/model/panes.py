"""Defines runs of panes with their contributors: workers seal them, combiners merge them, masters publish them.

A pane is named by its start in epoch milliseconds. A run covers the panes in (after, upto]; a source's runs follow
each other in pane order, so that "how far" is one number and the barrier is a minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, pairwise
from operator import itemgetter, or_
from typing import NamedTuple

import polars as pl

from agent.runtime.model.latency.critical_path import CriticalPath
from agent.runtime.model.state_encoding import StateEncoding

FIRST_PANE = -(2**63)
"""Before every pane: the start of a source's first run."""
END = 2**63 - 1
"""After every pane: the end of a source's last run. Also the pane of counts that have no time."""

SELF = 1
"""Stands for the agent in `Run.contributors` until its number in the job is known."""
PANE_MAX = 1 << 62
"""Upper bound on a pane's distance from the Unix epoch: times can be added to it."""
COUNT_MAX = 1 << 47
"""Upper bound on a count: those of 4096 children still add up without overflow."""


class Counts(NamedTuple):
    """The counts of one pane."""

    events: int = 0
    matched: int = 0
    late: int = 0
    malformed: int = 0
    coerced: int = 0
    dropped: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        return Counts(*(min(mine + theirs, COUNT_MAX) for mine, theirs in zip(self, other, strict=True)))


Counted = dict[int, Counts]
"""Counts by pane."""
Losses = tuple[tuple[int, str], ...]
"""Contributors whose runs were too large to be passed on, as bitmaps, each with the reason."""
LOSSES_MAX = 64
"""Upper bound on the reasons in a run; the contributors of further ones share the last."""
COUNTS_BYTES = 64
"""Upper bound on the encoded size of a pane and its counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Late events of panes that were sealed before, by pane: their state, their counts, and the agents they come from.

    It goes with the pane `carrier` of the same agents' run wherever that goes, so it counts once, as that does.
    `lacking`: the agents that know that some late events of these panes are not here.
    """

    carrier: int
    state: pl.DataFrame
    counted: Counted
    agents: Mapping[int, int]
    lacking: int = 0

    def of(self, panes: Collection[int]) -> Patch:
        """The patch of these panes only."""
        if self.agents.keys() <= set(panes):
            return self
        counted = {pane: counts for pane, counts in self.counted.items() if pane in panes}
        state = self.state.filter(pl.col("pane").is_in(list(panes)))
        return replace(self, state=state, counted=counted, agents={pane: self.agents[pane] for pane in panes})

    def by(self, number: int) -> Patch:
        """A worker's own patch under its number."""
        mine = 1 << number
        return replace(self, agents=dict.fromkeys(self.agents, mine), lacking=mine if self.lacking else 0)

    def is_sound(self, pane_ms: int | None, contributors: int) -> bool:
        """Whether an honest peer could have made it for a run of these contributors."""
        if not pane_ms or any(agents & ~contributors or not agents for agents in self.agents.values()):
            return False
        if self.lacking & ~contributors:
            return False
        is_before = all(pane % pane_ms == 0 and -PANE_MAX < pane < self.carrier for pane in self.agents)
        panes = set(self.state["pane"].unique()) | self.counted.keys()
        return is_before and self.agents.keys() >= panes and _are_sane(self.counted.values())


Owner = tuple[int, int]
"""A tree's number, and the node id of the agent that consolidates its panes."""
Holding = tuple[Owner, int]
"""The owner of states that are not in a run, and their contributors."""
Combine = Callable[..., pl.DataFrame]
"""Merges the states of a run that ends with a pane: (states, pane), or those of an older version that go with it:
(states, pane, number)."""


def merged_patches(patches: Iterable[Patch], upto: int, combine: Combine) -> tuple[Patch, ...]:
    """The patches of disjoint agents in a run up to a pane, those of one carrier as one, in their order."""
    alike: dict[int, list[Patch]] = {}
    for patch in patches:
        alike.setdefault(patch.carrier, []).append(patch)
    merged = []
    for carrier, group in sorted(alike.items()):
        agents: dict[int, int] = {}
        for patch in group:
            for pane, numbers in patch.agents.items():
                agents[pane] = agents.get(pane, 0) | numbers
        state = group[0].state if len(group) == 1 else combine([patch.state for patch in group], upto)
        lacking = reduce(or_, (patch.lacking for patch in group))
        merged.append(Patch(carrier, state, add_counted(patch.counted for patch in group), agents, lacking))
    return tuple(merged)


@dataclass(frozen=True, slots=True, eq=False)
class OldPanes:
    """Panes of an older version, by its number, whose windows go on: their state, and their counts by pane.

    They go with the panes in (after, upto] of a run, each with the one in which it ends, wherever that goes, so they
    count once, as that does. `pane_ms`, `carrier_ms`: how long they last, and the run's. `contributors`: those of the
    run that have all of these panes, but for the `partial` ones, which lack some.
    """

    after: int
    upto: int
    version: int
    pane_ms: int
    carrier_ms: int
    state: pl.DataFrame
    counted: Counted
    contributors: int
    partial: int = 0

    def carrier(self, pane: int) -> int:
        """The pane of the run with which an old one goes."""
        return (pane + self.pane_ms - 1) // self.carrier_ms * self.carrier_ms

    @property
    def carriers(self) -> set[int]:
        """The panes of the run with which there is anything. O(panes)."""
        return set(map(self.carrier, {*self.counted, *self.state["pane"].unique()}))

    def within(self, after: int, upto: int) -> OldPanes:
        """The part that goes with the run's panes in (after, upto]; itself when that is all of it."""
        after, upto = max(after, self.after), min(upto, self.upto)
        if (after, upto) == (self.after, self.upto):
            return self
        carriers = (pl.col("pane") + self.pane_ms - 1) // self.carrier_ms * self.carrier_ms
        state = self.state.filter(carriers.is_between(after, upto, closed="right")) if self.state.height else self.state
        counted = {pane: counts for pane, counts in self.counted.items() if after < self.carrier(pane) <= upto}
        return replace(self, after=after, upto=upto, state=state, counted=counted)

    def by(self, number: int) -> OldPanes:
        """A worker's own under its number."""
        mine = 1 << number
        return replace(self, contributors=mine, partial=mine if self.partial else 0)

    def is_sound(self, contributors: int) -> bool:
        """Whether an honest peer could have made them for a run of these contributors, whatever its panes are."""
        if not self.contributors or self.contributors & ~contributors or self.partial & ~self.contributors:
            return False
        return _are_sane(self.counted.values()) and all(self.after < pane <= self.upto for pane in self.carriers)


def merged_old(every: Iterable[OldPanes], upto: int, combine: Combine) -> tuple[OldPanes, ...]:
    """The old panes of disjoint agents in a run up to a pane; those of one version and of equal agents as one, in their
    order. O(rows · log)."""
    by_version: dict[int, list[OldPanes]] = {}
    for one in every:
        by_version.setdefault(one.version, []).append(one)
    merged: list[OldPanes] = []
    for version, alike in sorted(by_version.items()):
        for members, spans in groupby(_old_spans(alike), key=itemgetter(0)):
            parts = [part for _, parts in spans for part in parts]
            after, end = min(part.after for part in parts), max(part.upto for part in parts)
            states = [part.state for part in parts]
            state = states[0] if len(states) == 1 else combine(states, upto, version)
            counted = add_counted(part.counted for part in parts)
            merged.append(
                replace(
                    parts[0], after=after, upto=end, state=state, counted=counted, contributors=members[0],
                    partial=members[1],
                )
            )  # fmt: skip
    return tuple(sorted(merged, key=lambda one: (one.after, one.version)))


def _old_spans(alike: Sequence[OldPanes]) -> Iterator[tuple[tuple[int, int, int], list[OldPanes]]]:
    """The spans of a version's old panes between any two ends: who contributes, who is partial, and the number of
    spans without anything before it; with the parts."""
    bounds = sorted({end for one in alike for end in (one.after, one.upto)})
    gaps = 0
    for after, upto in pairwise(bounds):
        parts = [one.within(after, upto) for one in alike if one.after < upto and one.upto > after]
        if not parts:
            gaps += 1
            continue
        contributors = reduce(or_, (part.contributors for part in parts))
        yield (contributors, reduce(or_, (part.partial for part in parts)), gaps), parts


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The panes in (after, upto] of some contributors: their state and their counts, both by pane.

    `partial`: the contributors that know that they lack some of their events. `tree`: the range of the keys' hashes of
    the state; the counts go with tree 0. `leaped`: the agents that were leaped over in these panes. `losses`: those who
    would be contributors, and why they are none. `patches`: what the contributors had too late for earlier panes.
    `encoding`: the bytes of a state, which may be that of this run. `held`: the rest of its state, at a master: it is
    with these owners. `placed`: the least number of the placements by which contributors have cut their states for the
    trees. `is_old_cut`: it is a copy that was cut by another placement than what its owner sends now: of an agent the
    copies count in all trees, or in none. `before`: panes of older versions. `cut_by`: the number of the placement by
    which a worker's run has been cut, or may have been by an earlier process; None: that of now. `path`: how long its
    last part has taken so far; None: not measured.
    """

    after: int
    upto: int
    contributors: int
    state: pl.DataFrame
    counted: Counted = field(default_factory=dict)
    partial: int = 0
    tree: int = 0
    leaped: int = 0
    losses: Losses = ()
    patches: tuple[Patch, ...] = ()
    encoding: StateEncoding | None = None
    held: frozenset[Holding] = frozenset()
    placed: int = 0
    is_old_cut: bool = False
    cut_by: int | None = None
    before: tuple[OldPanes, ...] = ()
    path: CriticalPath | None = None

    @property
    def encoded_state(self) -> bytes:
        """Its state as bytes, made once if they are kept. O(bytes)."""
        encoding = self.encoding
        return (encoding if encoding and encoding.is_of(self.state) else StateEncoding(self.state)).encoded

    @property
    def tells(self) -> bool:
        """Whether it says more than that its panes are over."""
        return bool(self.contributors or self.leaped or self.losses)

    def pieces(self, panes_max: int) -> Iterator[Run]:
        """The run as runs with counts of at most so many panes each, in order; itself if that is one. What belongs to
        no pane is in the last."""
        panes = (self.counted.keys() | self._carriers) - {END}
        ends = sorted(panes)[panes_max - 1 : -1 : panes_max] if len(panes) > panes_max else []
        after = self.after
        for upto in (*ends, self.upto):
            yield self.within(after, upto)
            after = upto

    def halves(self) -> tuple[Run, Run] | None:
        """Two runs, each with about half of its panes; None if it has one at most."""
        panes = sorted({*self.counted, *self.state["pane"].unique(), *self._carriers})
        if len(panes) < 2:
            return None
        middle = panes[len(panes) // 2 - 1]
        return self.within(self.after, middle), self.within(middle, self.upto)

    @property
    def _carriers(self) -> set[int]:
        """The panes that others go with."""
        return {patch.carrier for patch in self.patches}.union(*(one.carriers for one in self.before))

    def with_before(self, before: Iterable[OldPanes] = ()) -> Run:
        """Has these panes of older versions go with it, and no others."""
        return replace(self, before=tuple(before))

    def without_content(self, nothing: pl.DataFrame, reason: str) -> Run:
        """Replaces its state by `nothing`, and its contributors by the reason; its panes stay."""
        counted = dict.fromkeys(self.counted, Counts())
        losses = merged_losses([self.losses, ((self.contributors, reason),) if self.contributors else ()])
        return Run(self.after, self.upto, 0, nothing, counted, 0, self.tree, self.leaped, losses)

    def within(self, after: int, upto: int) -> Run:
        """The part of the run in (after, upto]; the run itself when that is all of it."""
        after, upto = max(after, self.after), min(upto, self.upto)
        if (after, upto) == (self.after, self.upto):
            return self
        inside = pl.col("pane").is_between(after, upto, closed="right")
        state = self.state.filter(inside) if self.state.height else self.state
        counted = {pane: counts for pane, counts in self.counted.items() if after < pane <= upto}
        patches = tuple(patch for patch in self.patches if after < patch.carrier <= upto)
        before = tuple(one.within(after, upto) for one in self.before if one.after < upto and one.upto > after)
        return replace(self, after=after, upto=upto, state=state, counted=counted, patches=patches, before=before)

    @property
    def patched(self) -> Counts:
        """The counts of all that came too late for earlier panes."""
        return total(counts for patch in self.patches for counts in patch.counted.values())

    def without_patches(self) -> Run:
        """Counts what it has of earlier panes as late."""
        late = {patch.carrier: Counts(late=total(patch.counted.values()).events) for patch in self.patches}
        return replace(self, counted=add_counted([self.counted, late]), patches=()) if late else self

    def is_like(self, other: Run) -> bool:
        """Whether it covers the same panes of the same contributors, in the same tree, and both or none of them are
        copies of another cut."""
        mine, its = (
            (one.tree, one.after, one.upto, one.contributors, one.leaped, one.losses, one.held, one.is_old_cut)
            for one in (self, other)
        )
        return mine == its

    def by(self, number: int) -> Run:
        """A worker's own run under its number; a run without contributors stays so."""
        if not self.contributors:
            return self
        mine = 1 << number
        patches = tuple(patch.by(number) for patch in self.patches)
        before, partial = tuple(old.by(number) for old in self.before), mine if self.partial else 0
        path = None if self.path is None else replace(self.path, agent=number)
        return replace(self, contributors=mine, partial=partial, patches=patches, before=before, path=path)

    def is_sound(self, pane_ms: int | None) -> bool:
        """Whether an honest peer could have made it: it has only the job's panes, within its span, and sane counts."""
        if self.partial & ~self.contributors or self.leaped & self.contributors:
            return False
        if not all(self._holds(pane, pane_ms) or pane == END == self.upto for pane in self.counted):
            return False
        if not _are_sane(self.counted.values()) or not all(self._carries(patch, pane_ms) for patch in self.patches):
            return False
        if not self._carries_old():
            return False
        if not self.state.height:
            return True
        panes = self.state["pane"]
        first, last = panes.min(), panes.max()
        if not isinstance(first, int) or not isinstance(last, int) or panes.null_count():
            return False
        are_aligned = first == last or not pane_ms or ((panes % pane_ms) == 0).all()
        return are_aligned and self._holds(first, pane_ms) and self._holds(last, pane_ms)

    def _carries_old(self) -> bool:
        """Whether old panes are within its span, each once."""
        spans = sorted((one.version, one.after, one.upto) for one in self.before)
        if any(one[0] == other[0] and one[2] > other[1] for one, other in pairwise(spans)):
            return False
        are_inside = all(self.after <= one.after < one.upto <= self.upto for one in self.before)
        return are_inside and all(one.is_sound(self.contributors) for one in self.before)

    def _carries(self, patch: Patch, pane_ms: int | None) -> bool:
        return self._holds(patch.carrier, pane_ms) and patch.is_sound(pane_ms, self.contributors)

    def _holds(self, pane: int, pane_ms: int | None) -> bool:
        """Whether it is a pane of the job in this run's span."""
        is_pane = pane % pane_ms == 0 if pane_ms else pane == 0
        return is_pane and self.after < pane <= self.upto and abs(pane) < PANE_MAX


def closed_ms(frontier: int, pane_ms: int | None) -> int:
    """The last instant (epoch ms) of the panes up to a frontier; where there is none, the frontier itself."""
    if pane_ms is None or frontier in (FIRST_PANE, END):
        return frontier
    return frontier // pane_ms * pane_ms + pane_ms - 1


def _are_sane(counted: Iterable[Counts]) -> bool:
    return all(0 <= count <= COUNT_MAX for counts in counted for count in counts)


def holds_panes(after: int, upto: int, pane_ms: int | None) -> bool:
    """Whether a pane begins in (after, upto]: a job's part of an agent may begin between two of them.

    >>> holds_panes(3000, 3999, 1000), holds_panes(3999, 4000, 1000)
    (False, True)
    """
    return not pane_ms or upto // pane_ms * pane_ms > after


def runs_upto(pane: int, runs: Iterable[Run]) -> list[Run]:
    """The runs, cut to the panes up to one."""
    return [run.within(run.after, pane) for run in runs if run.after < pane]


def in_pieces(runs: Iterable[Run], bytes_max: int) -> Iterator[list[Run]]:
    """The runs in order, in lists whose states take about so much memory together, or are those of one pane."""
    piece: list[Run] = []
    size = 0
    for run in runs:
        whole = int(run.state.estimated_size())
        for part in run.pieces(max(1, len(run.counted) * bytes_max // whole)) if whole > bytes_max else (run,):
            piece.append(part)
            size += int(part.state.estimated_size())
            if size >= bytes_max:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


def add_counted(every: Iterable[Counted]) -> Counted:
    """Sums counts by pane, in pane order. O(panes · log)."""
    summed: Counted = {}
    for counted in every:
        count_in(summed, counted)
    return dict(sorted(summed.items()))


def count_in(summed: Counted, counted: Counted) -> None:
    """Adds the counts of some panes. O(panes)."""
    for pane, counts in counted.items():
        known = summed.get(pane)
        summed[pane] = counts if known is None else known.plus(counts)


def merged_losses(every: Iterable[Losses]) -> Losses:
    """All losses together, by their reasons in order."""
    by_reason: dict[str, int] = {}
    for contributors, reason in (loss for losses in every for loss in losses):
        by_reason[reason] = by_reason.get(reason, 0) | contributors
    merged = [(contributors, reason) for reason, contributors in sorted(by_reason.items())]
    for contributors, _ in merged[LOSSES_MAX:]:
        last, reason = merged[LOSSES_MAX - 1]
        merged[LOSSES_MAX - 1] = (last | contributors, reason)
    return tuple(merged[:LOSSES_MAX])


def total(counted: Iterable[Counts]) -> Counts:
    """The sum of several counts."""
    return reduce(Counts.plus, counted, Counts())
