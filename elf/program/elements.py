"""Runs the processing elements of a job: events come in by column, and what the elements emit goes out by column."""

from __future__ import annotations

import math
import random
import resource
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

import msgspec

from agent.programs import calls
from agent.programs.calls import SEPARATOR
from agent.programs.element_graph import Element, ElementGraph
from elf.elements.element import PE, StateError
from elf.elements.event import ElementError, event_options, received_class
from elf.elements.split import is_combined, split_classes
from elf.program.element_columns import pieces, raw_texts
from elf.program.emissions import END, EmittedEvents, emission_bytes
from elf.program.failures import ElementFailedError, Failures
from elf.program.prototype import Prototype

PIECE_ROWS = 1024
"""Number of events after which it is looked at how much was emitted."""
EMITTED_MAX = 1 << 16
"""Number of emitted events from which on they are sent before the call is answered."""
MESSAGE_BYTES_MAX = 4 << 20
"""Upper bound on emissions of several types in one message, encoded."""
ROOM, ROOM_LEFT = 0.6, 0.45
"""Share of this process's memory that elements may use, and that they use after some were removed."""
OUTPUTS_MAX = 100_000
"""Number of calls of output from which on the rest is left to the next call of the agent."""
BOUNDARIES_MAX = 100
"""Upper bound on the last boundaries of `every_s` at which output is called, where time has leapt."""

SPARE_BYTES = 4 << 20
"""Memory set aside for the end of a program that has used all it may: without any, Python looks for ever for who
handles the exception."""
OVER_MS = 1 << 61
"""Event time from which on no event comes any more: output is called once more, at the next boundary."""

Act = Callable[[calls.FromProgram], None]


class RunningElements:
    """The elements of one job, by the names of their classes. `act` sends to the agent, `log` writes to the job's log.

    `events`: the classes of events that the job's file declares, by name. `is_random`: the file draws random numbers.
    Raises ElementError.
    """

    def __init__(
        self,
        graph: ElementGraph,
        kinds: Iterable[object],
        events: Mapping[str, type],
        act: Act,
        log: Callable[[str], None],
        *,
        is_random: bool,
    ) -> None:
        code = [one for one in graph.elements if one.kind == "code"]
        room = memory_max() * ROOM / max(1, len(code))
        classes = _classes(graph, kinds)
        spare = bytearray(SPARE_BYTES)
        self._running = {
            one.name: _RunningElement(classes[one.name], one, events, act, log, room, spare, is_random=is_random)
            for one in code
        }

    def call(self, call: calls.ElementCall) -> None:
        """Answers a call. Raises ElementFailedError."""
        self._running[call.element].call(call)


def _classes(graph: ElementGraph, kinds: Iterable[object]) -> dict[str, type[PE]]:
    """The classes of the elements of a graph, by their names."""
    found = {kind.__name__: kind for kind in kinds if isinstance(kind, type) and issubclass(kind, PE)}
    inputs = {one.name: one.inputs[0] for one in graph.elements}
    for name, kind in list(found.items()):
        if is_combined(kind):
            classes = split_classes(kind, len(inputs[name].key or []))
            found |= {name: classes.whole, classes.parts.__name__: classes.parts}
    return found


class _Given:
    """The events of a call, by what their elements are found."""

    def __init__(self, call: calls.ProcessElements, keys_of: Callable[[], Sequence[Any]]) -> None:
        self.keys_of = keys_of
        self.times = memoryview(call.times).cast("q")
        self.nodes = memoryview(call.nodes).cast("H")
        self.numbers = memoryview(call.numbers).cast("I")


class _RunningElement:
    """The elements of one class."""

    def __init__(
        self,
        kind: type[PE],
        element: Element,
        events: Mapping[str, type],
        act: Act,
        log: Callable[[str], None],
        room: float,
        spare: bytearray,
        *,
        is_random: bool,
    ) -> None:
        self.time_ms = 0
        self.log = log
        self._kind, self._element, self._act = kind, element, act
        try:
            self._prototype = Prototype(kind, element)
        except (ElementError, MemoryError):
            raise
        except BaseException as error:
            raise ElementFailedError(kind.__name__) from error
        self._events = events
        self._classes: dict[tuple[str, ...], type] = {}
        self._emissions = EmittedEvents(kind.__name__, element.options.get("emits", []))
        self._emitted: list[Any] = []
        self.emit = self._emitted.append
        kind._elf = self
        if kind.emit is PE.emit:
            kind.emit = self.emit  # type: ignore[method-assign, assignment]
        self._seeds = is_random and self._prototype.is_keyless
        self._alone = self._prototype.new(None, 0, 0, 0) if self._prototype.is_keyless else None
        self._every_ms = 0 if element.every_s is None else round(element.every_s * 1000)
        self._soonest = 0
        self._fresh: dict[PE, None] = {}
        """The elements that have had events since output was last called."""
        self._reached_ms: int | None = None
        self._json_keys: set[str] = set()
        self._room = room
        self._failures = Failures(log)
        self._spare = spare

    def key_of(self, element: PE) -> Any:
        key, names = self._prototype.key_of(element), self._element.inputs[0].key
        if not names or not self._json_keys:
            return key
        if len(names) == 1:
            return msgspec.json.decode(key)
        return tuple(
            msgspec.json.decode(one) if name in self._json_keys else one for one, name in zip(key, names, strict=True)
        )

    def call(self, call: calls.ElementCall) -> None:
        try:
            self._carry_out(call)
        except MemoryError:
            self._make_room()
            raise
        except StateError as error:
            raise ElementFailedError(f"{self._name(error.clone)}: {error}") from None

    def _make_room(self) -> None:
        """Frees memory to end in."""
        self._emitted.clear()
        self._spare.clear()

    def _carry_out(self, call: calls.ElementCall) -> None:
        prototype = self._prototype
        match call:
            case calls.ProcessElements():
                self._process(call)
            case calls.AdvanceElements():
                self._advance(call)
            case calls.TakeStates():
                self._take(call.ticket, call.nodes)
            case calls.PutStates():
                names = self._element.inputs[0].key or []
                self._json_keys.update(
                    name for name, one in zip(names, call.states.keys, strict=False) if one.kind == "j"
                )
                prototype.put(call.states)
                self._soonest = 0
                self._note_fresh()
                self._answer(call.ticket, [])
            case calls.DropStates():
                prototype.drop(call.nodes)
                self._answer(call.ticket, [])
            case calls.EvictStates():
                prototype.evict(call.bytes_max, call.watermark_ms)
                self._answer(call.ticket, [])

    # Events.

    def _process(self, call: calls.ProcessElements) -> None:
        given = _Given(call, cache(partial(self._keys_of, call)))
        seqs = memoryview(call.seqs).cast("q") if self._seeds and call.seqs else None
        emitted, rows = self._emitted, len(given.times)
        kind, columns = self._class_of(call), [pieces(one, rows, PIECE_ROWS) for one in call.columns.values()]
        sent = 0
        elements: list[Any] = []
        parts: list[calls.Emission] = []
        run = self._run_seeded if seqs else self._run_careful if self._is_careful else self._run
        self._prototype.number(call.numbering, call.numbered)
        for start in range(0, rows, PIECE_ROWS):
            end = min(start + PIECE_ROWS, rows)
            elements = self._elements_of(given, range(start, end))
            times = given.times[start:end].tolist()
            events = map(kind, *map(next, columns), times)
            about = times if seqs is None else seqs[start:end].tolist()
            self._run_piece(run, elements, zip(elements, events, about, strict=True))
            if len(emitted) > EMITTED_MAX or end == rows:
                parts += self._packed(range(sent, end), given.times, None)
                sent = end
                parts = self._send(call.ticket, parts, is_last=end == rows)
        if self._alone is None:
            self._prototype.sample(elements)
        self._answer(call.ticket, parts)

    def _run_piece(
        self,
        run: Callable[[Iterator[tuple[Any, Any, int]]], None],
        elements: Sequence[Any],
        given: Iterator[tuple[Any, Any, int]],
    ) -> None:
        """Runs the next events. Those at which the code raises are passed over, and what it has emitted for them."""
        emitted, done = self._emitted, 0
        while done < len(elements):
            known = len(emitted)
            try:
                run(given)
            except MemoryError:
                self._make_room()
                raise
            except BaseException as error:
                went_well = sum(one is END for one in islice(emitted, known, None))
                done += went_well
                if not isinstance(error, Exception):
                    raise ElementFailedError(self._name(elements[done])) from error
                if went_well:
                    self._failures.went_well()
                self._pass_over(elements[done], "an event", error)
                done += 1
            else:
                self._failures.went_well()
                return

    def _pass_over(self, element: PE, what: str, error: Exception) -> None:
        emitted = self._emitted
        while emitted and emitted[-1] is not END:
            emitted.pop()
        emitted.append(END)
        self._failures.note(self._name(element), what, error)

    def _packed(self, numbers: range, times: Sequence[int], nodes: Sequence[int] | None) -> list[calls.Emission]:
        """Packs what was emitted in calls of these numbers."""
        try:
            return [*self._emissions.packed(self._emitted, numbers, times, nodes)]
        except ElementError as error:
            raise ElementFailedError(f"{self._kind.__name__}: {error}") from None
        finally:
            self._emitted.clear()

    def _send(self, ticket: int, parts: list[calls.Emission], *, is_last: bool) -> list[calls.Emission]:
        """Sends what does not fit the answer; returns what does."""
        size = 0
        fitting: list[calls.Emission] = []
        for part in parts:
            size += emission_bytes(part)
            if fitting and size > MESSAGE_BYTES_MAX:
                self._act(calls.ElementsProcessed(ticket, fitting, has_more=True))
                size, fitting = emission_bytes(part), []
            fitting.append(part)
        if not is_last and fitting:
            self._act(calls.ElementsProcessed(ticket, fitting, has_more=True))
            return []
        return fitting

    def _answer(self, ticket: int, parts: list[calls.Emission]) -> None:
        prototype = self._prototype
        figures = (len(prototype.clones), prototype.memory_bytes, prototype.evicted, self._failures.count)
        self._act(calls.ElementsProcessed(ticket, parts, False, self._reached_ms, *figures))

    @property
    def _is_careful(self) -> bool:
        return self._element.every_n is not None or self._prototype.ttl_ms is not None

    def _run(self, given: Iterator[tuple[Any, Any, int]]) -> None:
        process, mark = self._kind.process_event, self._emitted.append
        for element, event, time in given:
            element._elf_seen = time
            process(element, event)
            mark(END)

    def _run_seeded(self, given: Iterator[tuple[Any, Any, int]]) -> None:
        """As `_run`, with the same random numbers whenever the same events come again."""
        process, mark, seed = self._kind.process_event, self._emitted.append, random.seed
        for element, event, seq in given:
            seed(seq)
            process(element, event)
            mark(END)

    def _run_careful(self, given: Iterator[tuple[Any, Any, int]]) -> None:
        """As `_run`, with a new state after the time to live, and with output after every so many events."""
        process, mark = self._kind.process_event, self._emitted.append
        every_n, ttl_ms, renew = self._element.every_n, self._prototype.ttl_ms, self._prototype.renew
        for element, event, time in given:
            if ttl_ms is not None and time - element._elf_seen >= ttl_ms:
                renew(element)
            element._elf_seen = max(time, element._elf_seen)
            process(element, event)
            if every_n is not None:
                element._elf_count += 1
                if element._elf_count >= every_n:
                    element._elf_count = 0
                    self.time_ms = time
                    element.output()
            mark(END)

    def _elements_of(self, given: _Given, rows: range) -> list[Any]:
        """The elements of some events, made where they are the first of their keys."""
        if self._alone is not None:
            return [self._alone] * len(rows)
        prototype = self._prototype
        before = len(prototype.clones)
        elements = prototype.find(rows, given.numbers, given.keys_of, given.nodes, given.times, self._due_after)
        if len(prototype.clones) > before:
            self._soonest = 0
            if prototype.memory_bytes > self._room:
                # Before this process has no memory left; the agent evicts only now and then.
                kept = {*map(prototype.clones.get, given.keys_of())}
                prototype.evict(int(self._room * ROOM_LEFT / ROOM), min(given.times), kept)
        if self._every_ms:
            self._fresh.update(dict.fromkeys(elements))
        if prototype.changed is not None:
            prototype.changed.update(elements)
        return elements

    def _keys_of(self, call: calls.ProcessElements) -> Sequence[Any]:
        """The key of each event."""
        key_columns = []
        for name in call.key or []:
            column = call.columns[name]
            if column.kind == "j":
                self._json_keys.add(name)
            key_columns.append(raw_texts(column))
        keys = self._prototype.keys(key_columns, len(call.times) // 8)
        return self._prototype.identities(keys, memoryview(call.nodes).cast("H"))

    def _class_of(self, call: calls.ProcessElements) -> type:
        names = (call.event_type, *call.columns)
        found = self._classes.get(names)
        if found is None:
            kind = self._events.get(call.event_type)
            found = self._classes[names] = received_class(call.event_type, names[1:], kind)
        return found

    # Time.

    def _due_after(self, time: int) -> int:
        """The first boundary of every_s at which output is called for an element that begins at a time."""
        every = self._every_ms
        if not every:
            return 0
        latest = time if self._reached_ms is None else max(time, self._reached_ms)
        return (latest // every + 1) * every

    def _advance(self, call: calls.AdvanceElements) -> None:
        prototype, watermark = self._prototype, call.watermark_ms
        parts: list[calls.Emission] = []
        if self._every_ms and call.is_bounded:
            parts = self._output_after_events(call)
        elif self._every_ms:
            watermark, parts = self._output_at_boundaries(call)
        self._reached_ms = max(watermark, self._reached_ms or watermark)
        if watermark < OVER_MS:
            prototype.remove(prototype.expired(watermark))
        self._answer(call.ticket, parts)

    def _output_at_boundaries(self, call: calls.AdvanceElements) -> tuple[int, list[calls.Emission]]:
        """Calls output at each boundary up to the watermark; returns how far it has come."""
        prototype, watermark, every = self._prototype, call.watermark_ms, self._every_ms
        parts: list[calls.Emission] = []
        outputs = 0
        is_over = watermark >= OVER_MS
        self._fresh.clear()
        while prototype.clones and self._next_due() <= min(watermark, OVER_MS - 1):
            boundary = self._soonest
            if not is_over and (watermark - boundary) // every >= BOUNDARIES_MAX:
                boundary = (watermark // every - BOUNDARIES_MAX + 1) * every
            if outputs > OUTPUTS_MAX:
                return boundary - 1, parts
            prototype.remove(prototype.expired(boundary))
            due = [one for one in prototype.clones.values() if one._elf_due <= boundary]
            outputs += len(due)
            parts = self._output(call.ticket, parts, due, boundary, OVER_MS if is_over else boundary + every)
        return watermark, parts

    def _output_after_events(self, call: calls.AdvanceElements) -> list[calls.Emission]:
        """Calls output of elements at the first boundary after their last events, and of all once more when no event
        comes any more: what is emitted depends on the events alone, not on how time goes on.
        """
        clones, every, ttl_ms = self._prototype.clones, self._every_ms, self._prototype.ttl_ms
        is_over = call.watermark_ms >= OVER_MS
        by_boundary: dict[int, list[PE]] = {}
        looked_at: list[PE] = [*clones.values()] if is_over else [*self._fresh]
        for element in looked_at:
            boundary = element._elf_due
            if element._elf_seen >= boundary - every:
                boundary = (element._elf_seen // every + 1) * every
            is_expired = ttl_ms is not None and element._elf_seen + ttl_ms <= boundary
            if boundary <= call.watermark_ms and boundary < OVER_MS:
                self._fresh.pop(element, None)
                if not is_expired and clones.get(element._elf_key) is element:
                    by_boundary.setdefault(boundary, []).append(element)
        parts: list[calls.Emission] = []
        for boundary, due in sorted(by_boundary.items()):
            parts = self._output(call.ticket, parts, due, boundary, OVER_MS if is_over else boundary + every)
        return parts

    def _note_fresh(self) -> None:
        """Notes which elements, of those that have come, have had events since output was last called."""
        every = self._every_ms
        for element in self._prototype.clones.values() if every else ():
            if element._elf_seen >= element._elf_due - every:
                self._fresh[element] = None

    def _next_due(self) -> int:
        if not self._soonest:
            self._soonest = min(one._elf_due for one in self._prototype.clones.values())
        return self._soonest

    def _output(
        self, ticket: int, parts: list[calls.Emission], due: list[PE], boundary: int, next_due: int
    ) -> list[calls.Emission]:
        """Calls output of elements at a boundary; returns what was emitted and not sent yet."""
        mark = self._emitted.append
        self.time_ms, self._soonest = boundary, 0
        for element in due:
            element._elf_due = next_due
            try:
                element.output()
            except MemoryError:
                self._make_room()
                raise
            except StateError:
                raise
            except Exception as error:
                self._pass_over(element, "a call of output", error)
            except BaseException as error:
                raise ElementFailedError(self._name(element)) from error
            else:
                mark(END)
        nodes = [one._elf_node for one in due]
        if self._kind._elf_is_part:
            self._prototype.retire(due)
        elif self._prototype.changed is not None:
            self._prototype.changed.update(due)
        parts += self._packed(range(len(due)), [boundary - 1] * len(due), nodes)
        return self._send(ticket, parts, is_last=False) if len(parts) > 1 else parts

    # States.

    def _take(self, ticket: int, nodes: Collection[int] | None) -> None:
        nothing = calls.States(b"", [], b"", b"", b"", b"", {})
        last = nothing
        for states in self._prototype.take(nodes):
            if last is not nothing:
                self._act(calls.StatesTaken(ticket, last, has_more=True))
            last = states
        self._act(calls.StatesTaken(ticket, last))

    def _name(self, element: PE) -> str:
        """The name and key of an element as people read them."""
        if element is self._alone:
            return self._kind.__name__
        return f"{self._kind.__name__} of {str(self.key_of(element)).replace(SEPARATOR, ' ')[:80]!r}"


def memory_max() -> float:
    """The memory that this process may use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if soft == resource.RLIM_INFINITY else soft


def event_classes(variables: Mapping[str, object]) -> dict[str, type]:
    """The classes of events among the variables of a file, by the names of their types."""
    found = [(options.name, one) for one in variables.values() if (options := event_options(one)) is not None]
    return {name: one for name, one in found if isinstance(one, type)}
