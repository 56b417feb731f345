"""Looks for examples that show that a job's own aggregate depends on how its events are spread over agents."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from elf.job_aggregate import AggregateError, JobAggregate, is_rigid
from elf.program.aggregates import StateCodec
from elf.program.code import CodeError, one_line, trace

SIMPLE: Mapping[str, tuple[Any, ...]] = {
    "int": (3, 1, -2, 1),
    "str": ("b", "a", "", "b"),
    "float": (2.5, 0.25, -1.0, 2.5),
    "bool": (True, False, True, True),
}
"""Simple values of each kind, on which an aggregate without examples is tried: of all kinds for each of its arguments,
or of the one with which `lift` annotates it."""
KINDS_MAX = 64
"""Upper bound on the combinations of kinds of arguments that are tried."""
HINT = "; where it is not for such values, give some as examples: tuples of lift's arguments"
_RELATIVE_ERROR = 1e-9

Values = Sequence[tuple[Any, ...]]


def check_aggregate(name: str, kind: type[JobAggregate]) -> None:
    """Tries a job's own aggregate on its examples, or on simple values of the kinds that its `lift` takes. Raises
    CodeError, with the example, where its code raises, makes what cannot be kept, or `combine` is not commutative or
    not associative; without one its results are tried alone. Finding no example proves nothing.

    >>> class Last(JobAggregate):
    ...     lift = lambda self, value: value
    ...     combine = lambda self, one, other: other
    >>> check_aggregate("LAST_ONE", Last)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    elf.program.code.CodeError: LAST_ONE: combine is not commutative: combine(3, 1) is 1, combine(1, 3) is 3...
    """
    trial = _Trial(name, kind)
    if kind.examples:
        trial.run([tuple(one) for one in kind.examples])
        return
    unfit: list[_UnfitError] = []
    kinds = list(islice(_simple(trial.kinds), KINDS_MAX))
    for values in kinds:
        try:
            trial.run(values)
        except _UnfitError as error:
            unfit.append(error)
    if len(unfit) == len(kinds):
        raise CodeError(f"{unfit[0]}{HINT}", unfit[0].text)


def _simple(kinds: Sequence[Sequence[str]]) -> Iterator[Values]:
    for combined in product(*kinds):
        # Different arguments do not repeat at the same events.
        values = [SIMPLE[kind] for kind in combined]
        shifted = [one[number % 2 :] + one[: number % 2] for number, one in enumerate(values)]
        yield list(zip(*shifted, strict=True))


class _UnfitError(CodeError):
    """The values of an event are of kinds that the aggregate does not take."""


class _Trial:
    def __init__(self, name: str, kind: type[JobAggregate]) -> None:
        self._name = name
        self._gives = kind.gives
        self._hint = "" if kind.examples else HINT
        self._codec = StateCodec(name)
        self._is_rigid = is_rigid(kind)
        try:
            self._aggregate = kind()
            self.kinds = _kinds(self._aggregate)
        except Exception as error:
            raise CodeError(f"{name}: it cannot be made: {one_line(error)}", trace(error)) from None

    def run(self, values: Values) -> None:
        """Tries the laws on the states of some values. Raises CodeError."""
        if self._is_rigid:
            self._run_rigid(values)
            return
        states = [self._tried(f"lift{_shown(one)}", self._aggregate.lift, *one) for one in values]
        for one in states:
            self._lowered(one)
        for one, other in product(states, repeat=2):
            self._same(
                "commutative",
                (self._combined(one, other), f"combine({self._text(one)}, {self._text(other)})"),
                (self._combined(other, one), f"combine({self._text(other)}, {self._text(one)})"),
            )
        for one, other, third in product(states, repeat=3):
            a, b, c = map(self._text, (one, other, third))
            self._same(
                "associative",
                (self._combined(self._combined(one, other), third), f"combine(combine({a}, {b}), {c})"),
                (self._combined(one, self._combined(other, third)), f"combine({a}, combine({b}, {c}))"),
            )

    def _run_rigid(self, values: Values) -> None:
        """Tries the results of the first of some values, of the first two, and so on. Raises CodeError."""
        for count in range(1, len(values) + 1):
            calls = [f"lift{_shown(one)}" for one in values[:count]]
            tried = zip(calls, values[:count], strict=True)
            states = [self._called(call, self._aggregate.lift, *one) for call, one in tried]
            self._result(f"lower([{', '.join(calls)}])", states)

    def _combined(self, one: bytes, other: bytes) -> bytes:
        states = self._codec.decode(one), self._codec.decode(other)
        return self._tried(f"combine({self._text(one)}, {self._text(other)})", self._aggregate.combine, *states)

    def _lowered(self, state: bytes) -> str:
        return self._result(f"lower({self._text(state)})", self._codec.decode(state))

    def _result(self, call: str, state: Any) -> str:
        try:
            return self._codec.result(self._aggregate.lower(state), self._gives)
        except AggregateError as error:
            raise _UnfitError(f"{error}: {call}") from None
        except Exception as error:
            raise self._failed(call, error) from None

    def _tried(self, call: str, code: Any, *arguments: Any) -> bytes:
        """The state that a call gives, encoded."""
        state = self._called(call, code, *arguments)
        try:
            return self._codec.encode(state)
        except AggregateError as error:
            raise self._failed(call, error) from None

    def _called(self, call: str, code: Any, *arguments: Any) -> Any:
        try:
            return code(*arguments)
        except Exception as error:
            raise self._failed(call, error) from None

    def _failed(self, call: str, error: Exception) -> CodeError:
        if isinstance(error, AggregateError):
            return CodeError(f"{error}: {call}")
        kind = _UnfitError if isinstance(error, TypeError | ValueError | AttributeError) else CodeError
        return kind(f"{self._name}: {call} fails: {one_line(error)}", trace(error))

    def _same(self, law: str, one: tuple[bytes, str], other: tuple[bytes, str]) -> None:
        """Raises CodeError unless two states are alike, or their results are."""
        (state, how), (second, other_way) = one, other
        if state == second or _alike(self._codec.decode(state), self._codec.decode(second)):
            return
        if self._lowered(state) == self._lowered(second):
            return
        raise CodeError(
            f"{self._name}: combine is not {law}: {how} is {self._text(state)}, {other_way} is {self._text(second)}"
            f"{self._hint}"
        )

    def _text(self, state: bytes) -> str:
        text = repr(self._codec.decode(state))
        return text if len(text) <= 60 else f"{text[:59]}…"


def _kinds(aggregate: JobAggregate) -> list[Sequence[str]]:
    """The kinds of values to try for each argument that `lift` names, or for one."""
    parameters = inspect.signature(aggregate.lift).parameters.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    annotated = [str(getattr(one.annotation, "__name__", one.annotation)).strip("'\"") for one in named] or [""]
    return [(one,) if one in SIMPLE else tuple(SIMPLE) for one in annotated]


def _shown(values: tuple[Any, ...]) -> str:
    return f"({', '.join(map(repr, values))})"


def _alike(one: Any, other: Any) -> bool:
    """Whether two states are equal, but for the rounding of doubles."""
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and (math.isclose(one, other, rel_tol=_RELATIVE_ERROR) or (one != one and other != other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(value, other[key]) for key, value in one.items())
    return bool(one == other)
