"""Readers that merge the states of windows show, to the last byte, what they show when they read the rows as JSON."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_fleet import WALL_MS, Fleet
from recording_client import client_of
from stage_reading import feed, fitting, reading

import query
from agent import PublishedWindow, StreamOptions, WindowResult
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.nested_states import NestedStates
from agent.runtime.ingest.panes import taken_states
from agent.runtime.model.panes import FIRST_PANE

STREAMS = {"buys": StreamOptions("beginning")}
SECONDS = 12
NESTED = {
    "COUNT(*)": "SUM({})",
    "SUM(stars)": "SUM({})",
    "MIN(price)": "MIN({})",
    "MAX(price)": "MAX({})",
    "MAX(any)": "MAX({})",
    "ANY_VALUE(any)": "MIN({})",
    "MIN(product)": "ANY_VALUE({})",
    "BOOL_AND(stars > 2)": "BOOL_AND({})",
    "BOOL_OR(stars > 3)": "BOOL_OR({})",
}
"""Aggregates of events, and what nests over them."""
AGAIN = {
    "SUM": "SUM({})",
    "MIN": "MIN({})",
    "MAX": "MAX({})",
    "ANY_": "MIN({})",
    "BOOL_AND": "EVERY({})",
    "EVERY": "BOOL_AND({})",
    "BOOL_OR": "BOOL_OR({})",
}
"""Aggregates of rows, by how they begin, and what nests over them."""
KEYS = ("product", "UPPER(product)", "any", "LENGTH(any)", "stars")
Shown = dict[tuple[str, str | None, str | None], bytes]


@dataclass(frozen=True)
class Chain:
    """Queries of which each reads the one before, and the seed of the log and of what is read as states."""

    queries: tuple[str, ...]
    seed: int


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Two or three queries whose aggregates nest, by keys that are the same or coarser."""
    first = [draw(st.sampled_from([*NESTED])) for _ in "nm"]
    keys = draw(st.lists(st.sampled_from(("product", "any", "stars")), min_size=1, max_size=2, unique=True))
    limit = draw(st.sampled_from(("", "", " LIMIT 3")))
    queries = [
        f"SELECT {', '.join(keys)}, {first[0]} AS n, {first[1]} AS m FROM buys GROUP BY {', '.join(keys)}{limit}"
    ]
    queries[0] += (
        f" WINDOWING {draw(st.sampled_from(('1 SECONDS', '2 SECONDS EVERY 1 SECONDS', '2 SECONDS, 1 SECONDS')))}"
    )
    again = [NESTED[one] for one in first]
    for number in range(draw(st.integers(1, 2))):
        by = [
            key for key in draw(st.lists(st.sampled_from(KEYS), max_size=2, unique_by=_column)) if _column(key) in keys
        ]
        shown = [f"{key} AS {_column(key)}" if key != _column(key) else key for key in by] or ["'all' AS whole"]
        texts = [text.format(name) for text, name in zip(again, "nm", strict=True)]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        size = draw(
            st.sampled_from(("4 SECONDS", "2 SECONDS", "3 SECONDS EVERY 1 SECONDS", "4 SECONDS EVERY 2 SECONDS"))
        )
        text = f"SELECT {', '.join(shown)}, {texts[0]} AS n, {texts[1]} AS m FROM app('stage-{number}')"
        queries.append(f"{text}{group} WINDOWING {size}")
        keys = [_column(key) for key in by]
        again = [next(over for begin, over in AGAIN.items() if text.startswith(begin)) for text in texts]
        if not keys:
            break
    return Chain(tuple(queries), draw(st.integers(0, 2**16)))


def _column(key: str) -> str:
    return key.removeprefix("UPPER(").removeprefix("LENGTH(").removesuffix(")")


def log_of(seed: int) -> list[pl.DataFrame]:
    """Events in the order of time, in frames whose values of no fixed type are of one type each, as parsers do it."""
    dice = random.Random(seed)
    frames = []
    prices = dice.choice(((1, 2, 3), (0.1, 2.5, 7.0), (2.5, 0.1 + 0.2), (1e15, 2.0), (3, 2**53 + 1), (0.5, -0.0)))
    for values in (["a", 'q"\\', "é"], [1, 2, 2**53 + 1], [0.5, 3.0, 0.1 + 0.2], [True, False]):
        times = sorted(dice.randrange(SECONDS * 1000) for _ in range(12))
        rows = [
            (
                WALL_MS + 4000 + at,
                dice.choice(("a", "b", "B", None)),
                dice.randrange(5),
                float(dice.choice(prices)),
                dice.choice(values),
            )
            for at in times
        ]
        schema = {"@time": pl.Int64, "product": pl.String, "stars": pl.Int64, "price": pl.Float64, "any": None}
        frame = pl.DataFrame(rows, schema, orient="row")
        whole = all(float(price).is_integer() for price in prices)
        frames.append(frame.with_columns(pl.col("price").cast(pl.Int64)) if whole and dice.random() < 0.8 else frame)
    return frames


def closing(log: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """An event by which all windows of a log close."""
    return log[0][-1:].with_columns(pl.lit(WALL_MS + 60_000, dtype=pl.Int64).alias("@time"))


def show(chain: Chain, log: Sequence[pl.DataFrame]) -> tuple[Shown, int]:
    """What the queries show on one agent that reads a log, and the number of rows that were taken as states."""
    fleet = Fleet(1, streams=STREAMS)
    for number, text in enumerate(chain.queries):
        fleet.submit(text, f"stage-{number}", bounded=False)
        fleet.wait(1.5)
    fleet.wait_long(2.0)
    for begin in range(0, SECONDS, 2):
        first = WALL_MS + 4000 + begin * 1000
        for frame in log:
            feed(fleet, fleet.agents[0], frame.filter(pl.col("@time").is_between(first, first + 2000, closed="left")))
        fleet.wait(0.5)
    feed(fleet, fleet.agents[0], closing(log))
    fleet.wait_long(6.0)
    return shown_in(fleet.results), sum(job.read.rows_as_states for job in fleet.agents[0].status().jobs)


def shown_in(results: Sequence[WindowResult]) -> Shown:
    """The windows as JSON, without what tells of the way of their rows."""
    found: Shown = {}
    for one in results:
        key = (one.app, one.window_start, one.window_end)
        assert key not in found, f"a window twice: {key}"
        found[key] = msgspec.json.encode(msgspec.json.decode(one.to_bytes()) | {"epoch": 0})
    return found


def check(chain: Chain) -> int:
    log = log_of(chain.seed)
    with reading(as_json=True):
        expected, none = show(chain, log)
    assert none == 0
    with reading():
        found, taken = show(chain, log)
    assert found == expected
    with reading(dice=random.Random(chain.seed)):
        assert show(chain, log)[0] == expected
    return taken


@given(chains())
@settings(max_examples=2, suppress_health_check=list(HealthCheck), deadline=None)
def test_states_show_what_rows_show(chain: Chain) -> None:
    check(chain)


@pytest.mark.slow
@given(chains())
@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
def test_many_states_show_what_rows_show(chain: Chain) -> None:
    check(chain)


@given(chains())
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_queries_over_sub_queries_show_with_states_what_they_show_with_rows(chain: Chain) -> None:
    below, text = (text.partition(" WINDOWING")[0] for text in chain.queries[:2])
    text = text.replace("app('stage-0')", f"({below})")
    function = JobFunction(query.analyze(query.parse(text), {"buys": query.Schema({}, open=True)}))
    store = function.new_store()
    for frame in log_of(chain.seed):
        columns = [fitting(frame[one.field], one.type).alias(one.name) for one in function.columns_of("buys")]
        store.insert(function.select(function.in_range(frame.select("@time", *columns))))
    state = function.gather([one for one in store.flush() if one is not None])
    (found,) = function.finish_windows(state, [0]).values()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NestedStates, "taken", lambda *_: None)
        (expected,) = function.finish_windows(state, [0]).values()
    assert (msgspec.json.encode(list(found.rows)), *found[1:]) == (
        msgspec.json.encode(list(expected.rows)),
        *expected[1:],
    )


def test_counts_are_summed_as_states_to_the_end() -> None:
    first = "SELECT product, COUNT(*) AS n, MAX(stars) AS m FROM buys GROUP BY product WINDOWING 1 SECONDS"
    again = "SELECT product, SUM(n) AS n, MAX(m) AS m FROM app('stage-0') GROUP BY product"
    last = "SELECT SUM(n) AS n, MAX(m) AS m FROM app('stage-1') WINDOWING 2 SECONDS"
    assert check(Chain((first, f"{again} WINDOWING 4 SECONDS EVERY 1 SECONDS", last), 7)) > 30


COUNTS = "SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 1 SECONDS"


@pytest.mark.parametrize("as_json", [False, True])
def test_large_results_need_no_json_to_be_read_here(as_json: bool) -> None:
    chain = Chain((COUNTS, "SELECT product, AVG(n) AS n FROM app('stage-0') GROUP BY product WINDOWING 4 SECONDS"), 3)
    with reading(as_json=True):
        expected, _ = show(chain, log_of(chain.seed))
    with reading(as_json=as_json, are_late=True):
        assert show(chain, log_of(chain.seed))[0] == expected


def test_large_results_are_made_as_json_for_who_comes_later() -> None:
    fleet = Fleet(1, streams=STREAMS)
    made: list[bytes] = []
    with reading(are_late=True), pytest.MonkeyPatch.context() as patch:
        to_bytes = WindowResult.to_bytes
        patch.setattr(WindowResult, "to_bytes", lambda *given: made.append(to_bytes(*given)) or made[-1])
        key = fleet.submit(COUNTS, "counts", by=0, bounded=False)
        fleet.wait_long(2.0)
        for frame in log_of(5):
            feed(fleet, fleet.agents[0], frame)
        feed(fleet, fleet.agents[0], closing(log_of(5)))
        fleet.wait_long(3.0)
        assert len(fleet.results) > 5
        assert all(b'"rows":[]' in one for one in made)
        client_of(fleet.agents[0]).follow(key, FIRST_PANE, fleet.now)
        fleet.wait_long(1.0)
    shown = [bytes(one.result) for one in fleet.notices(0) if isinstance(one, PublishedWindow)]
    assert shown == [result.to_bytes() for result in fleet.results]


def test_rows_are_read_where_states_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain((COUNTS, "SELECT product, SUM(n) AS n FROM app('stage-0') GROUP BY product WINDOWING 4 SECONDS"), 4)
    expected, taken = show(chain, log_of(chain.seed))
    assert taken > 0
    monkeypatch.setattr(taken_states, "BYTES_MAX", 0)
    assert show(chain, log_of(chain.seed)) == (expected, 0)


def test_states_of_a_long_pane_are_merged_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_states, "WAITING_ROWS", 10)
    function = JobFunction(query.analyze(query.parse(COUNTS), {"buys": query.Schema({}, open=True)}))
    events = pl.DataFrame({"pane": [0, 0, 0], "k0": ["a", "b", None]})
    layout, states = function.store_layout, taken_states.TakenStates(function)
    assert layout is not None
    one = layout.lift(events)
    for _ in range(1000):
        states.add(0, one)
    assert states.rows(-1, 0) < 20
    assert states.memory_bytes < 20 * one.estimated_size()
    assert layout.lower(states.with_rest(one, -1, 0))["a0"].to_list() == [1001] * 3
    states.empty(0)
    assert (states.memory_bytes, states.rows(-1, 0)) == (0, 0)
