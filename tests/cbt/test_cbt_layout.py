"""The algebra on frames: what lift, combine and lower promise for all keys and aggregates."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt.layout.layout
from cbt import Aggregate, Key, Layout

FUNCTIONS = [("count", None, "any"), ("count", "x", "any")]
FUNCTIONS += [(function, "x", "number") for function in ("sum", "avg", "min", "max")]
AGGREGATES = [Aggregate(f"a{n}", *arguments) for n, arguments in enumerate(FUNCTIONS)]
AGGREGATES += [Aggregate("low", "min", "y", "any"), Aggregate("high", "max", "y", "any")]
KEYS = [Key("k", "any"), Key("s", "string")]
LAYOUT = Layout(KEYS, AGGREGATES, seed=7)

CELLS = st.sampled_from([None, True, 1, 1.0, -0.0, 2.5, "", "a", float("nan")])
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-999, 999).map(lambda cents: cents / 100)
ROWS = st.lists(st.tuples(st.integers(0, 2), CELLS, st.sampled_from([None, "", "b"]), NUMBERS, CELLS), max_size=12)
Row = tuple[int, object, str | None, float | None, object]


def frame(row: Row) -> pl.DataFrame:
    pane, k, s, x, y = row
    return pl.DataFrame({"pane": [pane], "k": [k], "s": [s], "x": [x], "y": [y]})


def lift(rows: list[Row]) -> pl.DataFrame:
    """Rows in frames of their own, since their physical types differ."""
    return LAYOUT.combine(LAYOUT.lift(frame(row)) for row in rows)


def same(left: pl.DataFrame, right: pl.DataFrame) -> bool:
    return left.schema == right.schema == LAYOUT.schema and left.equals(right, null_equal=True)


@given(ROWS, ROWS, ROWS)
def test_combine_is_associative_and_commutative(a: list[Row], b: list[Row], c: list[Row]) -> None:
    x, y, z = lift(a), lift(b), lift(c)
    together = LAYOUT.combine([x, y, z])
    assert same(LAYOUT.combine([LAYOUT.combine([x, y]), z]), together)
    assert same(LAYOUT.combine([x, LAYOUT.combine([y, z])]), together)
    assert same(LAYOUT.combine([z, y, x]), together)
    assert same(LAYOUT.combine([together]), together)


@given(ROWS)
def test_frames_are_ordered_and_have_one_row_a_key(rows: list[Row]) -> None:
    lifted = lift(rows)
    keys = lifted.select("pane", "hash", "k", "s").rows()
    assert [key[:2] for key in keys] == sorted(key[:2] for key in keys)
    assert len(set(keys)) == len(keys)
    assert same(lift(rows[::-1]), lifted)


@pytest.mark.parametrize("parts", [1, 3, 17])
def test_dealing_events_to_agents_changes_nothing(parts: int) -> None:
    events = pl.DataFrame(
        {
            "pane": [n % 2 for n in range(300)],
            "k": [n % 7 / 2 for n in range(300)],
            "s": [None if n % 5 == 0 else f"s{n % 3}" for n in range(300)],
            "x": [(n * 7919 % 1000) / 100 * 10.0 ** (n % 15 - 7) for n in range(300)],
            "y": [f"y{n % 11}" for n in range(300)],
        }
    )
    whole = LAYOUT.lift(events)
    dealt = LAYOUT.combine(LAYOUT.lift(events.gather_every(parts, offset)) for offset in range(parts))
    assert same(dealt, whole)
    assert LAYOUT.lower(dealt).equals(LAYOUT.lower(whole))


def test_equal_numbers_of_different_types_are_one_key() -> None:
    lifted = lift([(0, 1, "s", 1, None), (0, 1.0, "s", 1, None), (0, -0.0, "s", 1, None), (0, 0, "s", 1, None)])
    assert lifted.select("k", "a0.n").sort("k").rows() == [("0", 2), ("1", 2)]


def test_kinds_and_null_are_different_keys() -> None:
    lifted = lift([(0, key, None, None, None) for key in (1, "1", True, "true", None, "null", "")])
    assert lifted.height == 7
    assert set(lifted["k"]) == {"1", '"1"', "true", '"true"', None, '"null"', '""'}


def test_equal_hashes_are_told_apart_by_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(keys: list[pl.Series], seed: int) -> pl.Series:  # noqa: ARG001
        return pl.Series("hash", [5] * len(keys[0]), dtype=pl.UInt64)

    monkeypatch.setattr(cbt.layout.layout, "key_hash", collide)
    rows: list[Row] = [(0, key, s, 1, None) for key in ("b", None, "a", "b") for s in ("x", None, "x")]
    lifted = lift(rows)
    assert lifted.select("k", "s", "a0.n").rows() == [
        ('"a"', "x", 2), ('"a"', None, 1), ('"b"', "x", 4), ('"b"', None, 2), (None, "x", 2), (None, None, 1),
    ]  # fmt: skip


def test_without_keys_there_is_one_row_a_pane() -> None:
    layout = Layout([], [Aggregate("n", "count", None, "any")])
    lifted = layout.lift(pl.DataFrame({"pane": [30, 0, 30]}))
    assert lifted.select("pane", "hash", "n.n").rows() == [(0, 0, 1), (30, 0, 2)]


def test_without_aggregates_there_are_the_distinct_keys() -> None:
    layout = Layout([Key("k", "integer")], [])
    lifted = layout.lift(pl.DataFrame({"pane": [0, 0, 0], "k": [1, 1, None]}))
    assert layout.lower(layout.combine([lifted, lifted])).sort("k").rows() == [(0, None), (0, 1)]


def test_an_aggregate_may_take_a_key() -> None:
    layout = Layout(
        [Key("k", "integer")],
        [Aggregate("n", "count", "k", "integer"), Aggregate("m", "max", "k", "integer")],
    )
    lifted = layout.lift(pl.DataFrame({"pane": [0, 0, 0], "k": [1, 1, None]}))
    assert layout.lower(lifted).sort("k").rows() == [(0, None, 0, None), (0, 1, 2, 1)]


def test_empty_frames() -> None:
    empty = pl.DataFrame({"pane": [], "k": [], "s": [], "x": [], "y": []}, schema_overrides={"pane": pl.Int64})
    assert LAYOUT.lift(empty).schema == LAYOUT.schema
    assert LAYOUT.combine([]).schema == LAYOUT.schema
    assert LAYOUT.lower(LAYOUT.combine([])).height == 0


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"k": [1]}), "'pane'"),
        (
            pl.DataFrame({"pane": [None], "k": [1]}, schema_overrides={"pane": pl.Int64}),
            "'pane' without NULL",
        ),
        (pl.DataFrame({"pane": [0]}), "lacks column 'k'"),
        (pl.DataFrame({"pane": [0], "k": ["a"], "x": [1]}), "'k' is String, which is no integer"),
        (pl.DataFrame({"pane": [0], "k": [1], "x": ["1"]}), "'x' is String, which is no number"),
    ],
)
def test_wrong_frames_are_refused(frame: pl.DataFrame, message: str) -> None:
    layout = Layout([Key("k", "integer")], [Aggregate("a", "sum", "x", "number")])
    with pytest.raises(ValueError, match=message):
        layout.lift(frame)


def test_wrong_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown type 'text'"):
        Key("k", "text")
    with pytest.raises(ValueError, match="no sum of string"):
        Layout([], [Aggregate("a", "sum", "x", "string")])
    with pytest.raises(ValueError, match="no median of number"):
        Layout([], [Aggregate("a", "median", "x", "number")])
    with pytest.raises(ValueError, match="needs an argument"):
        Aggregate("a", "sum", None, "number")
    with pytest.raises(ValueError, match=r"an argument and a state share a name: a\.hi"):
        Layout([], [Aggregate("a", "sum", "a.hi", "number")])
    with pytest.raises(ValueError, match="share a name"):
        Layout([Key("pane", "string")], [])
