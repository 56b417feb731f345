"""Folds the values and states of groups by the job's own aggregates, for the agent."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import groupby
from typing import Any, NoReturn

import msgspec

from agent.programs.calls import FoldStates, StatesFolded
from elf.job_aggregate import AggregateError, JobAggregate, is_rigid

STATE_BYTES_MAX = 64 << 10
"""Upper bound on an encoded state, and on a result."""
VALUE, STATE, RESULT = "v", "s", "r"
"""First characters of texts: see `cbt.aggregates.program_states`."""
_RESULTS: Mapping[str, tuple[type, ...]] = {"number": (int, float), "integer": (int,), "boolean": (bool,)}
_INTEGER_MAX = 2**63 - 1


class StateCodec:
    """Encodes states of one aggregate, by its name in queries.

    >>> codec = StateCodec("TOP")
    >>> codec.decode(codec.encode({"ann": (1, 2.5)}))
    {'ann': [1, 2.5]}
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, state: object) -> bytes:
        """A state as bytes. Raises AggregateError for one that is not made of plain values, or is too large."""
        try:
            data = msgspec.msgpack.encode(state, enc_hook=_refuse)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise AggregateError(f"{self.name}: its state is not made of plain values: {error}") from None
        if len(data) > STATE_BYTES_MAX:
            raise AggregateError(f"{self.name}: a state of {len(data):,} bytes; at most {STATE_BYTES_MAX:,} are taken")
        return data

    def decode(self, data: bytes) -> Any:
        """A state of its bytes, another object each time."""
        return msgspec.msgpack.decode(data)

    def result(self, result: object, gives: str) -> str:
        """A result as JSON. Raises AggregateError unless it is of the type."""
        if result is None:
            return "null"
        try:
            json = msgspec.json.encode(result, enc_hook=_refuse).decode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise AggregateError(f"{self.name}: its result is not made of plain values: {error}") from None
        if gives == "string":
            json = json if isinstance(result, str) else msgspec.json.encode(json).decode()
        elif type(result) not in _RESULTS[gives]:
            raise AggregateError(f"{self.name}: lower gives {type(result).__name__}, not {gives}")
        elif isinstance(result, int) and abs(result) > _INTEGER_MAX:
            raise AggregateError(f"{self.name}: lower gives a number beyond 64 bits")
        if len(json) > STATE_BYTES_MAX:
            raise AggregateError(f"{self.name}: a result of {len(json):,} bytes; at most {STATE_BYTES_MAX:,} are taken")
        return json


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is none")


class FoldedAggregate:
    """One aggregate of a job."""

    def __init__(self, name: str, kind: type[JobAggregate]) -> None:
        self._codec = StateCodec(name)
        self._gives = kind.gives
        self._is_rigid = is_rigid(kind)
        self._aggregate = kind()

    def fold(self, bag: list[tuple[str, int]], *, finishes: bool) -> str | None:
        """The one text of a group's texts and how often each occurs; None where there is no value in it.

        It `finishes` with a result, else with a state. O(n · log of occurrences) calls of `combine`. A rigid one is
        made of all of the group's texts, and finishes.
        """
        if self._is_rigid:
            return self._whole(bag)
        states = (self._repeated(text, times) for text, times in bag)
        whole = self._folded(state for state in states if state is not None)
        if whole is None:
            return None
        if not finishes:
            return STATE + base64.b64encode(whole).decode()
        return RESULT + self._codec.result(self._aggregate.lower(self._codec.decode(whole)), self._gives)

    def _whole(self, bag: list[tuple[str, int]]) -> str | None:
        """The result of all values of a group, in their order. O(n · log n)."""
        timed = ((_timed(text), times) for text, times in bag)
        ordered = sorted((one, times) for one, times in timed if one is not None)
        values = [(_values(text), times) for (_, text), times in ordered]
        states = [self._aggregate.lift(*of) for of, times in values if of is not None for _ in range(times)]
        return RESULT + self._codec.result(self._aggregate.lower(states), self._gives) if states else None

    def _folded(self, states: Iterable[bytes]) -> bytes | None:
        """The states as one, in their order: two of as many states each at a time, as long as there are, for what is
        large is encoded often where it is combined with one more each time."""
        folded: list[tuple[int, bytes]] = []
        for state in states:
            rank, whole = 0, state
            while folded and folded[-1][0] == rank:
                rank, whole = rank + 1, self._combined(folded.pop()[1], whole)
            folded.append((rank, whole))
        left = [state for _, state in reversed(folded)]
        return reduce(lambda later, one: self._combined(one, later), left) if left else None

    def _repeated(self, text: str, times: int) -> bytes | None:
        """The state of a text that occurs several times."""
        state = self._state(text)
        if state is None:
            return None
        whole: bytes | None = None
        while times:
            if times & 1:
                whole = state if whole is None else self._combined(whole, state)
            times >>= 1
            state = self._combined(state, state) if times else state
        return whole

    def _state(self, text: str) -> bytes | None:
        """The state in a text, or of the values in it; None where there are none, or a false peer has sent it."""
        try:
            if text[0] == STATE:
                state = base64.b64decode(text[1:], validate=True)
                self._codec.decode(state)
                return state
        except (ValueError, RecursionError):
            return None
        values = _values(text[1:])
        return None if values is None else self._codec.encode(self._aggregate.lift(*values))

    def _combined(self, one: bytes, other: bytes) -> bytes:
        decode = self._codec.decode
        return self._codec.encode(self._aggregate.combine(decode(one), decode(other)))


def _values(text: str) -> list[Any] | None:
    """The values of an event; None where all are NULL, or a false peer has sent them."""
    try:
        values = [*msgspec.json.decode(text, type=dict[str, Any]).values()]
    except (ValueError, RecursionError):
        return None
    return None if all(value is None for value in values) else values


def _timed(text: str) -> tuple[int, str] | None:
    """The time of an event (epoch ms) and the text of its values; None where a false peer has sent it."""
    time, brace, values = text[1:].partition("{")
    try:
        return int(time), brace + values
    except ValueError:
        return None


class FoldedAggregates:
    """The aggregates of a job's class, one object each."""

    def __init__(self, kinds: Mapping[str, type[JobAggregate]]) -> None:
        self._kinds = {name.upper(): FoldedAggregate(name.upper(), kind) for name, kind in kinds.items()}

    def answer(self, call: FoldStates) -> StatesFolded:
        """Folds the groups of a call, whose rows come in the order of their numbers."""
        folded = self._kinds[call.aggregate]
        numbers, times = array("I", call.groups), array("q", call.occurrences)
        rows = zip(numbers, call.texts, times, strict=True)
        groups, texts = array("I"), list[str | None]()
        for number, bag in groupby(rows, key=_group):
            groups.append(number)
            named = [(text, occurrences) for _, text, occurrences in bag if text is not None]
            texts.append(folded.fold(named, finishes=call.finishes))
        return StatesFolded(call.ticket, groups.tobytes(), texts)


def _group(row: tuple[int, str | None, int]) -> int:
    return row[0]
