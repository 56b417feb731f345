"""Runs a function over blocks of lines, each as a pane of its own, and notes how long each kind of work takes.

The work is that of a pane on its way: its lines are parsed, inserted into a store, sealed, merged with the pane before
as in a tree, and made rows. So each block is one piece of each kind of work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

import cbt
from agent.parsing import Format, Parser, parser
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.event_batch import EventBatch
from agent.runtime.ingest.feed import clauses_of
from agent.runtime.ingest.panes.pane_store import PaneStore
from agent.sources import Block
from query.latency.groups import HeapsLaw
from query.latency.parts import ASSUMED_COSTS
from query.latency.phases import Phase
from query.latency.resources import Amount, LinearCost

STATE_BYTES_MAX = 64 << 20
"""Upper bound on a pane's state, decompressed."""
Costs = Mapping[Phase, LinearCost]


@dataclass(slots=True)
class _Sealed:
    """A pane's state, and its bytes as they travel."""

    state: pl.DataFrame
    encoded: bytes


@dataclass(slots=True)
class TimedWork:
    """The work of one function on lines of streams. `timer` tells seconds. Not for several threads at once."""

    function: JobFunction
    timer: Callable[[], float]
    lines: int = 0
    """Lines that were parsed, those that are no events included."""
    groups: list[tuple[float, float]] = field(default_factory=list)
    """Lines and groups of each pane: that of a block."""
    state_bytes: int = 0
    """Bytes of all panes' states as they travel."""
    _pieces: dict[Phase, list[tuple[Amount, float]]] = field(default_factory=dict)
    _parsers: dict[tuple[str, Format], Parser] = field(default_factory=dict)
    _before: _Sealed | None = None

    def take(self, stream: str, block: Block, form: Format, wall_ms: int) -> None:
        """Does all work on a block of whole lines. `wall_ms`: the time of events that carry none. O(bytes)."""
        reader = self._parser(stream, form)
        begun = self.timer()
        parsed = reader.parse(block, wall_ms)
        rows = float(sum(frame.height for frame in parsed.all_frames) + parsed.malformed)
        self._note(Phase.PARSE, Amount(rows), begun)
        store = PaneStore(self.function, None)
        begun = self.timer()
        for frame in parsed.frames:
            for events in self.function.read(stream, frame):
                store.add(EventBatch(events.with_columns(pane=pl.lit(0, dtype=pl.Int64))))
        self._note(Phase.INSERT, Amount(rows), begun)
        self.lines += int(rows)
        self._seal(store, rows)

    def costs(self, like: Costs = ASSUMED_COSTS) -> dict[Phase, LinearCost]:
        """The costs of the kinds of work that were done, by all pieces but the first: what is done once is in that one.
        `like`: as what the pieces do not tell apart is divided. O(pieces)."""
        return {
            phase: LinearCost.fitted(pieces[1:], like.get(phase, ASSUMED_COSTS[phase]))
            for phase, pieces in self._pieces.items()
            if len(pieces) > 1
        }

    @property
    def law(self) -> HeapsLaw:
        """The growth of groups with lines."""
        return HeapsLaw.fitted(self.groups)

    @property
    def group_bytes(self) -> float:
        """Bytes of a group as it travels; 0 where there was none."""
        groups = sum(count for _, count in self.groups)
        return self.state_bytes / groups if groups else 0.0

    def _seal(self, store: PaneStore, rows: float) -> None:
        begun = self.timer()
        state = self.function.gather([frame for frame in store.flush() if frame is not None])
        encoded = cbt.encode_frame(state)
        size = float(len(encoded))
        self._note(Phase.SEAL, Amount(rows, state.height, size), begun)
        self.groups.append((rows, float(state.height)))
        self.state_bytes += len(encoded)
        if state.height:
            self._combine(_Sealed(state, encoded))

    def _combine(self, sealed: _Sealed) -> None:
        before, self._before = self._before, sealed
        if before is None:
            return
        begun = self.timer()
        received = cbt.decode_frame(before.encoded, self.function.state_schema, bytes_max=STATE_BYTES_MAX)
        merged = self.function.combine([received, sealed.state])
        rows = float(before.state.height + sealed.state.height)
        self._note(Phase.COMBINE, Amount(rows, merged.height), begun)
        if self.function.sessions is None:
            begun = self.timer()
            list(self.function.finish_windows(merged, [0])[0].rows)
            self._note(Phase.FINISH, Amount(rows, merged.height), begun)

    def _parser(self, stream: str, form: Format) -> Parser:
        key = stream, form.parsing_key
        if key not in self._parsers:
            self._parsers[key] = parser(form, self.function.columns_of(stream), clauses_of(self.function.plan))
        return self._parsers[key]

    def _note(self, phase: Phase, amount: Amount, begun: float) -> None:
        self._pieces.setdefault(phase, []).append((amount, max(self.timer() - begun, 0.0)))
