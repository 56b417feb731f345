"""Declared elements: aggregates, joins, tops and exchanges, computed on columns without any Python per event."""

from __future__ import annotations

from collections.abc import Mapping

from agent.programs.element_graph import Element, EventType
from agent.runtime.function.spill import SpillArea
from agent.runtime.keyed.elements.aggregate import WindowedAggregate, compact_windows, shown_panes
from agent.runtime.keyed.elements.exchange import ExchangeRuntime
from agent.runtime.keyed.elements.join import JoinRuntime, compact_join
from agent.runtime.keyed.elements.outputs import (
    event_type,
    field_type,
    join_keys,
    output_fields,
    plan_of,
    refusal,
)
from agent.runtime.keyed.elements.read_columns import READABLE
from agent.runtime.keyed.elements.running import RunningAggregate
from agent.runtime.keyed.elements.runtime import Compact, ElementRuntime, Tables
from agent.runtime.keyed.elements.slots import latest_only
from agent.runtime.keyed.elements.top import TopRuntime, compact_top
from query import Plan

RUNNING = ("count", "sum", "min", "max", "avg")
"""The aggregates whose value after each event can be told on columns."""
TOP_MAX = 10_000
WITHIN_MS_MAX = 366 * 86_400_000


def check(element: Element, types: Mapping[str, EventType]) -> None:
    """Raises `query.PlanError` unless a declared element can run on these types of events."""
    kinds = {"aggregate": _check_aggregate, "join": _check_join, "top": _check_top, "exchange": _check_exchange}
    for read in element.inputs:
        of = event_type(element, types, read.type)
        if read.key is None:
            raise refusal(element, f"is of kind {element.kind}, which needs a key: give one for {read.type}")
        for name in read.key:
            field_type(element, of, name)
    if element.kind not in kinds:
        raise refusal(element, f"is {element.kind}, which is not declared")
    kinds[element.kind](element, types)
    output_fields(element, types)


def lag_ms(element: Element) -> int:
    """The time (ms) by which what an element emits may lie behind the watermark of what it reads."""
    return int(element.options["within_ms"]) if element.kind == "join" else 0


def runtime_of(
    element: Element, types: Mapping[str, EventType], room: SpillArea | None, *, ordered: bool = False
) -> ElementRuntime:
    """Computes a declared element that `check` has accepted; what does not fit memory goes to a `room`.

    `ordered`, or that of the element: what it emits follows from its events alone, if each type's come in order,
    however types are mixed.
    """
    tracks = all(types[read.type].guaranteed for read in element.inputs)
    if element.kind == "aggregate" and plan_of(element).windowing is None:
        return RunningAggregate(element, types, tracks=tracks)
    if element.kind == "aggregate":
        return WindowedAggregate(element, types, room, tracks=tracks)
    if element.kind == "top":
        return TopRuntime(element, types, tracks=tracks)
    if element.kind == "exchange":
        return ExchangeRuntime(element, types)
    return JoinRuntime(element, types, tracks=tracks, ordered=ordered or element.ordered)


def compact(element: Element) -> Compact:
    """Puts the frames of a declared element's tables into one: the whole state first, then its changes."""
    if element.kind == "aggregate" and plan_of(element).windowing is not None:
        return compact_windows(element)
    if element.kind == "top":
        return compact_top(element)
    if element.kind == "join":
        return compact_join
    keys = element.inputs[0].key or []
    return lambda _table, frames: latest_only(keys)(frames)


def shown(element: Element, tables: Tables) -> Tables:
    """The tables of a declared element's states as people read them."""
    is_windowed = element.kind == "aggregate" and element.options.get("plan", {}).get("window_ms") is not None
    return shown_panes(element, tables) if is_windowed else tables


def _check_aggregate(element: Element, types: Mapping[str, EventType]) -> None:
    if len(element.inputs) != 1:
        raise refusal(element, "aggregates several types: it takes one")
    plan, read = plan_of(element), element.inputs[0]
    if plan.kind != "aggregate" or plan.reads_rows or plan.outer is not None or plan.branches:
        raise refusal(element, "is no plain SELECT key, aggregate FROM type GROUP BY key")
    keys = [key.expression.name for key in plan.keys if hasattr(key.expression, "name")]
    if keys != list(read.key or []):
        raise refusal(element, f"groups by {', '.join(keys) or 'nothing'}, and its key is {', '.join(read.key or [])}")
    for column in plan.columns:
        field = field_type(element, types[read.type], column.path[0])
        is_read = field == column.type or (field == "any" and column.type in READABLE)
        if not is_read or len(column.path) != 1:
            raise refusal(element, f"reads {'.'.join(column.path)} as {column.type}, which {read.type} has not")
    if plan.windowing is None:
        _check_running(element, plan)
    elif plan.windowing.session is not None or plan.windowing.changes or len(plan.windowing.sizes) != 1:
        raise refusal(element, "has windows of one size each: no sessions, EMIT CHANGES or several sizes")
    elif element.ttl_s is not None:
        raise refusal(element, "has windows, and forgets what is before them: leave `ttl_s` out")


def _check_running(element: Element, plan: Plan) -> None:
    if plan.having is not None or plan.order or plan.limit is not None:
        raise refusal(element, "has no window: HAVING, ORDER BY and LIMIT are of windows")
    for one in plan.aggregates:
        is_text = one.type in ("any", "string") and one.function != "count"
        if one.function not in RUNNING or is_text:
            text = f"{one.function.upper()} of {one.type}" if is_text else one.function.upper()
            known = ", ".join(name.upper() for name in RUNNING)
            raise refusal(element, f"has no window and {text}: after each event it can tell {known}; give it a window")


def _check_join(element: Element, types: Mapping[str, EventType]) -> None:
    options = element.options
    if [read.type for read in element.inputs] not in ([options.get("left"), options.get("right")],):
        raise refusal(element, "joins two types, its left and its right one, in this order")
    left, right = (event_type(element, types, options[side]) for side in ("left", "right"))
    for names in zip(*join_keys(element), strict=True):
        ours, theirs = (field_type(element, of, name) for of, name in zip((left, right), names, strict=True))
        if ours != theirs:
            raise refusal(element, f"compares {names[0]}, which is {ours}, with {names[1]}, which is {theirs}")
    within = options.get("within_ms")
    if type(within) is not int or not 0 <= within <= WITHIN_MS_MAX:
        raise refusal(element, "has no `within_ms` from 0 ms to 366 days")
    if element.ttl_s is not None:
        raise refusal(element, "keeps events for as long as others may match them: leave `ttl_s` out")
    if options.get("mode", "first") not in ("first", "all"):
        raise refusal(element, f"has the mode {options['mode']!r}: it is first or all")


def _check_exchange(element: Element, types: Mapping[str, EventType]) -> None:  # noqa: ARG001
    unused = {
        "ttl_s": element.ttl_s,
        "every_s": element.every_s,
        "every_n": element.every_n,
        "ordered": element.ordered,
    }
    if given := [name for name, value in unused.items() if value]:
        raise refusal(element, f"keeps nothing of an event: leave `{given[0]}` out")


def _check_top(element: Element, types: Mapping[str, EventType]) -> None:
    options, read = element.options, element.inputs[0]
    if len(element.inputs) != 1:
        raise refusal(element, "takes several types: it takes one")
    if field_type(element, types[read.type], options.get("by")) not in ("integer", "number", "timestamp"):
        raise refusal(element, f"orders by {options['by']}, which is no number")
    if type(options.get("k")) is not int or not 1 <= options["k"] <= TOP_MAX:
        raise refusal(element, f"has no `k` from 1 to {TOP_MAX:,}")
    if element.every_s is None:
        raise refusal(element, "has no `every_s`: how often shall it be shown?")
