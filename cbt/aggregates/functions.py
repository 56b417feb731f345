"""The aggregate functions by name: the PAO of each, the types it takes and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import cast

from cbt.aggregates.collection import Collection
from cbt.aggregates.distinct import DistinctCount
from cbt.aggregates.extremes import BoolAnd, BoolOr, Extreme, Occurrence
from cbt.aggregates.histogram import REACH_MAX, Histogram
from cbt.aggregates.moments import IntegerVariance, NumberVariance
from cbt.aggregates.program_states import ProgramStates
from cbt.aggregates.sums import IntegerAverage, IntegerSum, NumberAverage, NumberSum
from cbt.aggregates.user_defined import UserFunctions
from cbt.algebra.columns import Aggregate
from cbt.algebra.items import ItemPao
from cbt.algebra.pao import CountRows, CountValues, Pao
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.hll import HllSketch
from cbt.sketches.kll import KllSketch

Maker = Callable[[Aggregate], Pao | ItemPao]

_ANY = ("any", "number", "integer", "string", "boolean")
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, slots=True)
class PaoParameter:
    """A constant parameter of a function, and the kind of value it accepts."""

    name: str
    kind: str
    required: bool = False


_KINDS: dict[str, tuple[type, ...]] = {
    "a whole number": (int,),
    "a number": (int, float),
    "a number or a tuple of numbers": (int, float, tuple),
}


@dataclass(frozen=True, slots=True)
class PaoFunction:
    """One aggregate function: `make` gives its PAO, `types` are those that its argument may have."""

    make: Maker
    types: tuple[str, ...]
    parameters: tuple[PaoParameter, ...] = ()


def _count(aggregate: Aggregate) -> Pao:
    return CountRows(aggregate.name) if aggregate.argument is None else CountValues(aggregate.name)


def _sum(aggregate: Aggregate) -> Pao:
    return IntegerSum(aggregate.name) if aggregate.type == "integer" else NumberSum(aggregate.name)


def _average(aggregate: Aggregate) -> Pao:
    return IntegerAverage(aggregate.name) if aggregate.type == "integer" else NumberAverage(aggregate.name)


def _variance(*, sample: bool, deviation: bool) -> Maker:
    def make(aggregate: Aggregate) -> Pao:
        variance = IntegerVariance if aggregate.type == "integer" else NumberVariance
        return variance(aggregate.name, sample=sample, deviation=deviation)

    return make


def _sketch(sketch: Callable[..., ItemPao]) -> Maker:
    return lambda aggregate: sketch(aggregate.name, aggregate.type, *aggregate.parameters)


def _histogram(aggregate: Aggregate) -> ItemPao:
    buckets, *reach = aggregate.parameters
    if isinstance(buckets, tuple):
        return Histogram(aggregate.name, aggregate.type, bounds=buckets)
    return Histogram(
        aggregate.name, aggregate.type, width=buckets, reach=int(cast("int", reach[0])) if reach else REACH_MAX
    )


FUNCTIONS: Mapping[str, PaoFunction] = {
    "count": PaoFunction(_count, _ANY),
    "sum": PaoFunction(_sum, _NUMBERS),
    "avg": PaoFunction(_average, _NUMBERS),
    "min": PaoFunction(lambda a: Extreme(a.name, a.type, greatest=False), _ANY),
    "max": PaoFunction(lambda a: Extreme(a.name, a.type, greatest=True), _ANY),
    "variance": PaoFunction(_variance(sample=True, deviation=False), _NUMBERS),
    "var_samp": PaoFunction(_variance(sample=True, deviation=False), _NUMBERS),
    "var_pop": PaoFunction(_variance(sample=False, deviation=False), _NUMBERS),
    "stddev": PaoFunction(_variance(sample=True, deviation=True), _NUMBERS),
    "stddev_samp": PaoFunction(_variance(sample=True, deviation=True), _NUMBERS),
    "stddev_pop": PaoFunction(_variance(sample=False, deviation=True), _NUMBERS),
    "first": PaoFunction(lambda a: Occurrence(a.name, a.type, latest=False), _ANY),
    "last": PaoFunction(lambda a: Occurrence(a.name, a.type, latest=True), _ANY),
    "bool_and": PaoFunction(lambda a: BoolAnd(a.name), ("boolean",)),
    "every": PaoFunction(lambda a: BoolAnd(a.name), ("boolean",)),
    "bool_or": PaoFunction(lambda a: BoolOr(a.name), ("boolean",)),
    "collect": PaoFunction(_sketch(Collection), _ANY, (PaoParameter("most", "a whole number", required=True),)),
    "collect_set": PaoFunction(
        _sketch(partial(Collection, distinct=True)), _ANY, (PaoParameter("most", "a whole number", required=True),)
    ),
    "count_distinct": PaoFunction(_sketch(DistinctCount), _ANY, (PaoParameter("most", "a whole number"),)),
    "of_program": PaoFunction(
        lambda a: ProgramStates(a.name, int(cast("int", a.parameters[0])), timed=any(a.parameters[1:])),
        ("string",),
        (
            PaoParameter("number of the result's type", "a whole number", required=True),
            PaoParameter("1 where values keep the times of their events", "a whole number"),
        ),
    ),
    "histogram": PaoFunction(
        _histogram,
        _NUMBERS,
        (
            PaoParameter("width or bounds", "a number or a tuple of numbers", required=True),
            PaoParameter("reach", "a whole number"),
        ),
    ),
    "approx_count_distinct": PaoFunction(_sketch(HllSketch), _ANY, (PaoParameter("lg_k", "a whole number"),)),
    "approx_percentile": PaoFunction(
        _sketch(KllSketch),
        _NUMBERS,
        (PaoParameter("p", "a number", required=True), PaoParameter("k", "a whole number")),
    ),
    "approx_top_k": PaoFunction(
        _sketch(FrequentItems),
        _ANY,
        (PaoParameter("top", "a whole number"), PaoParameter("max_items_tracked", "a whole number")),
    ),
}


def pao_of(aggregate: Aggregate, functions: UserFunctions | None = None) -> Pao | ItemPao:
    """The PAO of an aggregate, whose function is built in or one of `functions`.

    Raises ValueError for an unknown function, or for one that does not take the aggregate's type or parameters.

    >>> sorted(pao_of(Aggregate("a", "bool_or", "x", "boolean")).state)
    ['a.b']
    >>> pao_of(Aggregate("a", "sum", "x", "string"))
    Traceback (most recent call last):
    ValueError: aggregate 'a': there is no sum of string
    """
    name = aggregate.function
    if name in FUNCTIONS:
        function = FUNCTIONS[name]
        if aggregate.type not in function.types:
            raise _unknown(aggregate)
        _check_parameters(aggregate, function.parameters)
        return function.make(aggregate)
    if functions is None or name not in functions:
        raise _unknown(aggregate)
    _check_parameters(aggregate, ())
    wanted = functions.argument_type(name)
    if wanted not in ("any", aggregate.type) and (wanted, aggregate.type) != ("number", "integer"):
        raise ValueError(f"aggregate {aggregate.name!r}: {name} takes {wanted}, not {aggregate.type}")
    return functions.pao(name, aggregate.name)


def _unknown(aggregate: Aggregate) -> ValueError:
    return ValueError(f"aggregate {aggregate.name!r}: there is no {aggregate.function} of {aggregate.type}")


def _check_parameters(aggregate: Aggregate, parameters: tuple[PaoParameter, ...]) -> None:
    given = aggregate.parameters
    least = sum(parameter.required for parameter in parameters)
    if not least <= len(given) <= len(parameters):
        names = ", ".join(f"{one.name}{'' if one.required else '?'}" for one in parameters) or "none"
        raise ValueError(
            f"aggregate {aggregate.name!r}: {aggregate.function} has {len(given)} parameters; it takes {names}"
        )
    for parameter, value in zip(parameters, given, strict=False):
        numbers = value if isinstance(value, tuple) else (value,)
        if type(value) not in _KINDS[parameter.kind] or not all(map(_is_number, numbers)):
            raise ValueError(
                f"aggregate {aggregate.name!r}: {parameter.name} of {aggregate.function} is {value!r}, "
                f"not {parameter.kind}"
            )


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and isfinite(value))
