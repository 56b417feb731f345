"""How long nodes stay: sessions of a given median, from distributions with many short ones and some very long."""

from collections.abc import Callable
from math import log

from overlay import RandomSource

WEIBULL_SHAPE = 0.5
PARETO_SHAPE = 1.5

Sessions = Callable[[RandomSource], float]


def weibull(median_s: float) -> Sessions:
    """Weibull sessions, heavier in short and long ones than exponential ones are.

    >>> import random
    >>> draw, source = weibull(300), random.Random(1)
    >>> 290 < sorted(draw(source) for _ in range(9_999))[4_999] < 310
    True
    """
    scale = median_s / log(2) ** (1 / WEIBULL_SHAPE)
    return lambda source: scale * (-log(1 - source.random())) ** (1 / WEIBULL_SHAPE)


def pareto(median_s: float) -> Sessions:
    """Pareto sessions that begin at zero (Lomax).

    >>> import random
    >>> draw, source = pareto(300), random.Random(1)
    >>> 290 < sorted(draw(source) for _ in range(9_999))[4_999] < 310
    True
    """
    scale = median_s / (2 ** (1 / PARETO_SHAPE) - 1)
    return lambda source: scale * ((1 - source.random()) ** (-1 / PARETO_SHAPE) - 1)
