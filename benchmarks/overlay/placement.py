"""Figure 12c of the paper: number of trees an agent is the root of, by ways to place ids and trees.

Plain consistent placement draws ids and trees at random, and the agent closest to a tree is its root. The gaps between
random ids are exponential, so some agents have many times the share of others. Two remedies. *Even ids*: the fleet's
authority draws some points for each certificate, and takes the middle of the widest of the gaps that they fall in;
*best of 8* uses 8 points. *Salts*: a tree's creator hashes its name with some salts, and takes the one whose root has
the fewest trees; a lookup of the tree asks at all of these places.

With perfectly even ids the number of roots would be binomial, which still has 0.7% of the agents at 3 of 500 trees or
more: the paper's figure is beyond what any placement by one hash can achieve.
"""

import random
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.report import Comparison
from overlay import ID_SPACE

from .lines import at_least, at_most
from .truth import Ring

AGENTS = 1_280
BOUNDS = ((500, 3, 99.5), (1_000, 5, 99.5), (2_000, 5, 95.0))
"""Number of trees; bound on an agent's roots; percentage of agents that must stay below it."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to place: the number of points among which an id is chosen, or of salts among which a tree's root is."""

    name: str
    points: int = 1
    salts: int = 1


WAYS = (
    Way("plain"),
    Way("best of 2", points=2),
    Way("best of 8", points=8),
    Way("best of 64", points=64),
    Way("2 salts", salts=2),
    Way("3 salts", salts=3),
)


def run(seeds: Sequence[int], agents: int = AGENTS) -> list[Comparison]:
    """Measure every way, medians over the seeds."""
    shares: list[Comparison] = []
    busiest: list[Comparison] = []
    for trees, bound, target in BOUNDS:
        for way in WAYS:
            counts = [roots(way, agents, trees, random.Random(seed)) for seed in seeds]
            share = median(100 * sum(count < bound for count in found) / agents for found in counts)
            case = f"agents that are root of less than {bound} of {trees:,} trees: {way.name}"
            shares.append(at_least(case, share, "%", target))
            busiest.append(at_most(f"{most(trees)}: {way.name}", median(map(max, counts)), "roots"))
    return shares + busiest


def most(trees: int) -> str:
    """Return the label of a curve."""
    return f"most roots on one agent, {trees:,} trees"


def roots(way: Way, agents: int, trees: int, source: random.Random) -> list[int]:
    """Return the number of trees each agent is the root of."""
    ring = Ring(_ids(way.points, agents, source))
    counts = dict.fromkeys(ring, 0)
    for _ in range(trees):
        closest = [ring.closest(source.getrandbits(128)) for _ in range(way.salts)]
        counts[min(closest, key=counts.__getitem__)] += 1
    return [*counts.values()]


def _ids(points: int, agents: int, source: random.Random) -> list[int]:
    """Return ids issued one after the other, each in the middle of the widest gap that one of some points falls in."""
    ids = [source.getrandbits(128)]
    while len(ids) < agents:
        if points == 1:
            insort(ids, source.getrandbits(128))
        else:
            gaps = [_gap(ids, source.getrandbits(128)) for _ in range(points)]
            start, width = max(gaps, key=lambda gap: gap[1])
            insort(ids, (start + width // 2) % ID_SPACE)
    return ids


def _gap(ids: Sequence[int], point: int) -> tuple[int, int]:
    """Return the start and width of the gap between neighbouring ids that a point falls in."""
    place = bisect_left(ids, point)
    below, above = ids[place - 1], ids[place % len(ids)]
    return below, (above - below) % ID_SPACE or ID_SPACE
