"""A job's trees as a table, from the root down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.control.messages import Tree, TreePlaceEntry
from elf.dashboard.drawing.tables import duration, table

PLACES_MAX = 500
TITLES = ("Agent", "Depth", "Roles", "To its parent", "Lag", "Waiting runs", "Why this parent")
_CHOICES = {"passed_down": "passed down"}


def drawn_tree(found: Tree) -> str:
    """Each agent below its parent; one whose parent has not answered stands at the top of its own part."""
    silent = f", {found.silent} do not answer" if found.silent else ""
    parts = [f"{found.app}: {found.agents} of {found.expected} agents, master {found.master}{silent}"]
    if left := max(0, len(found.places) - PLACES_MAX):
        parts.append(f"{left:,} more are not shown")
    rows = [_row(place, depth) for place, depth in _in_order(found.places[:PLACES_MAX])]
    return table("; ".join(parts), TITLES, rows)


def _in_order(places: Sequence[TreePlaceEntry]) -> Iterator[tuple[TreePlaceEntry, int]]:
    """Places with their depth, parents first, without recursion; those in a circle come last."""
    known = {(place.tree, place.node_id) for place in places}
    below: dict[tuple[int, str | None], list[TreePlaceEntry]] = {}
    for place in places:
        is_top = (place.tree, place.parent) not in known
        below.setdefault((place.tree, None if is_top else place.parent), []).append(place)
    left = {(place.tree, place.node_id): place for place in places}
    pending = [(top, 0) for (_, parent), tops in sorted(below.items(), key=lambda item: -item[0][0])
               if parent is None for top in tops]  # fmt: skip
    while pending:
        place, depth = pending.pop()
        if left.pop((place.tree, place.node_id), None) is not None:
            yield place, depth
            pending += [(child, depth + 1) for child in below.get((place.tree, place.node_id), ())]
    yield from ((place, 0) for place in left.values())


def _row(place: TreePlaceEntry, depth: int) -> list[object]:
    agent = f"{'· ' * min(depth, 20)}{place.agent}"
    trip = None if place.round_trip_s is None else f"{place.round_trip_s * 1000:.1f} ms"
    awaited = f"{place.waiting:,}" + (f" for {', '.join(place.awaited[:3])}" if place.awaited else "")
    choice = _CHOICES.get(place.choice, place.choice)
    return [agent, depth, ", ".join(place.roles), trip, duration(place.lag_s), awaited, choice]
