"""Randomness as an argument of the cores, so that a seed replays a run."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class RandomSource(Protocol):
    """The methods of `random.Random` that a node uses."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of k random bits."""


def jittered(period_s: float, random: RandomSource) -> float:
    """Return the period shortened or stretched by at most a quarter, so that nodes do not act in step."""
    return period_s * (0.75 + 0.5 * random.random())


def shuffled(items: Iterable[Item], random: RandomSource) -> list[Item]:
    """Return the items in random order."""
    return [item for _, _, item in sorted((random.random(), place, item) for place, item in enumerate(items))]


def one_of(items: Sequence[Item], random: RandomSource) -> Item:
    """Return one of the items at random."""
    return items[int(random.random() * len(items))]
