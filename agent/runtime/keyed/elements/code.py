"""Elements that are code, which runs in the job's program: calls go out, answers come back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from agent.programs import calls
from agent.programs.calls import AnswerError, Emission, ProgramCall, ProgramPosition
from agent.programs.element_graph import Element, EventType, FieldType
from agent.runtime.keyed.elements.key_numbers import KeyNumbers
from agent.runtime.keyed.elements.packing import numbers, packed, unpacked
from agent.runtime.keyed.elements.runtime import (
    EVENT_TIME,
    NODE,
    SEQ,
    SOURCE,
    Compact,
    Emitted,
    Tables,
)
from agent.runtime.keyed.elements.slots import GONE, SEEN
from agent.runtime.keyed.logical_nodes import NODES

STATES = "states"
"""The only table of code: `@node`, the columns of the key (`@key0`, ...), and the attributes by their names."""
COUNT, DUE, KEY = "@count", "@due", "@key"
CALLS_MAX = 4
"""Upper bound on calls of one element under way; further ones wait here."""
CALL_ROWS_MAX = 8192
CALL_BYTES_MAX = 1 << 20
"""Approximate upper bounds on one call; a single event may be larger."""
CALL_EMITTED_MAX = 1 << 17
"""Number of events that a call is to emit at most, as far as the one before it tells."""
TAKEN_NODES_MAX = 64
"""Upper bound on the logical nodes whose states are asked for at once."""
_FIELD_TYPES: dict[str, FieldType] = {
    "integer": "integer",
    "number": "number",
    "string": "string",
    "boolean": "boolean",
    "json": "string",
}

Answer = calls.ElementsProcessed | calls.StatesTaken


@dataclass(slots=True)
class _Work:
    """A call of the agent, which is done when all of its calls of the program are. `frames`: what came back so far."""

    done: Callable[[dict[str, list[pl.DataFrame]]], None]
    left: int = 1
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def add(self, name: str, frame: pl.DataFrame) -> None:
        self.frames.setdefault(name, []).append(frame)


@dataclass(slots=True)
class _Rows:
    """Events that wait to be given to the program."""

    type: str
    rows: pl.DataFrame
    work: _Work


@dataclass(slots=True)
class _Ask:
    """Anything else that waits; `call` None: it is only done when its turn comes."""

    call: calls.ElementCall | None
    work: _Work


@dataclass(slots=True)
class _Sent:
    """A call under way. `pieces`: for events, whose they are, each with the number of rows up to its end."""

    call: calls.ElementCall | None
    pieces: list[tuple[int, _Work]]
    columns: Mapping[str, npt.NDArray[Any]]
    rows: int = 0
    emitted: int = 0


class CodeRuntime:
    """The elements of one class on this agent: an `ElementRuntime`.

    `call` gives a call to the job's program, in order, and returns whether there is one; `answered` takes its answers.
    `first_ticket`: tickets are unique among all elements of the job. `is_bounded`: the input ends; events come by
    their time, and the time is told before those from a boundary of `every_s` on.
    """

    def __init__(
        self,
        element: Element,
        types: Mapping[str, EventType],
        call: Callable[[ProgramCall], bool],
        place: Callable[[], ProgramPosition],
        first_ticket: int = 0,
        *,
        is_bounded: bool = False,
    ) -> None:
        self._element, self._types, self._call, self._place = element, types, call, place
        self._inputs = {one.type: one for one in element.inputs}
        self._emits = [types[name] for name in element.options.get("emits", []) if name in types]
        self._is_keyless = element.inputs[0].key is None
        self._numbers = KeyNumbers(element, types)
        self._is_bounded = is_bounded
        self._tickets = first_ticket
        self._queue: deque[_Rows | _Ask] = deque()
        self._sent: deque[_Sent] = deque()
        self._nodes: npt.NDArray[np.bool_] = np.zeros(NODES, np.bool_)
        self._is_evicting = False
        self._rows_max = CALL_ROWS_MAX
        self._told = 0
        self.elements = self.memory_bytes = self.evicted = self.failed = self.coerced = 0
        """Figures of the program as of its last answer, and values of emitted events that became NULL."""

    # As `ElementRuntime` has it.

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:
        work = _Work(lambda frames: done([Emitted(name, pl.concat(some)) for name, some in frames.items()]))
        if not rows.height:
            self._ask(None, work)
            return
        if not self._is_keyless:
            self._nodes[rows[NODE].to_numpy()] = True
        self._queue.append(_Rows(type_, rows, work))
        self._pump()

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        work = _Work(lambda frames: done([Emitted(name, pl.concat(some)) for name, some in frames.items()]))
        is_timed = self._element.every_s is not None or self._element.ttl_s is not None
        self._ask(self._advance(watermark_ms) if is_timed else None, work)

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        work = _Work(lambda frames: done(_concatenated(frames)))
        self._ask(None if self._is_keyless else calls.TakeStates(*self._head(), self._ticket(), None), work)

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        wanted = [] if self._is_keyless else sorted(nodes)
        asks = [wanted[start : start + TAKEN_NODES_MAX] for start in range(0, len(wanted), TAKEN_NODES_MAX)]
        work = _Work(lambda frames: done(_concatenated(frames)), left=max(1, len(asks)))
        for some in asks:
            self._ask(calls.TakeStates(*self._head(), self._ticket(), some), work)
        if not asks:
            self._ask(None, work)

    def put(self, tables: Tables) -> None:
        table = tables.get(STATES)
        if table is None or not table.height:
            return
        self._nodes[table[NODE].to_numpy()] = True
        work = _Work(_nothing, left=0)
        for piece in _pieces(table):
            work.left += 1
            self._ask(calls.PutStates(*self._head(), self._ticket(), self._packed_states(piece)), work)

    def drop(self, nodes: Collection[int]) -> None:
        dropped = sorted(nodes)
        self._ask(
            None if self._is_keyless else calls.DropStates(*self._head(), self._ticket(), dropped), _Work(_nothing)
        )

    def evict(self, bytes_max: int, watermark_ms: int) -> int:
        """Has elements removed in their turn; returns how many were since the last call."""
        if self.memory_bytes > bytes_max and not self._is_evicting and not self._is_keyless:
            self._is_evicting = True
            call = calls.EvictStates(*self._head(), self._ticket(), max(0, bytes_max), watermark_ms)
            self._ask(call, _Work(self._has_evicted))
        new, self._told = self.evicted - self._told, self.evicted
        return new

    @property
    def waiting_rows(self) -> int:
        """Events that were given and are not done."""
        waiting = sum(one.rows.height for one in self._queue if isinstance(one, _Rows))
        return waiting + sum(one.rows for one in self._sent)

    # Answers.

    def answered(self, answer: Answer) -> bool:
        """Takes an answer of the program; returns False for one to another element. Raises AnswerError."""
        head = self._sent[0] if self._sent else None
        if head is None or head.call is None or getattr(head.call, "ticket", -1) != answer.ticket:
            if any(one.call is not None and getattr(one.call, "ticket", -1) == answer.ticket for one in self._sent):
                raise AnswerError("answered calls in another order")
            return False
        if isinstance(answer, calls.StatesTaken):
            self._take_states(head, answer.states)
        else:
            self._take_emitted(head, answer)
        if not answer.has_more:
            self._finish(head, answer)
        return True

    def _finish(self, head: _Sent, answer: Answer) -> None:
        if isinstance(answer, calls.ElementsProcessed):
            self.elements, self.memory_bytes = answer.elements, answer.memory_bytes
            self.evicted, self.failed = answer.evicted, answer.failed
            call, reached_ms = head.call, answer.reached_ms
            if isinstance(call, calls.AdvanceElements) and reached_ms is not None and reached_ms < call.watermark_ms:
                head.call = self._advance(call.watermark_ms)  # more boundaries than fit one call
                self._give(head.call)
                return
        if head.rows:
            self._rows_max = max(1, min(CALL_ROWS_MAX, CALL_EMITTED_MAX * head.rows // max(1, head.emitted)))
        self._sent.popleft()
        self._done(head)
        while self._sent and self._sent[0].call is None:
            self._done(self._sent.popleft())
        self._pump()

    @staticmethod
    def _done(sent: _Sent) -> None:
        for _, work in sent.pieces:
            work.left -= 1
            if not work.left:
                work.done(work.frames)

    def _has_evicted(self, _frames: object) -> None:
        self._is_evicting = False

    def _take_emitted(self, head: _Sent, answer: calls.ElementsProcessed) -> None:
        if isinstance(head.call, calls.TakeStates):
            raise AnswerError("answered with events when it was asked for states")
        for emission in answer.emitted:
            type_ = next((one for one in self._emits if one.name == emission.type), None)
            if type_ is None:
                raise AnswerError(
                    f"answered with events of the type {emission.type[:80]}, which {self._element.name} does not emit"
                )
            if isinstance(head.call, calls.ProcessElements):
                self._take_of_rows(head, emission, type_)
            elif isinstance(head.call, calls.AdvanceElements):
                head.pieces[0][1].add(type_.name, self._of_output(emission, type_))
            else:
                raise AnswerError("answered with events when it was given none")

    def _take_of_rows(self, head: _Sent, emission: Emission, type_: EventType) -> None:
        """Takes events that were emitted for rows; each row's go to whom it came from."""
        head.emitted += emission.rows
        origins = self._origins(head, emission)
        frame = self._frame(emission, type_, {name: values[origins] for name, values in head.columns.items()})
        if len(head.pieces) == 1:
            head.pieces[0][1].add(type_.name, frame)
            return
        start = 0
        for end, work in head.pieces:
            until = int(np.searchsorted(origins, end))
            if until > start:
                work.add(type_.name, frame.slice(start, until - start))
            start = until

    def _origins(self, head: _Sent, emission: Emission) -> npt.NDArray[Any]:
        if emission.origins is None:
            if emission.rows != head.rows:
                raise AnswerError(
                    f"answered with {emission.rows:,} events of {head.rows:,} rows, and does not say which"
                )
            return np.arange(head.rows)
        origins = numbers("origins", emission.origins, "<u4", emission.rows).to_numpy()
        if len(origins) and (origins[-1] >= head.rows or (np.diff(origins.astype(np.int64)) < 0).any()):
            raise AnswerError("answered with events of rows that it was not given")
        return origins

    def _of_output(self, emission: Emission, type_: EventType) -> pl.DataFrame:
        if emission.nodes is None or emission.times is None:
            raise AnswerError("answered with events of output, and does not say when and where")
        nodes = numbers(NODE, emission.nodes, "<u2", emission.rows).to_numpy()
        if len(nodes) and (int(nodes.max()) >= NODES or not self._nodes[nodes].all()):
            raise AnswerError("answered with events of logical nodes that it was not given")
        times = numbers(EVENT_TIME, emission.times, "<i8", emission.rows).to_numpy()
        return self._frame(emission, type_, {EVENT_TIME: times, NODE: nodes})

    def _frame(self, emission: Emission, type_: EventType, about: Mapping[str, npt.NDArray[Any]]) -> pl.DataFrame:
        """The events of an emission. `about`: columns that are known of each."""
        if emission.columns.keys() != dict(type_.fields).keys():
            raise AnswerError(f"answered with other fields of {type_.name} than it has")
        columns = {name: pl.Series(name, values) for name, values in about.items()}
        if emission.times is not None:
            columns[EVENT_TIME] = numbers(EVENT_TIME, emission.times, "<i8", emission.rows)
        for name, kind in type_.fields:
            columns[name], misfits = unpacked(name, emission.columns[name], kind, emission.rows)
            self.coerced += misfits
        return pl.DataFrame(columns)

    # Calls.

    def _ask(self, call: calls.ElementCall | None, work: _Work) -> None:
        self._queue.append(_Ask(call, work))
        self._pump()

    def _pump(self) -> None:
        """Gives the program what waits, as long as few calls are under way."""
        while self._queue and len(self._sent) < CALLS_MAX and not self._is_between_times():
            head = self._queue[0]
            if isinstance(head, _Rows):
                self._give_rows()
                continue
            self._queue.popleft()
            if head.call is None and not self._sent:
                self._done(_Sent(None, [(0, head.work)], {}))
                continue
            self._sent.append(_Sent(head.call, [(0, head.work)], {}))
            if head.call is not None:
                self._give(head.call)

    def _is_between_times(self) -> bool:
        """Whether output is under way, which may take several calls."""
        return bool(self._sent) and isinstance(self._sent[-1].call, calls.AdvanceElements)

    def _give_rows(self) -> None:
        """Gives the program the next events, of several calls of the agent if they are of one type."""
        first = self._queue[0]
        assert isinstance(first, _Rows)
        room = min(_rows_of_call(first.rows), self._rows_max)
        frames: list[pl.DataFrame] = []
        pieces: list[tuple[int, _Work]] = []
        total = 0
        while self._queue and total < room:
            head = self._queue[0]
            if not isinstance(head, _Rows) or head.type != first.type:
                break
            taken = head.rows.head(room - total)
            total += taken.height
            frames.append(taken)
            pieces.append((total, head.work))
            if taken.height == head.rows.height:
                self._queue.popleft()
            else:
                head.rows = head.rows.slice(taken.height)
                head.work.left += 1
        self._give_frame(first.type, frames[0] if len(frames) == 1 else pl.concat(frames), pieces)

    def _give_frame(self, type_: str, rows: pl.DataFrame, pieces: list[tuple[int, _Work]]) -> None:
        about = (EVENT_TIME, SOURCE, SEQ) if self._is_keyless else (EVENT_TIME, NODE)
        kept = {name: rows[name].to_numpy() for name in about}
        nodes = np.zeros(rows.height, np.uint16) if self._is_keyless else kept[NODE]
        numbers = self._numbers.find(type_, rows)
        call = calls.ProcessElements(
            *self._head(),
            self._ticket(),
            type_,
            nodes.astype("<u2", copy=False).tobytes(),
            kept[EVENT_TIME].astype("<i8", copy=False).tobytes(),
            {name: packed(rows[name], kind) for name, kind in self._types[type_].fields},
            self._inputs[type_].key,
            kept[SEQ].astype("<i8", copy=False).tobytes() if self._is_keyless else b"",
            numbers,
            self._numbers.numbering,
            self._numbers.count,
        )
        self._sent.append(_Sent(call, pieces, kept, rows.height))
        self._give(call)

    def _give(self, call: calls.ElementCall) -> None:
        """Gives a call to the program. If there is none any more, the job is about to end, and nothing is answered."""
        self._call(call)

    def _advance(self, watermark_ms: int) -> calls.AdvanceElements:
        return calls.AdvanceElements(*self._head(), self._ticket(), watermark_ms, self._is_bounded)

    def _head(self) -> tuple[ProgramPosition, str]:
        return self._place(), self._element.name

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    # States.

    def _key_kinds(self) -> list[FieldType]:
        read = self._element.inputs[0]
        fields = dict(self._types[read.type].fields)
        return [fields[name] for name in read.key or []]

    def _state_kinds(self) -> dict[str, FieldType]:
        return {name: _FIELD_TYPES[kind] for name, kind in self._element.options.get("states", {}).items()}

    def _take_states(self, head: _Sent, states: calls.States) -> None:
        if not isinstance(head.call, calls.TakeStates):
            raise AnswerError("answered with states when it was not asked for them")
        if not states.gone:
            return
        frame = self._states_frame(states)
        if not self._nodes[frame[NODE].to_numpy()].all():
            raise AnswerError("answered with states of logical nodes that it was not given")
        head.pieces[0][1].add(STATES, frame)

    def _states_frame(self, states: calls.States) -> pl.DataFrame:
        """The table of states. Raises AnswerError."""
        rows, kinds, attributes = len(states.gone), self._key_kinds(), self._state_kinds()
        if len(states.keys) != len(kinds) or states.columns.keys() != attributes.keys():
            raise AnswerError("answered with states of another class")
        nodes = numbers(NODE, states.nodes, "<u2", rows)
        if rows and int(nodes.to_numpy().max()) >= NODES:
            raise AnswerError("answered with states of logical nodes that there are not")
        columns = [nodes]
        for place, (column, kind) in enumerate(zip(states.keys, kinds, strict=True)):
            # Keys of the type `any` are their JSON texts.
            columns.append(unpacked(f"{KEY}{place}", column, "string" if kind == "any" else kind, rows)[0])
        columns.append(numbers(GONE, states.gone, "u1", rows).cast(pl.Boolean))
        for name, data in ((SEEN, states.seen), (COUNT, states.counts), (DUE, states.due)):
            columns.append(numbers(name, data, "<i8", rows))
        columns += [unpacked(name, column, attributes[name], rows)[0] for name, column in states.columns.items()]
        return pl.DataFrame(columns)

    def _packed_states(self, table: pl.DataFrame) -> calls.States:
        def raw(name: str, dtype: str) -> bytes:
            return table[name].to_numpy().astype(dtype, copy=False).tobytes()

        return calls.States(
            raw(NODE, "<u2"),
            [packed(table[f"{KEY}{place}"], kind) for place, kind in enumerate(self._key_kinds())],
            bytes(table[GONE].cast(pl.UInt8).to_list()),
            raw(SEEN, "<i8"),
            raw(COUNT, "<i8"),
            raw(DUE, "<i8"),
            {name: packed(table[name], kind) for name, kind in self._state_kinds().items()},
        )


def compact(element: Element) -> Compact:
    """Puts the frames of the states of code into one: the whole state first, then its changes."""
    keys = [NODE, *(f"{KEY}{place}" for place in range(len(element.inputs[0].key or [])))]

    def of(_table: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(frames).unique(keys, keep="last", maintain_order=True).filter(~pl.col(GONE))

    return of


def state_of(row: Mapping[str, Any], element: Element) -> bytes:
    """One row of the table of states as JSON, as people read it."""
    kinds = element.options.get("states", {})
    found = {
        name: msgspec.Raw(value.encode()) if kinds[name] == "json" and value is not None else value
        for name, value in row.items()
        if name in kinds
    }
    return msgspec.json.encode(found)


def _pieces(table: pl.DataFrame) -> list[pl.DataFrame]:
    """A table in pieces that each fit one call."""
    return [*table.iter_slices(_rows_of_call(table))]


def _rows_of_call(rows: pl.DataFrame) -> int:
    """Returns the number of rows like these that fit one call."""
    each = max(1, int(rows.estimated_size()) // rows.height)
    return max(1, min(CALL_ROWS_MAX, CALL_BYTES_MAX // each))


def _concatenated(frames: Mapping[str, list[pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    return {name: pl.concat(some) for name, some in frames.items()}


def _nothing(_frames: object) -> None:
    """Takes an answer that nobody waits for."""
