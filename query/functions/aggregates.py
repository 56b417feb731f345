"""The aggregate functions of ELF QL: one table for the parser of calls, for plans off the wire and for people.

A new aggregate is a new row. The `function` of a row names the function of `cbt` that keeps and merges its states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, log2, sqrt
from typing import TYPE_CHECKING, TypeAlias

from query.model.types import TypeMismatchError, family

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Parameters: TypeAlias = tuple[int | float, ...]
"""The constants of a call, with defaults filled in."""

DISTINCT_MAX = 65_536
"""Number of different values of a group up to which COUNT(DISTINCT) is exact."""
COLLECTED_MAX = 10_000
REACH = 10_000
"""Number of buckets of a width to each side of 0; values beyond are in one bucket without an end."""
WIDE_MAX = 100
"""Upper bound on the aggregates of a query that keep many states of each group."""
_BOUNDS_MAX = 1_000
_TRACKED_MAX = 1_000_000
_DEVIATIONS_OF_99_PERCENT = 2.576


class ParameterError(Exception):
    """A function does not accept its constants. `number`: the place of the wrong argument, from 0."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class AggregateParameter:
    """A constant from `low` to `high` after the first argument; `default` applies if it is left out."""

    name: str
    low: float
    high: float
    default: float | None = None
    whole: bool = True

    def check(self, value: object, number: int) -> None:
        """Raises ParameterError for any value that is not allowed."""
        kind = "a whole number" if self.whole else "a number"
        fits = type(value) is int or (not self.whole and type(value) is float and isfinite(value))
        if not (fits and isinstance(value, int | float) and self.low <= value <= self.high):
            between = f" from {self.low:,} to {self.high:,}" if isfinite(self.high) else ""
            raise ParameterError(f"{self.name} is {kind}{between}", number)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One aggregate: NAME(x), NAME(x, parameters) or, if `distinct`, NAME(DISTINCT x).

    `takes`: "any" value, any but times ("no time"), or the one type that x must have. `gives`: the type of its results,
    "argument" for that of x. `function` of `arguments`(parameters) computes it. `nothing` is its result of no values.
    `timed`: it reads the time of events. `wide`: it keeps many states of a group: a set or a sketch. `error`, of the
    parameters, bounds the error of results in 99 of 100 cases, as a part `of` something; None if they are exact.
    `is_of_job`: a job's own code computes it, of any number of arguments. `is_rigid`: of all rows of a group together.
    `limit` is the text shown where a group has more values than are kept, and `limited_error` the error then. `example`
    is an expression over the events of docs/elf-ql-aggregates.md.
    """

    name: str
    takes: str
    gives: str
    function: str
    doc: str
    example: str
    distinct: bool = False
    parameters: tuple[AggregateParameter, ...] = ()
    arguments: Callable[[Parameters], tuple[float | tuple[float, ...], ...]] = tuple
    check: Callable[[Parameters], None] | None = None
    repeats: bool = False
    timed: bool = False
    wide: bool = False
    nothing: int | None = None
    is_of_job: bool = False
    is_rigid: bool = False
    error: Callable[[Parameters], float] | None = None
    of: str = ""
    limit: Callable[[Parameters], str] | None = None
    limited_error: float | None = None

    @property
    def key(self) -> str:
        """The name in AGGREGATES and, in small letters, in plans."""
        if self.is_of_job:
            return f"{self.name}:{self.gives.upper()}{':RIGID' if self.is_rigid else ''}"
        return f"{self.name} DISTINCT" if self.distinct else self.name

    @property
    def signature(self) -> str:
        """The written form of a call."""
        required = "".join(f", {one.name}" for one in self.parameters if one.default is None)
        optional = "".join(f" [, {one.name}]" for one in self.parameters if one.default is not None)
        more = ", ..." if self.repeats else ""
        return f"{self.name}({'DISTINCT ' if self.distinct else ''}x{required}{optional}{more})"

    def result_type(self, argument_type: str) -> str:
        """The type of its results; raises TypeMismatchError when it cannot take such an argument."""
        takes = {"no time": argument_type != "timestamp", "any": True}
        if not takes.get(self.takes, self.takes == family(argument_type)):
            raise TypeMismatchError(f"{self.key} has no meaning for {argument_type}")
        return argument_type if self.gives == "argument" else self.gives

    def complete(self, given: tuple[object, ...]) -> Parameters:
        """The parameters of a call with these constants, with defaults for the rest; raises ParameterError."""
        least = sum(one.default is None for one in self.parameters)
        most = _BOUNDS_MAX if self.repeats else len(self.parameters)
        if not least <= len(given) <= most:
            raise ParameterError(f"{self.key} is written {self.signature}", 0)
        complete: list[int | float] = []
        for number, value in enumerate(given):
            self.parameters[min(number, len(self.parameters) - 1)].check(value, number + 1)
            assert isinstance(value, int | float)
            complete.append(value)
        complete += [one.default for one in self.parameters[len(given) :] if one.default is not None]
        if self.check is not None:
            self.check(tuple(complete))
        return tuple(complete)


def aggregate_type(function: str, argument_type: str) -> str:
    """The type of an aggregate's result; raises TypeMismatchError when it cannot take such an argument.

    >>> aggregate_type("SUM", "integer"), aggregate_type("COUNT DISTINCT", "string")
    ('integer', 'integer')
    """
    return aggregate_function(function).result_type(argument_type)


def _ascending(bounds: Parameters) -> None:
    if len(bounds) == 1 and bounds[0] <= 0:
        raise ParameterError("the width of a bucket is above 0", 1)
    for number, (one, other) in enumerate(pairwise(bounds)):
        if float(one) >= float(other):
            raise ParameterError("the bounds of buckets ascend", number + 2)


def _few_of_tracked(parameters: Parameters) -> None:
    k, tracked = parameters
    if k > tracked:
        raise ParameterError(f"the {k:,} most frequent values are found among {k:,} tracked ones at least", 2)


def _width_or_bounds(parameters: Parameters) -> tuple[float | tuple[float, ...], ...]:
    return (parameters[0], REACH) if len(parameters) == 1 else (parameters,)


def _rank_error(k: float) -> float:
    return float(2.296 / k**0.9723)


def _frequency_error(tracked: float) -> float:
    return 1 / (int(0.75 * 2 ** max(3, ceil(log2(tracked / 0.75)))) + 1)


_K = AggregateParameter("k", 8, 65_535, 200)
_MOST = AggregateParameter("n", 1, COLLECTED_MAX, 100)
_TRACKED = AggregateParameter("tracked", 1, _TRACKED_MAX, 10_000)
_ROWS = (
    AggregateFunction(
        "COUNT", "any", "integer", "count", "how many values there are, with `*` how many events", "COUNT(*)",
        nothing=0,
    ),
    AggregateFunction(
        "COUNT", "any", "integer", "count_distinct", "how many different values there are", "COUNT(DISTINCT user)",
        distinct=True, wide=True, nothing=0, arguments=lambda _: (DISTINCT_MAX,),
        limit=lambda _: f"exact up to {DISTINCT_MAX:,} values of a group; of more it estimates how many",
        limited_error=_DEVIATIONS_OF_99_PERCENT / sqrt(DISTINCT_MAX - 1),
    ),
    AggregateFunction("SUM", "number", "argument", "sum", "their sum, rounded once at its end", "SUM(ms)"),
    AggregateFunction("AVG", "number", "number", "avg", "their mean", "AVG(ms)"),
    AggregateFunction("MIN", "any", "argument", "min", "the least value", "MIN(ms)"),
    AggregateFunction("MAX", "any", "argument", "max", "the greatest value", "MAX(ms)"),
    AggregateFunction("ANY_VALUE", "any", "argument", "min", "some value: always the least", "ANY_VALUE(user)"),
    AggregateFunction(
        "FIRST", "any", "argument", "first", "the value of the earliest event that has one; of several at that time "
        "the least", "FIRST(path)", timed=True,
    ),
    AggregateFunction(
        "LAST", "any", "argument", "last", "the value of the latest event that has one; of several at that time the "
        "greatest", "LAST(path)", timed=True,
    ),
    AggregateFunction(
        "VARIANCE", "number", "number", "variance", "the variance of a sample; NULL of one value", "VARIANCE(ms)"
    ),
    AggregateFunction("VAR_SAMP", "number", "number", "var_samp", "the same as VARIANCE", "VAR_SAMP(ms)"),
    AggregateFunction("VAR_POP", "number", "number", "var_pop", "the variance of a population", "VAR_POP(ms)"),
    AggregateFunction(
        "STDDEV", "number", "number", "stddev", "the standard deviation of a sample; NULL of one value", "STDDEV(ms)"
    ),
    AggregateFunction("STDDEV_SAMP", "number", "number", "stddev_samp", "the same as STDDEV", "STDDEV_SAMP(ms)"),
    AggregateFunction(
        "STDDEV_POP", "number", "number", "stddev_pop", "the standard deviation of a population", "STDDEV_POP(ms)"
    ),
    AggregateFunction("BOOL_AND", "boolean", "boolean", "bool_and", "whether all are true", "BOOL_AND(ms < 100)"),
    AggregateFunction("BOOL_OR", "boolean", "boolean", "bool_or", "whether any is true", "BOOL_OR(ms < 100)"),
    AggregateFunction("EVERY", "boolean", "boolean", "every", "the same as BOOL_AND", "EVERY(ms < 100)"),
    AggregateFunction(
        "APPROX_COUNT_DISTINCT", "any", "integer", "approx_count_distinct",
        "about how many different values there are (HyperLogLog with 2^lg_k registers)", "APPROX_COUNT_DISTINCT(user)",
        wide=True, parameters=(AggregateParameter("lg_k", 4, 21, 12),), nothing=0,
        error=lambda parameters: _DEVIATIONS_OF_99_PERCENT * 1.04 / sqrt(2 ** parameters[0]), of="of the count",
    ),
    AggregateFunction(
        "APPROX_QUANTILE", "number", "argument", "approx_percentile",
        "the least value that about the part q of all values do not exceed, q from 0 to 1 (KLL)",
        "APPROX_QUANTILE(ms, 0.95)", wide=True, parameters=(AggregateParameter("q", 0, 1, whole=False), _K),
        error=lambda parameters: _rank_error(parameters[1]), of="of all values, in rank",
    ),
    AggregateFunction(
        "APPROX_PERCENTILE", "number", "argument", "approx_percentile", "the same as APPROX_QUANTILE",
        "APPROX_PERCENTILE(ms, 0.95)", wide=True, parameters=(AggregateParameter("q", 0, 1, whole=False), _K),
        error=lambda parameters: _rank_error(parameters[1]), of="of all values, in rank",
    ),
    AggregateFunction(
        "APPROX_MEDIAN", "number", "argument", "approx_percentile", "APPROX_QUANTILE(x, 0.5)", "APPROX_MEDIAN(ms)",
        wide=True, parameters=(_K,), arguments=lambda parameters: (0.5, *parameters),
        error=lambda parameters: _rank_error(parameters[0]), of="of all values, in rank",
    ),
    AggregateFunction(
        "APPROX_TOP_K", "no time", "string", "approx_top_k",
        "the k most frequent values of those tracked, as JSON: `[[value, count, error], ...]`; each count is too high "
        "by its error at most", "APPROX_TOP_K(path, 2)",
        wide=True, parameters=(AggregateParameter("k", 1, 10_000, 5), _TRACKED),
        check=_few_of_tracked,
        error=lambda parameters: _frequency_error(parameters[1]), of="of all values, in count",
    ),
    AggregateFunction(
        "HISTOGRAM", "number", "string", "histogram",
        "how many values are in each bucket `low <= x < high`, as JSON: `[[low, high, count], ...]`, without empty "
        "ones; buckets are of one width or, of several numbers, between these", "HISTOGRAM(ms, 100)",
        wide=True, parameters=(AggregateParameter("width", float("-inf"), float("inf"), whole=False),), repeats=True,
        check=_ascending, arguments=_width_or_bounds,
    ),
    AggregateFunction(
        "COLLECT", "no time", "string", "collect",
        "the first n values by the time of their events, those of one time in the order of MIN, as JSON: "
        "`[value, ...]`",
        "COLLECT(path, 3)", wide=True, parameters=(_MOST,), timed=True,
        limit=lambda parameters: f"the first {parameters[0]:,} values of a group; others are left out",
    ),
    AggregateFunction(
        "COLLECT_SET", "no time", "string", "collect_set", "the n least different values, as JSON: `[value, ...]`",
        "COLLECT_SET(path, 3)", wide=True, parameters=(_MOST,),
        limit=lambda parameters: f"the least {parameters[0]:,} values of a group; others are left out",
    ),
    AggregateFunction(
        "COLLECT", "no time", "string", "collect_set", "the same as COLLECT_SET", "COLLECT(DISTINCT path, 3)",
        distinct=True, wide=True, parameters=(_MOST,),
        limit=lambda parameters: f"the least {parameters[0]:,} values of a group; others are left out",
    ),
)  # fmt: skip
AGGREGATES: Mapping[str, AggregateFunction] = {row.key: row for row in _ROWS}

RESULT_TYPES = ("number", "integer", "string", "boolean")
"""The types of results of aggregates that a job's own code computes."""
RIGID = ":rigid"
"""Ending of the type of results of a rigid one, whose states do not combine."""
_OF_JOBS = re.compile(rf"([A-Z_][A-Z0-9_]{{0,62}}):((?:{'|'.join(RESULT_TYPES)})(?:{RIGID})?)", re.IGNORECASE)


def is_aggregate(key: str) -> bool:
    """Whether there is an aggregate of this key, or there may be one in the code of a job.

    >>> is_aggregate("SUM"), is_aggregate("TOP_SPENDERS:STRING"), is_aggregate("TOP_SPENDERS")
    (True, True, False)
    """
    return key in AGGREGATES or _OF_JOBS.fullmatch(key) is not None


def aggregate_function(key: str) -> AggregateFunction:
    """The aggregate of a key. Raises KeyError unless it `is_aggregate`.

    >>> aggregate_function("TOP_SPENDERS:STRING").gives
    'string'
    """
    found = _OF_JOBS.fullmatch(key)
    return AGGREGATES[key] if found is None else aggregate_of_job(found[1].upper(), found[2].lower())


def aggregate_of_job(name: str, gives: str) -> AggregateFunction:
    """An aggregate that a job's own code computes: its name in capitals, and the type of its results, with `RIGID`
    after it where it is rigid."""
    is_rigid, gives = gives.endswith(RIGID), gives.removesuffix(RIGID)
    parameters = (RESULT_TYPES.index(gives), *((1,) if is_rigid else ()))
    return AggregateFunction(
        name, "any", gives, "of_program", "computed by the job's own code", f"{name}(x)",
        wide=True, timed=is_rigid, is_of_job=True, is_rigid=is_rigid, arguments=lambda _: parameters,
    )  # fmt: skip
