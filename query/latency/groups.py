"""The number of groups in rows, by Heaps' law, and with it what cutting panes into shorter ones saves and costs.

The last of k short panes has a k-th of the rows, but more than a k-th of the groups: it is sealed, sent and combined
sooner after a window's end, and all k of them together cost more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

_EXPONENT_ASSUMED = 0.7
"""Exponent where fewer than two different points were measured: between one group a row and as many in all."""


class HeapsLaw(NamedTuple):
    """groups = factor · rows^exponent, and never more than there are rows; `points` is the number of points that it was
    fitted to.

    >>> law = HeapsLaw(10.0, 0.5, 2)
    >>> law.groups(10_000), round(law.growth(4), 3)
    (1000.0, 2.0)
    """

    factor: float
    exponent: float
    points: float = 0.0

    def groups(self, rows: float) -> float:
        """The groups in so many rows."""
        return min(self.factor * rows**self.exponent, rows) if rows > 0 else 0.0

    def growth(self, cuts: float) -> float:
        """The groups of k short panes together, as a multiple of those of the pane that they are cut from: k^(1 −
        exponent). So many times as many bytes travel.
        """
        return float(max(cuts, 1.0) ** (1 - self.exponent))

    @classmethod
    def fitted(cls, points: Iterable[tuple[float, float]]) -> HeapsLaw:
        """By two or more points of (rows, groups), with least squares of logarithms; the exponent is between 0 and 1.
        With one point, or points of the same rows, it is assumed; with none there is a group for each row. Points
        without rows or groups, or that are no numbers, are left out, and so are those with a group for each row, where
        the law does not hold yet, if there are two others. O(points).
        """
        several = [(r, g) for r, g in points if 0 < r < math.inf and 0 < g < math.inf]
        fewer = [(r, g) for r, g in several if g < r]
        told = np.array(fewer if len(fewer) > 1 else several).reshape(-1, 2)
        if not len(told):
            return GROUP_EACH_ROW
        rows, groups = np.log(told).T
        spread = float(((rows - rows.mean()) ** 2).sum())
        if spread < 1e-6:
            exponent = _EXPONENT_ASSUMED
        else:
            exponent = float(((rows - rows.mean()) * (groups - groups.mean())).sum()) / spread
        exponent = min(max(exponent, 0.0), 1.0)
        return cls(math.exp(float(groups.mean() - exponent * rows.mean())), exponent, len(told))


GROUP_EACH_ROW = HeapsLaw(1.0, 1.0)
"""The most groups that there can be: where nothing was measured."""
