"""Rows of results that a reader on the same agent takes as columns: the same events as come of their JSON."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import SourceColumn
from agent.parsing.canonical_json import canonical_json
from agent.runtime.function.result import WindowResult
from agent.runtime.function.upstream_rows import AppResult, read_result
from query.execution.rows import ResultRows, ResultTable

INTEGERS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
DOUBLES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1.0, 0.1, -0.0, 1e15, 1e300]))
TEXTS = st.one_of(st.text(max_size=4), st.sampled_from(["1", "true", "null", '"', "\\", "2023-11-14T22:13:20Z"]))
SCALARS = st.one_of(INTEGERS, DOUBLES, TEXTS, st.booleans())
USES = ("any", "number", "integer", "string", "boolean", "timestamp")


def column(values: st.SearchStrategy[Any], dtype: pl.DataType, rows: int) -> st.SearchStrategy[pl.Series]:
    nullable = st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows)
    return nullable.map(lambda found: pl.Series(found, dtype=dtype))


@st.composite
def tables(draw: st.DrawFn) -> ResultRows:
    """Rows as queries make them: each column of a type, in one of the forms that it may have."""
    rows, frame, outputs = draw(st.integers(0, 5)), dict[str, pl.Series](), list[tuple[str, str]]()
    frame["pane"] = pl.Series([0] * rows, dtype=pl.Int64)
    for n in range(draw(st.integers(1, 5))):
        form = draw(st.sampled_from(["integer", "unsigned", "number", "texts", "string", "boolean", "timestamp"]))
        type_ = {"unsigned": "integer", "texts": draw(st.sampled_from(["any", "number"]))}.get(form, form)
        outputs.append((draw(st.sampled_from(["a", "b", "c", "window_start"])), type_))
        name = f"v{n}"
        match form:
            case "number":
                frame[name] = draw(column(st.integers(-(2**70), 2**70), pl.Int128(), rows))
                doubles = draw(st.one_of(st.just(None), column(DOUBLES, pl.Float64(), rows)))
                if doubles is not None:
                    frame[name] = frame[name].zip_with(doubles.is_null(), pl.Series([None], dtype=pl.Int128))
                frame[f"{name}.double"] = pl.Series([None] * rows, dtype=pl.Float64) if doubles is None else doubles
            case "texts":
                of = draw(st.sampled_from([SCALARS, TEXTS, INTEGERS]))
                frame[name] = draw(column(of.map(lambda value: canonical_json(value)), pl.String(), rows))
            case "unsigned":
                frame[name] = draw(column(st.integers(0, 2**64 - 1), pl.UInt64(), rows))
            case "string":
                frame[name] = draw(column(TEXTS, pl.String(), rows))
            case "boolean":
                frame[name] = draw(column(st.booleans(), pl.Boolean(), rows))
            case _:
                frame[name] = draw(column(INTEGERS, pl.Int64(), rows))
    return ResultRows(ResultTable(pl.DataFrame(frame), outputs), 0, rows)


@given(
    tables(),
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d", "window_start", "window_end"]), st.sampled_from(USES))),
)
def test_columns_give_the_events_that_json_gives(rows: ResultRows, read: list[tuple[str, str]]) -> None:
    result = WindowResult(
        "one",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:22Z",
        rows,
        1,
        1,
        [],
        [],
        0,
        1,
        0,
        0,
        0,
        0,
        None,
        {},
        None,
        1,
        1,
    )
    columns = [SourceColumn(f"{name}-{n}", (name,), use) for n, (name, use) in enumerate(read)]
    here = AppResult.of(result).to_events(2000, columns)
    sent = read_result(result.to_bytes()).to_events(2000, columns)
    assert (here.malformed, len(here.frames)) == (sent.malformed, len(sent.frames))
    for mine, theirs in zip(here.frames, sent.frames, strict=True):
        assert mine.schema == theirs.schema
        assert mine.equals(theirs)
