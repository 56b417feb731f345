"""Computes a job that paces itself: its code cuts the panes, by flush, send_to and empty (paper §2.2, Figure 7).

Events are gathered in one tree. `flush` holds the tree's state under a token of the program's; `send` makes that state
the agent's run up to a pane; `empty` begins from nothing. Without `empty`, the next flush has all of it once more.
Events read between a flush and the end of the callback that has flushed wait: `empty` drops only what was flushed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import polars as pl

from agent.parsing import TIME, Parsed, parsed_rows
from agent.runtime.durable.records import Place
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import Feed, FeedKey, as_named
from agent.runtime.ingest.mapped import BATCH_ROWS_MAX, Send
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.ingest.panes.pane_store import PaneStore
from agent.runtime.ingest.pao_handles import HELD_MAX, PaoHandle, PaoHandles
from agent.runtime.ingest.pipeline import OnSealed, columns_of
from agent.runtime.ingest.watermark import believed
from agent.runtime.model.incomplete import Publication
from agent.runtime.model.panes import END, FIRST_PANE, SELF, Counts, Run
from overlay import Id

WAITING_ROWS_MAX = 200_000
"""Upper bound on events that wait for a callback; further ones are dropped, and the next batch is marked partial."""
PANE_AHEAD_MS = 86_400_000
"""Upper bound on a pane's lead over the agent's clock: no pane could follow one at the end of time."""


class SelfPacedPipeline:
    """The shape of a `Pipeline`, sealed by the program, which finds what it has flushed in `handles`."""

    awaits_feeds = False
    has_room, abandons = True, False

    def __init__(
        self,
        app_id: Id,
        versions: Versions,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
        on_sealed: OnSealed,
        handles: PaoHandles,
    ) -> None:
        self.feeds = {feed.key: feed for feed in feeds}
        self.last_pane: int | None = None
        self.late = 0
        self.frontier = FIRST_PANE if begins == FIRST_PANE else begins - 1
        self.first_pane = max(begins, wall_ms)
        self.app_id = app_id
        self._ingest = ingest
        self._function = versions.newest.function
        self._store = PaneStore(self._function, ingest.area)
        self._counts = self._owed = Counts()
        self._malformed = 0
        self._lacking: set[FeedKey] = set()
        self._lacks_some = False
        """Whether events of this batch were lost."""
        self._handles = handles
        self._waiting: list[tuple[FeedKey, Parsed]] | None = None
        self._waiting_rows = 0
        self._log = PaneLog()
        self._on_sealed = on_sealed
        ingest.demand.want(app_id, self.feeds.values(), now=True)
        ingest.add_feed_consumer(self, self.feeds)

    def get_ready(self) -> bool:
        """True: it waits for nothing."""
        return True

    def close(self) -> None:
        """Leaves the ingest service: the job is over here."""
        self._ingest.demand.drop(self.app_id)
        self._ingest.remove_feed_consumer(self)

    # Versions: a further one begins from nothing, and needs no preparation.

    def advance(self) -> None:
        """Does nothing: its versions do not overlap."""

    def prepare(self, function: JobFunction) -> None:
        """Does nothing: a further version begins from nothing."""

    @property
    def prepared_after(self) -> int | None:
        """The last pane that is cut: a further version begins after it."""
        return self.frontier

    def withdraw(self) -> None:
        """Does nothing, as `prepare`."""

    def change_to(self, versions: Versions) -> None:
        """Puts another version in force, and drops what was gathered for the version before."""
        if versions.newest.function is not self._function:
            self._function = versions.newest.function
            self._store = PaneStore(self._function, self._ingest.area)
            self._counts = Counts()

    # Feeds.

    def opened(self, key: FeedKey, wall_ms: int) -> bool:  # noqa: ARG002
        """False: it has no windows that a feed could be too late for."""
        return False

    @property
    def is_growable(self) -> bool:
        """True: no pane waits for a feed."""
        return True

    def read_also(self, feeds: Iterable[Feed], wall_ms: int) -> None:  # noqa: ARG002 (no pane waits for a feed)
        """Gathers the events of further feeds from now on."""
        added = {feed.key: feed for feed in feeds}
        self.feeds |= added
        self._ingest.demand.want(self.app_id, self.feeds.values(), now=True)
        self._ingest.add_feed_consumer(self, added)

    def stop_reading(self, streams: Container[str], wall_ms: int) -> None:  # noqa: ARG002
        """Reads these streams no more; the batch that is gathered now lacks what they would have brought."""
        keys = [key for key in self.feeds if key[0] in streams]
        self.feeds = {key: feed for key, feed in self.feeds.items() if key not in keys}
        self._lacking -= set(keys)
        self._lacks_some = True
        self._ingest.end_feeds_of(self, keys)
        self._ingest.demand.want(self.app_id, self.feeds.values(), now=True)

    def renumber(self, number: int) -> None:
        """Does nothing: its runs are not on disk."""

    def place(self, placed: int) -> None:
        """Does nothing: its runs are not on disk."""

    def began(self, key: FeedKey, reading: object) -> None:
        """Does nothing: it is not read again."""

    def insert(self, key: FeedKey, parsed: Parsed, place: Place | None) -> None:  # noqa: ARG002 (it is not read again)
        """Gathers a parsed block, now or when the callback that has flushed is over."""
        if self._waiting is None:
            self._take(key, parsed)
            return
        self._waiting_rows += sum(frame.height for frame in parsed.frames)
        if self._waiting_rows <= WAITING_ROWS_MAX:
            self._waiting.append((key, parsed))

    def gather_waiting(self) -> None:
        """Takes the events that waited for the end of a callback that has flushed."""
        waiting, self._waiting = self._waiting, None
        self._lacks_some |= self._waiting_rows > WAITING_ROWS_MAX
        self._waiting_rows = 0
        for key, parsed in waiting or ():
            if key in self.feeds:
                self._take(key, parsed)

    def _take(self, key: FeedKey, parsed: Parsed) -> None:
        self._malformed += parsed.malformed
        for frame in parsed.frames:
            events, _ = believed(frame, self._ingest.clock.latest_ms)
            mine = as_named(self.feeds[key], columns_of(self._function), events)
            if mine is not None and mine.height:
                self._gather(mine)

    def _gather(self, events: pl.DataFrame) -> None:
        events = self._function.in_range(events)
        coerced = int(events["@coerced"].sum()) if "@coerced" in events.columns else 0
        self._count(events.height, self._store_matching(events), coerced)

    def _store_matching(self, events: pl.DataFrame) -> int:
        selected = self._function.select(events)
        if selected.height:
            self._store.insert(selected)
        return selected.height

    def _count(self, events: int, matched: int, coerced: int = 0) -> None:
        self._counts = self._counts.plus(Counts(events, matched, coerced=coerced))

    def put(self, rows: dict[str, list[Any]], wall_ms: int) -> None:
        """Gathers rows of the job's own code."""
        times = [wall_ms] * max(map(len, rows.values()), default=0)
        for events in parsed_rows(times, columns_of(self._function), rows).frames:
            self._gather(events)

    def code_ended(self, code: bytes) -> None:
        """Waits no more for what this code of the job would make of events."""

    def hand_in(self) -> None:
        """Does nothing: nothing is left out."""

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """Does nothing: panes are not cut by the clock."""

    def end_of_feed(self, key: FeedKey) -> None:
        """Does nothing, as `caught_up`."""

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Notes whether some of a feed's files cannot be read."""
        (self._lacking.add if some else self._lacking.discard)(key)

    # Calls of the program.

    def flush(self, token: int) -> None:
        """Holds all that is gathered. O(n log n) in its groups."""
        frames = [frame for frame in self._store.flush() if frame is not None]
        counts = self._counts.plus(Counts(malformed=self._malformed))
        is_partial = self._lacks_some or bool(self._lacking)
        self._waiting = self._waiting or []
        self._handles.hold(token, PaoHandle(self._function, self._function.gather(frames), counts, is_partial))

    def empty(self) -> None:
        """Begins from nothing."""
        self._store.empty()
        self._counts, self._malformed, self._lacks_some = Counts(), 0, False

    def send(self, token: int, pane: int, wall_ms: int) -> str | None:
        """Makes what was flushed the run up to a pane; the fault in the call, if any."""
        held = self._handles.get(token)
        if held is None:
            return f"send_to: these PAOs are not held any more: an agent holds the last {HELD_MAX}"
        if not self.frontier < pane < min(END, wall_ms + PANE_AHEAD_MS):
            return f"send_to: the pane {pane} has to be later than {self.frontier}, and not a day later than now"
        if held.function is not self._function:
            return "send_to: these PAOs are of the version before"
        if self._log.is_full:
            return "send_to: too much was sent that the master has not committed yet"
        state = held.state.with_columns(pl.lit(pane, pl.Int64).alias("pane"))
        counts, self._owed = held.counts.plus(self._owed), Counts()
        run = Run(self.frontier, pane, SELF, state, {pane: counts}, SELF if held.is_partial else 0)
        self._log.append(run)
        self.frontier = pane
        self._on_sealed(run)
        return None

    # Sealed runs.

    def finish_early(self) -> None:
        """Ends with the last batch that was sent: events gathered after it are no batch."""
        if self.last_pane is None:
            self.last_pane = self.frontier
            self.feeds = {}
            self.close()

    @property
    def has_finished(self) -> bool:
        """Whether every batch that will ever be sent is sent."""
        return self.last_pane is not None

    def after(self, frontier: int, published: int = END) -> list[Run]:  # noqa: ARG002 - none are merged
        """Every run sent beyond a frontier and not committed, again."""
        return self._log.after(frontier)

    def commit(self, published: Publication, retention_pane: int) -> Counts:
        """Frees published runs: no window is made of several of its panes. Returns the counts of those in no result."""
        return self._log.commit(published, retention_pane)

    def owe(self, lost: Counts) -> None:
        """Counts what is in no result as late, with the next batch that is sent."""
        self.late += lost.events
        self._owed = self._owed.plus(Counts(late=lost.events + lost.late, malformed=lost.malformed))

    def take_late(self) -> int:
        """0: its batches are never leaped over."""
        return 0

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes + self._log.memory_bytes


class SelfPacedMappedPipeline(SelfPacedPipeline):
    """A self-paced pipeline whose code maps events first; `send` gives it some."""

    def __init__(
        self,
        app_id: Id,
        versions: Versions,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
        on_sealed: OnSealed,
        handles: PaoHandles,
        send: Send,
    ) -> None:
        self.unmapped = 0
        """Events that were dropped because the program did not keep up."""
        self._send_events = send
        self._asked: dict[int, tuple[bytes | None, list[int]]] = {}
        self._numbers = 0
        super().__init__(app_id, versions, feeds, begins, wall_ms, ingest, on_sealed, handles)

    def _take(self, key: FeedKey, parsed: Parsed) -> None:
        """Has a parsed block mapped, in calls of bounded size."""
        self._malformed += parsed.malformed
        fields = {column.name: column.field for column in self.feeds[key].columns}
        for frame in parsed.frames:
            events, _ = believed(frame, self._ingest.clock.latest_ms)
            if all(name in events.columns for name in fields):
                for chunk in events.iter_slices(BATCH_ROWS_MAX):
                    self._map(chunk, fields)

    def _map(self, chunk: pl.DataFrame, fields: dict[str, str]) -> None:
        times = chunk[TIME].to_list()
        code = self._function.code
        if code is None or sum(len(asked) for _, asked in self._asked.values()) + len(times) > WAITING_ROWS_MAX:
            self.unmapped += len(times)
            self._lacks_some = True
            return
        self._numbers += 1
        columns = {field: chunk[name].to_list() for name, field in fields.items()}
        if self._send_events(code, self._numbers, times, columns):
            self._asked[self._numbers] = (code, times)

    def code_ended(self, code: bytes) -> None:
        ended = {number: times for number, (asked, times) in self._asked.items() if asked == code}
        self.unmapped += sum(map(len, ended.values()))
        self._lacks_some |= bool(ended)
        self._asked = {number: asked for number, asked in self._asked.items() if number not in ended}

    def mapped(self, code: bytes, number: int, origins: list[int], columns: dict[str, list[object]]) -> str | None:
        """Takes a program's answer; the fault in it, if any."""
        asked, times = self._asked.pop(number, (None, []))
        if asked != code:
            return "answered for events that it was not asked about"
        if any(len(values) != len(origins) for values in columns.values()) or max(origins, default=-1) >= len(times):
            return "answered with rows of events that it was not asked about"
        if code != self._function.code:
            return None
        rows = parsed_rows([times[origin] for origin in origins], columns_of(self._function), columns)
        self._count(len(times), sum(self._store_matching(self._function.in_range(frame)) for frame in rows.frames))
        return None
