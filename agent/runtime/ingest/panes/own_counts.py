"""Counts what belongs to no pane of a consumer's store: events that came too late, malformed lines, and values that did
not fit where they are no longer seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from agent.runtime.durable.records import Chain
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run, add_counted


class OwnCounts:
    """The counts of one consumer. They go with the next run that is sealed, set aside when its sealing begins."""

    def __init__(self) -> None:
        self.late = 0
        """Number of events that came for a closed pane, in all."""
        self._late = self._malformed = self._coerced = 0
        self._set_aside: tuple[int, Counts] | None = None
        """The last pane of the sealing under way, and what goes with it."""
        self._malformed_from: int | None = None
        self._late_from = FIRST_PANE
        self._unexpected_before = FIRST_PANE
        self._gap = (END, FIRST_PANE)
        """The panes between the last window of the version before and the first of its own: they are in no window."""
        self._sealed_before: dict[Chain, int] = {}
        """The last panes that an earlier process of this agent has sealed."""
        self._sealed_from = FIRST_PANE

    def begin_at(self, pane: int, unexpected_before: int) -> None:
        """Has windows from a pane on. Events older than `unexpected_before` (epoch ms) count as late."""
        self._late_from, self._unexpected_before = pane, unexpected_before

    def expect_after(self, counted_upto: int) -> None:
        """Counts events of all panes after this one that come too late, also of panes before its first: they are in no
        window yet."""
        self._late_from = min(self._late_from, counted_upto + 1)

    def sealed_before(self, chains: Mapping[Chain, int], first_pane: int) -> None:
        """An earlier process has sealed these chains up to these panes, and the job's first pane was this one."""
        self._sealed_before |= chains
        self._sealed_from = first_pane

    def take_over(self, before: OwnCounts, gap: tuple[int, int]) -> None:
        """Counts for the version before as well; the panes in the gap are in no window."""
        self._late_from = min(self._late_from, before._late_from)
        self._gap = gap
        self._unexpected_before = max(self._unexpected_before, before._unexpected_before)
        self._sealed_from = min(self._sealed_from, before._sealed_from)
        self._sealed_before |= before._sealed_before
        self._late, self._malformed = self._late + before._late, self._malformed + before._malformed
        self._coerced += before._coerced
        self.late += before.late

    def owe(self, lost: Counts) -> None:
        """Counts the events of its runs that are in no window as late, and what went with them once more."""
        self.late += lost.events
        self._late += lost.events + lost.late
        self._malformed += lost.malformed

    def note(self, malformed: int, coerced: int) -> None:
        """Counts lines and values of what the events have been made of, elsewhere on this agent."""
        self._malformed, self._coerced = self._malformed + malformed, self._coerced + coerced

    def take_late(self) -> int:
        """The late events that are not in a run so far; returned once."""
        late, self._late = self._late, 0
        return late

    def replayed_upto(self, replayed: Collection[Chain]) -> int:
        """The last pane of which an earlier process has counted such events."""
        return max((upto for chain, upto in self._sealed_before.items() if chain in replayed), default=FIRST_PANE)

    # Late events.

    def count_late(self, passed: Mapping[int, int], closed: int, replayed: Collection[Chain]) -> None:
        """Counts late events. `passed`: events by pane; those of panes up to `closed` are. `replayed`: chains whose
        last run came after these events, in an earlier process.

        The window under way when it began is none of its windows, so its events are not late.
        """
        for pane, events in passed.items():
            if pane <= closed and self._is_late(pane, replayed):
                self.late += events
                self._late += events

    def _is_late(self, pane: int, replayed: Collection[Chain]) -> bool:
        """Whether events of a closed pane count, which were not counted before."""
        sealed = [chain for chain, upto in self._sealed_before.items() if pane <= upto]
        if sealed:
            return pane >= self._sealed_from and not any(chain in replayed for chain in sealed)
        begun, ended = self._gap
        return (pane >= self._late_from and not begun <= pane < ended) or pane < self._unexpected_before

    # Malformed lines. They have no time, and go with the newest pane of a run.

    @property
    def has_malformed(self) -> bool:
        """Whether malformed lines are counted here now."""
        return self._malformed_from is not None

    def count_malformed_after(self, malformed: int) -> None:
        """Counts malformed lines from now on, when the operator has so many."""
        if self._malformed_from is None:
            self._malformed_from = malformed

    def stop_at(self, malformed: int) -> None:
        """Counts no further malformed lines."""
        if self._malformed_from is not None:
            self._malformed += malformed - self._malformed_from
            self._malformed_from = None

    def pass_over(self, malformed: int, replayed: Collection[Chain]) -> None:
        """Leaves malformed lines out that an earlier process has counted."""
        if self._malformed_from is not None and any(chain in replayed for chain in self._sealed_before):
            self._malformed_from += malformed

    # Runs.

    def set_aside(self, upto: int, malformed: int, *, has_panes: bool) -> None:
        """Sets aside what goes with the sealing of everything up to a pane, which begins, when the operator has so many
        malformed lines; if there are panes to seal."""
        if self._malformed_from is not None:
            self._malformed += max(0, malformed - self._malformed_from)
            self._malformed_from = max(malformed, self._malformed_from)
        own = Counts(late=self._late, malformed=self._malformed, coerced=self._coerced)
        if any(own) and has_panes:
            self._set_aside = (upto, own)
            self._late = self._malformed = self._coerced = 0

    def put_back(self, last_pane: int) -> None:
        """Keeps what was set aside for a later run, if nothing after this pane is sealed."""
        if self._set_aside is not None and self._set_aside[0] > last_pane:
            self._late += self._set_aside[1].late
            self.note(self._set_aside[1].malformed, self._set_aside[1].coerced)
            self._set_aside = None

    def with_run(self, run: Run, pane_ms: int | None) -> Run:
        """A run with what was set aside for it.

        It goes with the first run of several: with that, all that was read until then counts as sealed.
        """
        if self._set_aside is None:
            return run
        pane, own = self._set_aside
        if pane > run.upto and pane < END and pane_ms is not None:
            pane = run.upto // pane_ms * pane_ms
        if not run.after < pane <= run.upto:
            return run
        self._set_aside = None
        return replace(run, counted=add_counted([run.counted, {pane: own}]))
