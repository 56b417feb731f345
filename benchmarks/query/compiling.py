"""Measures the time from a query's text to its plan and Polars expressions, and the size of plans on the wire.

The queries are those of `tests/query/cases`.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import msgspec
import polars as pl

from benchmarks.environment import ROOT
from benchmarks.report import Comparison, within
from query import EventStage, Plan, ResultStage, Schema, analyze, parse

CASES = ROOT / "tests" / "query" / "cases"
FULL_ROUNDS, QUICK_ROUNDS = 5, 1
P99_TARGET_MS = 20.0
PLAN_BYTES_TARGET = 4_096
_DTYPES = {"integer": pl.Int64, "number": pl.Float64, "boolean": pl.Boolean, "timestamp": pl.Datetime("ms", "UTC")}


@dataclass(frozen=True, slots=True)
class Fixture:
    """A query of the tests, and the streams it may read."""

    query: str
    catalog: dict[str, Schema]


def fixtures() -> Iterator[Fixture]:
    """All of them, in the order of their files."""
    for path in sorted(CASES.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for case in content["cases"]:
            tables = content.get("tables", {}) | case.get("tables", {})
            catalog = {name: Schema(table["columns"], open=False) for name, table in tables.items()}
            yield Fixture(case["query"], catalog)


def encoded_bytes(plan: Plan) -> int:
    """The bytes of a plan as agents send it to each other."""
    return len(msgspec.msgpack.encode(plan.to_wire()))


def run(rounds: int) -> list[Comparison]:
    """The 99th of a hundred and the median, of all queries."""
    print("compiling", file=sys.stderr, flush=True)
    known = list(fixtures())
    plans = [analyze(parse(fixture.query), fixture.catalog) for fixture in known]
    to_plan_ms = [_plan_ms(fixture) for _ in range(rounds) for fixture in known]
    to_polars_ms = [_translation_ms(plan) for _ in range(rounds) for plan in plans]
    sizes = [float(encoded_bytes(plan)) for plan in plans]
    return [
        _line(f"text to plan, p99 of {len(known)} queries", _p99(to_plan_ms), "ms", P99_TARGET_MS),
        _line("text to plan, median", statistics.median(to_plan_ms), "ms"),
        _line("plan to Polars, p99", _p99(to_polars_ms), "ms", P99_TARGET_MS),
        _line("plan to Polars, median", statistics.median(to_polars_ms), "ms"),
        _line("largest plan", max(sizes), "B", PLAN_BYTES_TARGET),
        _line("median plan", statistics.median(sizes), "B"),
    ]


def _plan_ms(fixture: Fixture) -> float:
    begin = perf_counter()
    analyze(parse(fixture.query), fixture.catalog)
    return (perf_counter() - begin) * 1e3


def _translation_ms(plan: Plan) -> float:
    """From a plan to what an agent has for its first, empty, frame of events."""
    columns = {column.name: pl.Series([], dtype=_DTYPES.get(column.type, pl.String)) for column in plan.event_columns}
    frame = pl.DataFrame({"@time": pl.Series([], dtype=pl.Int64), **columns})
    begin = perf_counter()
    stage = EventStage(plan)
    ResultStage(plan)
    stage.apply(frame)
    return (perf_counter() - begin) * 1e3


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def _line(case: str, value: float, unit: str, target: float | None = None) -> Comparison:
    return within("query", f"compiling: {case}", value, unit, target)
