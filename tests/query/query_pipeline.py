"""A query over a list of events, start to end: what agents and masters do, in one place."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

import cbt
from query import EventStage, JoinStage, Plan, ResultStage, Schema, analyze, parse

OPEN = {"web": Schema({}, open=True)}
_DTYPES = {
    bool: pl.Boolean,
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
    type(None): pl.Null,
    datetime: pl.Datetime("ms", "UTC"),
}
_FITTING = {"integer": (int,), "number": (int, float), "string": (str,), "boolean": (bool,)}


def run(text, events, catalog=OPEN, frames=None, table=()):
    """The rows of every window, in order of time. Events are dicts; `@time` is 0 where it is left out.

    `table` are the rows of the job that is joined.
    """
    return answered(analyze(parse(text), catalog), events, frames, table)


def answered(plan, events, frames=None, table=()):
    """The answer to a plan, which first travels over the wire."""
    plan = Plan.from_wire(plan.to_wire())
    stage, results = EventStage(plan), ResultStage(plan)
    store, states = new_store(plan, stage), []
    for frame in joined(plan, frames(plan, events) if frames else homogeneous_frames(plan, events), table):
        store.insert(stage.apply(frame).with_columns(pane=cbt.pane_of(pl.col("@time"), plan.pane_ms)))
    states = list(store.flush())
    panes = sorted({pane for state in states for pane in state["pane"]}) if states else [0]
    layout = store.layout if plan.kind == "aggregate" else store
    state = layout.combine(states)
    if plan.kind == "rows":
        windows = results.windows(state, panes)
    else:
        windows = {}
        for part in layout.alike(state):
            windows |= results.windows(layout.lower(part), part["pane"].unique() if states else panes)
    return [row for pane in panes for row in windows[pane]]


def joined(plan, frames, table):
    if plan.join is None:
        yield from frames
        return
    join = JoinStage(plan, plan.join)
    join.hold(list(homogeneous_frames(plan.join, [{**row, "@time": place} for place, row in enumerate(table)])))
    for frame in frames:
        yield from join.apply(frame)


def new_store(plan, stage):
    keys = [cbt.Key(name, type_) for name, type_ in stage.keys()]  # noqa: SIM118 (not a dict)
    if plan.kind == "aggregate":
        return cbt.CompressedBufferTree(keys, [cbt.Aggregate(*one) for one in stage.aggregates()])
    return cbt.RowBuffer(keys, [cbt.Order(*one) for one in stage.order()], plan.limit)


def homogeneous_frames(plan, events):
    """Frames of events with the same Python types in the columns of a plan, or of a JOIN, as parsers make them."""
    by_types = {}
    for event in events:
        row = [
            event.get("@time", 0),
            *(fitted(field(event, column.path), column.type) for column in plan.columns),
        ]
        by_types.setdefault(tuple(map(type, row)), []).append(row)
    names = ["@time", *(column.name for column in plan.columns)]
    for types, rows in by_types.items():
        yield pl.DataFrame(rows, schema=list(zip(names, map(_DTYPES.get, types), strict=True)), orient="row")


def field(event, path):
    for part in path:
        event = event.get(part) if isinstance(event, dict) else None
    return event


def fitted(value, type_):
    """The value, or NULL if it does not fit its use."""
    if type_ == "any":
        return value
    if type_ == "timestamp":
        return datetime.fromisoformat(value).replace(tzinfo=UTC) if isinstance(value, str) else None
    return value if type(value) in _FITTING[type_] else None
