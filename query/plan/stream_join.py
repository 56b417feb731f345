"""Reads a join of two streams back from the elements of a plan, to explain it or to compute it in another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from query.plan.plan import Plan
from query.plan.wire import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class JoinedSide:
    """One side of a join: the plan of its source, whose columns are the `fields` of its events with their types, and
    the fields of its key."""

    type: str
    plan: Plan
    fields: Fields
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A join of two streams: pairs of equal keys whose times differ by `within_ms` at most.

    `fields` are those of a pair: the left side's, then the right side's. `outer`: a left event without a match is a row
    too.
    """

    left: JoinedSide
    right: JoinedSide
    within_ms: int
    outer: bool
    fields: Fields


def stream_join(plan: Plan) -> StreamJoin | None:
    """The join that the elements of a plan are, as the planner makes it; None for other elements, and for none."""
    if plan.elements is None:
        return None
    try:
        return _read(plan.elements, plan.stream)
    except (KeyError, TypeError, ValueError, PlanError):
        return None


def _read(elements: Mapping[str, Any], stream: str) -> StreamJoin | None:
    if [one["kind"] for one in elements["elements"]] != ["join"]:
        return None
    (element,) = elements["elements"]
    options = element["options"]
    sources = {one["type"]: one for one in elements["sources"]}
    types = {one["name"]: _fields(one) for one in elements["types"]}
    sides = [_side(read, sources, types) for read in element["inputs"] if read["type"] in sources]
    if options.get("mode") != "all" or len(sides) != 2 or element["output"] != stream:
        return None
    left, right = sides
    return StreamJoin(left, right, options["within_ms"], options["outer"], types[element["output"]])


def _side(read: Mapping[str, Any], sources: Mapping[str, Any], types: Mapping[str, Fields]) -> JoinedSide:
    name = read["type"]
    return JoinedSide(name, Plan.from_wire(sources[name]["plan"]), types[name], tuple(read["key"]))


def _fields(type_: Mapping[str, Any]) -> Fields:
    return tuple((name, kind) for name, kind in type_["fields"])
