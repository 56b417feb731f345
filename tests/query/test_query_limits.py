"""What a query may hold: the limit itself is taken; one more, and ten times as much, are refused with the limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from query import QueryError, Schema, analyze, parse
from query.model.limits import (
    AGGREGATES_MAX,
    BRANCHES_OF_UNION_MAX,
    COLUMNS_MAX,
    DEPTH_MAX,
    QUERY_BYTES_MAX,
    ROWS_MAX,
    SUBQUERIES_MAX,
    TREES_MAX,
)

OPEN = {"web": Schema({}, open=True)}


def aggregates(count: int) -> str:
    sizes = [min(2_000, count - begun) for begun in range(0, count, 2_000)]
    lists = [f"MAX(a) IN ({', '.join(['1', *['MAX(a)'] * (size - 1)])})" for size in sizes]
    return f"SELECT {' OR '.join(lists)} FROM web"


def columns(count: int) -> str:
    names = [f"c{number}" for number in range(count)]
    return f"SELECT {' OR '.join(names[:500])} AS x, {' OR '.join(names[500:] or 'c')} AS y FROM web"


def sub_queries(count: int) -> str:
    text = "SELECT a FROM web"
    for _ in range(count):
        text = f"SELECT a FROM ({text})"
    return text


LIMITS: dict[str, tuple[int, Callable[[int], str], str]] = {
    "aggregates": (AGGREGATES_MAX, aggregates, "at most 4,000 aggregates"),
    "columns": (COLUMNS_MAX, columns, "more than 1,000 columns"),
    "LIMIT": (ROWS_MAX, lambda rows: f"SELECT a FROM web LIMIT {rows}", "may be at most 1,000,000"),
    "trees": (TREES_MAX, lambda n: f"SELECT a, COUNT(*) FROM web GROUP BY a TREES {n}", "a job has 1 to 64 trees"),
    "sub-queries": (SUBQUERIES_MAX, sub_queries, "at most 8 sub-queries"),
    "branches": (
        BRANCHES_OF_UNION_MAX,
        lambda n: f"SELECT a FROM ({' UNION ALL '.join(['SELECT a FROM web'] * n)})",
        "at most 16 queries",
    ),
    "depth": (DEPTH_MAX, lambda n: "SELECT " + "- " * (n - 1) + "a FROM web", "nested too deeply: more than 100"),
    "bytes": (QUERY_BYTES_MAX, lambda n: "SELECT a FROM web --".ljust(n, "x"), "at most 65,536 are allowed"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_taken_and_what_is_beyond_is_refused(name: str) -> None:
    most, written, message = LIMITS[name]
    analyze(parse(written(most)), OPEN)
    for beyond in (most + 1, 10 * most):
        with pytest.raises(QueryError) as caught:
            analyze(parse(written(beyond)), OPEN)
        assert message in str(caught.value) or beyond > most + 1, str(caught.value)[:300]
