"""Draws the trees of a job for `elf tree`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree as DrawnTree

from agent.control.messages import Tree, TreePlaceEntry
from elf.terminal.terminal import printable

PLACES_MAX = 2000
"""Upper bound on the agents that are drawn of one tree; the rest is counted."""
AWAITED_SHOWN = 3
_CHOICES = {"passed_down": "passed down"}


def drawn_tree(found: Tree) -> RenderableType:
    """The trees under a summary. A place whose parent has not answered is drawn beside the root."""
    parts: list[RenderableType] = [Text(printable(line)) for line in _summary(found)]
    for number in sorted({place.tree for place in found.places}):
        places = [place for place in found.places if place.tree == number]
        parts.append(_drawn(number, places))
    return Group(*parts)


def _summary(found: Tree) -> list[str]:
    complete = f"{found.agents} of {found.expected} agents run it"
    upto = f", up to {found.frontier}" if found.frontier else ""
    lines = [f"{found.app}: master {found.master}, {complete}{upto}"]
    if found.silent:
        lines.append(f"{found.silent} agents have not answered, and are not drawn")
    if not found.places:
        lines.append("no agent that has answered is in its tree")
    return lines


def _drawn(number: int, places: Sequence[TreePlaceEntry]) -> RenderableType:
    known = {place.node_id: place for place in places}
    below: dict[str | None, list[TreePlaceEntry]] = {}
    for place in places:
        below.setdefault(place.parent if place.parent in known else None, []).append(place)
    depth = max((place.depth for place in places if place.depth is not None), default=0)
    drawing = DrawnTree(Text(f"tree {number}: {len(places):,} agents, depth {depth}"), highlight=False)
    drawn: set[str] = set()
    for top in below.get(None, []):
        _draw(drawing, top, below, drawn)
    left = len(places) - len(drawn)
    if left:
        drawing.add(Text(f"{left:,} more, in no path from the root", style="dim"))
    return drawing


def _draw(
    onto: DrawnTree,
    top: TreePlaceEntry,
    below: Mapping[str | None, Sequence[TreePlaceEntry]],
    drawn: set[str],
) -> None:
    """Draws a place and those below it, without recursion: what agents say of each other may be deep, or a circle."""
    pending = [(onto, top)]
    while pending and len(drawn) < PLACES_MAX:
        branch, place = pending.pop()
        if place.node_id in drawn:
            continue
        drawn.add(place.node_id)
        mine = branch.add(_line(place, is_lost=place is top and place.parent is not None))
        pending += [(mine, child) for child in reversed(below.get(place.node_id, ()))]


def _line(place: TreePlaceEntry, *, is_lost: bool) -> Text:
    line = Text(printable(place.agent), style="bold")
    facts = [", ".join(place.roles)] if place.roles else []
    if place.round_trip_s is not None:
        facts.append(f"{place.round_trip_s * 1000:.1f} ms")
    if place.lag_s is not None:
        facts.append(f"lag {place.lag_s:.1f} s")
    if place.waiting:
        facts.append(f"{place.waiting:,} runs wait{_awaited(place)}")
    if place.choice not in ("", "root"):
        facts.append(_CHOICES.get(place.choice, place.choice))
    if is_lost:
        facts.append("its parent has not answered")
    return line.append(f"  {' · '.join(map(printable, facts))}", style="not bold")


def _awaited(place: TreePlaceEntry) -> str:
    if not place.awaited:
        return ""
    more = len(place.awaited) - AWAITED_SHOWN
    names = ", ".join(place.awaited[:AWAITED_SHOWN])
    return f" for {names} and {more} more" if more > 0 else f" for {names}"
