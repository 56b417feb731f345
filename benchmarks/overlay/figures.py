"""The figures of the benchmark with their sizes and seeds."""

from collections.abc import Sequence
from functools import partial

from overlay import ParetoSessions, WeibullSessions

from . import churn, heartbeats, large_rings, overhead, placement, scale, speed, stalls
from .pool import Figure
from .population import SETTLED_S

MEDIAN_S = 300.0
SOON_S = 10.0
"""Time to settle for ten thousand nodes: their join takes so long that most have sought near peers long before it
ends.
"""
_PLACEMENT = Figure("placement of roots", partial(placement.run, seeds=range(1, 10)))


def _churn(nodes: int, seconds: float, seed: int) -> list[Figure]:
    return [
        Figure(f"{name} churn", partial(churn.run, name, sessions, nodes, seconds, seed), weight=4_000)
        for name, sessions in (("Weibull", WeibullSessions(MEDIAN_S)), ("Pareto", ParetoSessions(MEDIAN_S)))
    ]


def _scale(nodes: int, seeds: Sequence[int], later_joins: int, settled_s: float = SETTLED_S) -> Figure:
    measure = partial(scale.run, nodes, seeds, later_joins, settled_s)
    return Figure(f"{nodes:,} nodes", measure, weight=nodes * len(seeds))


FULL = (
    _scale(64, (1, 2, 3), 30),
    _scale(256, (1, 2), 40),
    _scale(1_280, (1, 2), 40),
    _scale(5_000, (1,), 10),
    _scale(10_000, (1,), 10, SOON_S),
    Figure("large rings", partial(large_rings.run, sizes=(256, 1_280, 5_000, 10_000, 100_000), routes=1_000, seed=1)),
    *_churn(1_000, 300.0, seed=1),
    Figure("stalls", partial(stalls.run, nodes=128, seconds=3_600.0, seed=1), weight=3_000),
    Figure(
        "heartbeats", partial(heartbeats.run, nodes=1_280, trees=(500, 1_000, 2_000), members=64, seed=1), weight=4_500
    ),
    _PLACEMENT,
    Figure("network overhead", partial(overhead.run, sizes=(16, 64, 256, 1_280), seed=1), weight=2_500),
    Figure("speed", partial(speed.run, nodes=1_280, seed=1)),
)
QUICK = (
    _scale(64, (1,), 10),
    _scale(128, (1,), 10),
    Figure("large rings", partial(large_rings.run, sizes=(256, 1_280), routes=300, seed=1)),
    *_churn(64, 30.0, seed=1),
    Figure("stalls", partial(stalls.run, nodes=32, seconds=300.0, seed=1)),
    Figure("heartbeats", partial(heartbeats.run, nodes=64, trees=(80, 160, 320), members=16, seed=1)),
    _PLACEMENT,
    Figure("network overhead", partial(overhead.run, sizes=(16, 64), seed=1)),
    Figure("speed", partial(speed.run, nodes=128, seed=1)),
)
