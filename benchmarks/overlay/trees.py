"""The shape of trees over all nodes: most children of a node, and depth."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.report import Comparison
from overlay import Id

from .lines import at_most, beside, size
from .population import Population
from .truth import depths

SCRIBE_CHILDREN = 6.2


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of some trees: most children of a node, mean children of inner nodes, and depth."""

    children_max: int
    children_mean: float
    depth_max: int
    depth_mean: float


def measure(population: Population, keys: Sequence[Id]) -> Shape:
    """Measure complete trees."""
    counts = [len(node.children(key)) for key in keys for node in population.live.values()]
    ring = population.ring
    levels = [depth for key in keys for depth in depths(key, population.live, ring).values()]
    return Shape(max(counts), mean(count for count in counts if count), max(levels), mean(levels))


def lines(nodes: int, shapes: Sequence[Shape]) -> list[Comparison]:
    """Return the lines: the worst tree of all seeds, and the mean."""
    place = size(nodes)
    children = mean(shape.children_mean for shape in shapes)
    return [
        at_most(f"most children of a node: {place}", max(shape.children_max for shape in shapes), "children"),
        beside(f"children of an inner node: {place}", children, "children", "Scribe, published", SCRIBE_CHILDREN),
        at_most(f"greatest depth of a tree: {place}", max(shape.depth_max for shape in shapes), "hops"),
        at_most(f"mean depth in a tree: {place}", mean(shape.depth_mean for shape in shapes), "hops"),
    ]
