"""Events go into types of events and come back as what they were."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import SourceColumn, parsed_rows
from agent.runtime.keyed.event_columns import event_frames, field_columns
from query import PlanColumn

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer()),
    st.text(),
)


def told_apart(rows):
    return sorted(repr(row) for row in rows)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12))
def test_values_of_any_type_are_the_same_behind_an_event_type(rows):
    columns = [SourceColumn("c0", ("a",), "any"), SourceColumn("c1", ("b",), "any")]
    values = {"a": [one for one, _ in rows], "b": [other for _, other in rows]}
    fields = [("a", "any"), ("b", "any")]
    events = [field_columns(one, fields) for one in parsed_rows(range(len(rows)), columns, values).frames]
    read = [PlanColumn("x.a", ("a",), "any"), PlanColumn("x.b", ("b",), "any")]
    found = [
        row for frame in event_frames(pl.concat(events), read) for row in frame.select("@time", "x.a", "x.b").rows()
    ]
    assert told_apart(found) == told_apart((time, *row) for time, row in enumerate(rows))


def test_fields_have_the_physical_type_of_their_type():
    selected = pl.DataFrame({"@time": [1, 2], "c0": [1, None], "c1": [None, None], "c2": [5, 6], "c3": ["a", None]})
    fields = [("n", "number"), ("b", "boolean"), ("t", "timestamp"), ("s", "string")]
    events = field_columns(selected, fields)
    assert events.dtypes == [pl.Int64, pl.Float64, pl.Boolean, pl.Int64, pl.String]
    (frame,) = event_frames(events, [PlanColumn("t", ("t",), "timestamp"), PlanColumn("s", ("s",), "string")])
    assert frame.schema == {"@time": pl.Int64, "t": pl.Datetime("ms", "UTC"), "s": pl.String}
