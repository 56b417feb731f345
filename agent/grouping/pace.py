"""Speeds of workers, and a source's shares of them, as acknowledgements report them."""

from __future__ import annotations

from math import isfinite

import numpy as np
import numpy.typing as npt

FACTOR_MAX = 16.0
"""A report's distance from the median of the other workers', as a factor: what is beyond is clamped to it."""


class Pace:
    """Seconds an event and this source's share of the events, of each worker, NaN where not known."""

    def __init__(self, workers: int) -> None:
        self.refused = 0
        self._reports = np.full((2, workers), np.nan)
        self._medians: npt.NDArray[np.float64] | None = None

    def heard(self, place: int, seconds: float, share: float) -> None:
        """Takes a report of a worker; what is negative, not a number or no share is refused."""
        if not (isfinite(seconds) and seconds > 0 and 0 < share <= 1):
            self.refused += 1
            return
        told = np.array([seconds, share])
        kept = self._clamped(place, told)
        self.refused += bool((kept != told).any())
        self._reports[:, place] = kept
        self._medians = None

    def change(self, origins: npt.NDArray[np.int64]) -> None:
        """Keeps the reports of workers who stay; `origins` are their former places, -1 for new ones."""
        self._reports = np.where(origins < 0, np.nan, self._reports[:, origins])
        self._medians = None

    @property
    def known(self) -> bool:
        """Whether any worker has reported."""
        return not np.isnan(self._reports[0]).all()

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Seconds that each worker takes for an event: the known ones' median where it has not told, 1 if none has."""
        return self._filled(0)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """This source's share of each worker's events: the median where it has not told, 1 if none has."""
        return self._filled(1)

    def _filled(self, row: int) -> npt.NDArray[np.float64]:
        if not self.known:
            return np.ones(self._reports.shape[1])
        if self._medians is None:
            self._medians = np.nanmedian(self._reports, axis=1)
        return np.where(np.isnan(self._reports[row]), self._medians[row], self._reports[row])

    def _clamped(self, place: int, told: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        others = np.delete(self._reports, place, axis=1)
        if np.isnan(others[0]).all():
            return told
        medians = np.nanmedian(others, axis=1)
        most = np.minimum(medians * FACTOR_MAX, [np.inf, 1.0])
        return np.asarray(np.minimum(np.maximum(told, medians / FACTOR_MAX), most), np.float64)
