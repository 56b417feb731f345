"""A job's worker on one agent (paper §3.1), for one version of its function: events into the CBT, sealed panes out.

A worker seals its panes in order, as runs that follow each other. What it has sealed it keeps until the master says
that it is out: another master, or another parent, may want it again. What arrives for a sealed pane is late.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from agent.runtime.function import JobFunction
from agent.runtime.guarded_store import GuardedStore
from agent.runtime.panes import END, FIRST_PANE, Run, add_counters, closed_ms, count, runs_upto
from agent.runtime.spill_room import SpillRoom

ROWS_PER_RUN = 1 << 16
"""A run is cut at the next pane boundary past this many rows, so that no message holds a job's whole past."""
ROWS_PER_BATCH = 1 << 16
"""Events that are filtered and aggregated at once."""
WAITING_ROWS_MAX = 1 << 19
"""Events that wait for a sealing under way to end; past it the sealing is not cut in slices any more."""
COUNTER_FRAMES_MAX = 256
"""Counter frames gathered before they are summed."""
KEPT_BYTES_MAX = 64 << 20
"""Sealed and not yet committed: past it a worker seals nothing further until the master has caught up."""
SELF = 1
"""Stands for the worker in `Run.contributors` until its number is known."""


class Worker:
    """Counts, filters, aggregates; then hands out its panes, those after one, as runs that follow each other."""

    def __init__(self, function: JobFunction, room: SpillRoom | None = None, after: int = FIRST_PANE) -> None:
        self.function = function
        self.frontier = after
        """How far it has sealed."""
        self.last_pane = END
        """Later panes are none of its own."""
        self.is_partial = False
        """Whether it lacks events of what it seals now."""
        self.late = 0
        """Events that came for a pane that was sealed."""
        self._first_pane = self._late_from = FIRST_PANE if after == FIRST_PANE else after + 1
        self._unexpected_before = FIRST_PANE
        self._given_up = (END, FIRST_PANE)
        self._lacking: set[int] = set()
        self._closed = after
        self._store = GuardedStore(function, room)
        self._counters: list[pl.DataFrame] = []
        self._waiting: list[pl.DataFrame] = []
        self._waiting_rows = 0
        self._malformed = 0
        self._late = 0
        self._sealing: Iterator[Run] | None = None
        self._sealed: list[Run] = []
        self._fresh: list[Run] = []
        self._kept_bytes = 0

    @property
    def first_pane(self) -> int:
        """From here on it has everything."""
        return self._first_pane

    def begin_at(self, pane: int, unexpected_before: int = FIRST_PANE) -> None:
        """Has nothing to say about its panes before this one, and says so at once.

        Of events older than `unexpected_before` (epoch ms) it had better say something: they count as late.
        """
        pane = min(pane, self.last_pane + 1) if self.last_pane < END else pane
        if pane - 1 <= self.frontier:
            return
        while self.is_sealing:
            self.seal_next()
        self._drop_before(pane)
        nothing = Run(self.frontier, pane - 1, 0, self.function.combine([]), add_counters([]))
        self._first_pane = self._late_from = pane
        self._closed = pane - 1
        self._unexpected_before = unexpected_before
        self._keep(nothing)

    def begin_after(self, after: int, starts: int) -> None:
        """Has its place, and has sealed nothing: panes after this one are its own, and it has all from `starts` on."""
        self._insert_waiting()
        self.frontier = self._closed = after
        if starts > FIRST_PANE:
            self._drop_before(starts)
            self.begin_at(starts)

    def _drop_before(self, pane: int) -> None:
        self._insert_waiting()
        self._store.empty(upto=pane - 1)
        self._counters = [add_counters(self._counters).filter(pl.col("pane") >= pane)]

    def end_at(self, last_pane: int) -> None:
        """Later panes are another version's, also those that it has sealed."""
        if last_pane >= self.last_pane:
            return
        self._insert_waiting()
        while self.is_sealing and self._closed > last_pane:
            self.seal_next()
        self.last_pane = last_pane
        if self.frontier > last_pane:
            self._sealed = runs_upto(last_pane, self._sealed)
            self._fresh = runs_upto(last_pane, self._fresh)
            self._kept_bytes = sum(map(_bytes_of, self._sealed))
            self.frontier = self._closed = last_pane

    @property
    def pane_ms(self) -> int | None:
        """Milliseconds a pane lasts; None: there is only one."""
        return self.function.pane_ms

    def pane_at(self, time_ms: int | None) -> int | None:
        """The pane that an instant lies in."""
        return None if time_ms is None or self.pane_ms is None else time_ms // self.pane_ms * self.pane_ms

    def next_pane(self, time_ms: int) -> int:
        """The first pane that begins after an instant; before every pane where there is nothing to choose."""
        pane = None if time_ms == FIRST_PANE else self.pane_at(time_ms)
        return FIRST_PANE if pane is None or self.pane_ms is None else pane + self.pane_ms

    @property
    def closed_ms(self) -> int:
        """The last instant of what is sealed."""
        return closed_ms(self.frontier, self.pane_ms)

    @property
    def has_ended(self) -> bool:
        """Whether all of its panes are sealed."""
        return self.frontier >= self.last_pane

    def take_over(self, before: Worker) -> None:
        """Goes on for the version before, whose panes are sealed: what comes for them is late, and counted here."""
        assert before.has_ended
        self._insert_waiting()
        before._insert_waiting()
        self._late_from = min(self._late_from, before._late_from)
        self._given_up = (before.closed_ms + 1, self._first_pane)
        self._unexpected_before = max(self._unexpected_before, before._unexpected_before)
        self._late, self._malformed = self._late + before._late, self._malformed + before._malformed
        self.late += before.late

    def insert(self, events: pl.DataFrame) -> None:
        """Takes one event frame from a parser. Frames wait for each other: each call on columns has its price."""
        self._waiting.append(events)
        self._waiting_rows += events.height
        if self._sealing is not None and self._waiting_rows >= WAITING_ROWS_MAX:
            while self.is_sealing:
                self.seal_next()
        if self._sealing is None and self._waiting_rows >= ROWS_PER_BATCH:
            self._insert_waiting()

    def _insert_waiting(self) -> None:
        batches: dict[tuple[tuple[str, pl.DataType], ...], list[pl.DataFrame]] = {}
        for events in self._waiting:
            batches.setdefault(tuple(events.schema.items()), []).append(events)
        self._waiting, self._waiting_rows = [], 0
        for frames in batches.values():
            self._insert_batch(pl.concat(frames))

    def _insert_batch(self, events: pl.DataFrame) -> None:
        events = self._still_open(self.function.in_range(events))
        coerced = pl.col("@coerced").sum() if "@coerced" in events.columns else pl.lit(0)
        by_pane = events.group_by("pane").agg(pl.len().alias("events"), coerced.alias("coerced"))
        self._count(by_pane)
        if self.function.lacks_rows:
            self._lacking.update(by_pane["pane"])
        for joined in self.function.joined(events):
            self._insert_joined(joined)

    def _insert_joined(self, events: pl.DataFrame) -> None:
        selected = self.function.select(events)
        if selected.height:
            self._store.insert(selected)
        if not self.function.aggregates:
            self._count(selected.group_by("pane").agg(pl.len().alias("matched")))
        if "@dropped" in events.columns:
            self._count(events.group_by("pane").agg(pl.col("@dropped").sum().alias("dropped")))

    def _still_open(self, events: pl.DataFrame) -> pl.DataFrame:
        """Without events of panes that are sealed: they count as late. What is another version's goes too.

        The window under way when the worker began is none of its windows, so it does not miss them.
        """
        if self.last_pane < END:
            events = events.filter(events["pane"] <= self.last_pane)
        if self._closed == FIRST_PANE or events.is_empty():
            return events
        panes = events["pane"]
        closed = panes <= self._closed
        if not closed.any():
            return events
        begun, ended = self._given_up
        in_windows = (panes >= self._late_from) & ~((panes >= begun) & (panes < ended))
        late = int((closed & (in_windows | (panes < self._unexpected_before))).sum())
        self.late += late
        self._late += late
        return events.filter(~closed)

    def count_malformed(self, lines: int) -> None:
        """Lines that are no events have no time: they count in the newest pane of the next run."""
        self._malformed += lines

    def lacks_some_at(self, time_ms: int) -> None:
        """Knows that it lacks something of the pane that an instant lies in: sealed, that will be partial."""
        pane = 0 if self.pane_ms is None else self.pane_at(time_ms)
        if pane is not None and self.frontier < pane <= self.last_pane:
            self._lacking.add(pane)

    def alike_upto(self, upto: int) -> int:
        """How far panes, up to this one, can be sealed at once, so that only those are partial that lack something."""
        lacking = min((pane for pane in self._lacking if self.frontier < pane <= upto), default=None)
        if lacking is None or self.pane_ms is None:
            return upto
        return lacking - self.pane_ms if lacking - self.pane_ms > self.frontier else lacking

    def start_sealing(self, upto: int) -> None:
        """Every pane up to this one can be sealed, run by run."""
        assert upto > self.frontier, "panes are sealed once, in order"
        assert self._sealing is None, "one sealing at a time"
        self._insert_waiting()
        self._closed = upto
        self._sealing = self._runs(upto)

    @property
    def is_sealing(self) -> bool:
        return self._sealing is not None

    @property
    def is_blocked(self) -> bool:
        """Whether so much is sealed and not committed that it may not seal more."""
        return self._kept_bytes > KEPT_BYTES_MAX

    def seal_next(self) -> None:
        """Seals one run; `fresh` yields it. O(rows in it), and once per sealing O(rows in the tree)."""
        assert self._sealing is not None
        run = next(self._sealing)
        if run.upto == self._closed:
            self._sealing = None
        self._keep(run)

    def fresh(self) -> list[Run]:
        """What was sealed since the last call; `SELF` stands for its contributor."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def after(self, frontier: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is still there, again."""
        self._fresh = []
        return [run.within(frontier, run.upto) for run in self._sealed if run.upto > frontier]

    def commit(self, frontier: int) -> None:
        """Frees what is out."""
        if self._sealed and self._sealed[0].upto <= frontier:
            self._sealed = [run for run in self._sealed if run.upto > frontier]
            self._kept_bytes = sum(map(_bytes_of, self._sealed))

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes + self._kept_bytes

    def newest_pane(self) -> int | None:
        """The newest pane it has counted anything in and not sealed."""
        while self.is_sealing:
            self.seal_next()
        self._insert_waiting()
        newest = add_counters(self._counters)["pane"].max()
        return newest if isinstance(newest, int) else None

    def _runs(self, upto: int) -> Iterator[Run]:
        """Everything up to a pane, in pane order, as runs of about `ROWS_PER_RUN` rows; holds one run at a time, and
        of a pane with too many groups no more than twice those that are kept."""
        counters = self._take_counters(upto)
        held: list[pl.DataFrame] = []
        for frame in self._store.flush(upto=None if upto == END else upto):
            if frame is None:
                yield from self._runs_by_pane(upto, counters)
                return
            held.append(frame)
            newest = frame["pane"][-1]
            if _rows(held) > ROWS_PER_RUN and held[0]["pane"][0] < newest:
                state = self.function.gather(held)
                older = pl.col("pane") < newest
                yield self._seal(newest - 1, state.filter(older), counters)
                held = [state.filter(~older)]
            held = self._folded(held)
        state = self.function.gather(held)
        self._store.empty(upto=None if upto == END else upto)
        yield self._seal(upto, state, counters)

    def _runs_by_pane(self, upto: int, counters: pl.DataFrame) -> Iterator[Run]:
        """The same where some of it cannot be read: a run a pane, so that only those that lack something say so."""
        panes = counters["pane"].filter((counters["pane"] > self.frontier) & (counters["pane"] < END)).to_list()
        for pane in panes[:-1]:
            state, is_whole = self._readable(pane)
            yield self._seal(pane, state, counters, is_partial=not is_whole)
        state, is_whole = self._readable(panes[-1])
        self._store.empty(upto=None if upto == END else upto)
        yield self._seal(upto, state, counters, is_partial=not is_whole)

    def _readable(self, pane: int) -> tuple[pl.DataFrame, bool]:
        """What of a pane can be read, and whether that is all of it."""
        held: list[pl.DataFrame] = []
        for frame in self._store.flush(pane):
            if frame is None:
                return self.function.gather(held), False
            held = self._folded([*held, frame])
        return self.function.gather(held), True

    def _folded(self, held: list[pl.DataFrame]) -> list[pl.DataFrame]:
        crowded = len(held) > 1 and _rows(held) > max(ROWS_PER_RUN, 2 * self.function.plan.max_groups)
        return [self.function.gather(held)] if crowded else held

    def _take_counters(self, upto: int) -> pl.DataFrame:
        if self._malformed or self._late:
            self._count(pl.DataFrame({"pane": [upto], "malformed": [self._malformed], "late": [self._late]}))
        self._malformed = self._late = 0
        counters = add_counters(self._counters)
        inside = pl.col("pane") <= upto
        self._counters = [counters.filter(~inside)]
        return counters.filter(inside)

    def _seal(self, upto: int, state: pl.DataFrame, counters: pl.DataFrame, *, is_partial: bool = False) -> Run:
        inside = pl.col("pane").is_between(self.frontier, upto, closed="right")
        lacking = any(self.frontier < pane <= upto for pane in self._lacking)
        self._lacking = {pane for pane in self._lacking if pane > upto}
        partial = SELF if is_partial or self.is_partial or lacking else 0
        return Run(self.frontier, upto, SELF, state, counters.filter(inside), partial)

    def _keep(self, run: Run) -> None:
        self.frontier = run.upto
        self._sealed.append(run)
        self._fresh.append(run)
        self._kept_bytes += _bytes_of(run)

    def _count(self, by_pane: pl.DataFrame) -> None:
        self._counters.append(count(**{name: by_pane[name] for name in by_pane.columns}))
        if len(self._counters) >= COUNTER_FRAMES_MAX:
            self._counters = [add_counters(self._counters)]


def _rows(frames: list[pl.DataFrame]) -> int:
    return sum(frame.height for frame in frames)


def _bytes_of(run: Run) -> int:
    return int(run.state.estimated_size() + run.counters.estimated_size())
