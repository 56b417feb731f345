"""Random jobs as Enorm describes its large ones (section 7, "Large Job")."""

import random

from query.fusion.graph import Edge, FusionGraph

ATTRIBUTES = 30
SENT = 1_000.0
"""Rows that each operator has to give to those of the next level."""
CHANGE_MAX = 3
"""Most that the number of attributes changes by from one operator to the next."""


def random_job(operators: int, draw: random.Random) -> FusionGraph:
    """A job of so many operators. The first has half of the attributes, each further one some more or some fewer, and
    which ones is random. The operators are cut into levels at random, from 3 to three quarters as many as there are
    operators. Each sends rows to those of the next level: to one after the other a random part of a random part of what
    it has left.
    """
    masks, size = [], ATTRIBUTES // 2
    for _ in range(operators):
        masks.append(sum(1 << attribute for attribute in draw.sample(range(ATTRIBUTES), size)))
        size = min(ATTRIBUTES, max(1, size + draw.randint(-CHANGE_MAX, CHANGE_MAX)))
    levels = draw.randint(3, operators * 3 // 4)
    bounds = [0, *sorted(draw.sample(range(1, operators), levels - 1)), operators]
    edges: list[Edge] = []
    for level in range(levels - 1):
        for operator in range(bounds[level], bounds[level + 1]):
            left = SENT
            for downstream in range(bounds[level + 1], bounds[level + 2]):
                rows = draw.uniform(0, left) * draw.random()
                left -= rows
                edges.append((operator, downstream, rows))
    return FusionGraph(tuple(masks), tuple(edges))
