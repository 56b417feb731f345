"""One population of each size, from its first join to its last repair: joins, routes, trees, kills."""

from collections.abc import Sequence

from benchmarks.report import Comparison

from . import joins, kills, routes, trees
from .population import SETTLED_S, Population, progress

TREES = 6
PAUSE_S = 10.0


def run(nodes: int, seeds: Sequence[int], later_joins: int, settled_s: float = SETTLED_S) -> list[Comparison]:
    """Measure all figures of one size, this long after the last join; the second tenth is killed among the
    survivors.
    """
    joined: list[joins.Joins] = []
    routed: list[routes.Routes] = []
    shapes: list[trees.Shape] = []
    healings: dict[str, list[kills.Healing]] = {kills.SILENT: [], kills.REFUSED: []}
    for seed in seeds:
        population = Population(seed)
        joined.append(joins.measure(population, nodes, later_joins))
        progress(f"{nodes:,} nodes, seed {seed}: joined in {joined[-1].cold_s:g} s")
        population.run(settled_s)
        routed.append(routes.measure(population))
        keys = population.plant(TREES)
        shapes.append(trees.measure(population, keys))
        progress(f"{nodes:,} nodes, seed {seed}: {routed[-1].hops:.2f} hops, {shapes[-1].depth_max} levels")
        for way, found in healings.items():
            population.run(PAUSE_S)
            found.append(kills.measure(population, keys, way))
            progress(f"{nodes:,} nodes, seed {seed}: whole again after a tenth died ({way})")
    report = joins.lines(nodes, joined) + routes.lines(nodes, routed)
    for way, found in healings.items():
        report += kills.lines(way, nodes, found)
    return report + trees.lines(nodes, shapes)
