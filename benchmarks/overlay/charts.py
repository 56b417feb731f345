"""The benchmark's figures as curves."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from . import heartbeats, joins, kills, large_rings, overhead, placement, routes

PANELS = (
    Panel("Mean hops of a route, by the number of nodes (less is better)", (routes.HOPS,)),
    Panel("Time of routes over that of going there directly", (routes.STRETCH, large_rings.BUILT_STRETCH)),
    Panel(
        "A tenth of the nodes dies: orphans under the right root again (less is better)",
        tuple(kills.orphans(way, share) for way in kills.WAYS for share in kills.SHARES),
    ),
    Panel(
        "A tenth of the nodes dies: leaf sets and roots right again (less is better)",
        tuple(label(way) for label in (kills.leaf_sets, kills.take_over) for way in kills.WAYS),
    ),
    Panel(
        "Messages of a join (less is better)",
        tuple(joins.messages(when, share) for when in joins.WAYS for share in joins.SHARES),
    ),
    Panel("Heartbeats, by the number of trees (less is better)", (heartbeats.BYTES,)),
    Panel("Heartbeats for each peer, by the number of trees (less is better)", (heartbeats.BYTES_PER_PEER,)),
    Panel(
        "Most roots on one agent, by how ids and trees are placed (less is better)",
        tuple(placement.most(trees) for trees, _, _ in placement.BOUNDS),
    ),
    Panel(
        "Messages an agent sends, by update interval (less is better)", tuple(map(overhead.packets, overhead.INTERVALS))
    ),
    Panel(
        "Bytes an agent sends, by update interval (less is better)", tuple(map(overhead.sent_bytes, overhead.INTERVALS))
    ),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw the figures of a run, as far as it has them."""
    write_panels(PANELS, comparisons, path)
