"""Speeds of workers, and a source's shares of them, as acknowledgements report them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FACTOR_MAX = 16.0
"""A report's distance from the median of the other workers', as a factor: what is beyond is clamped to it."""
SECONDS_MIN, SECONDS_MAX = 1e-12, 1e12
"""Bounds of the time an event that a worker can report, so far apart that only what overflows is beyond."""
SHARE_MIN = 1e-12
"""Least share of a worker's events that it can report."""
WEIGHT = 0.25
"""Weight of a report beside those before it: a share is counted from few events, so each is far off by chance."""


class ReportedSpeeds:
    """Seconds an event and this source's share of the events, of each worker, NaN where not known."""

    def __init__(self, workers: int) -> None:
        self.refused = 0
        self._reports = np.full((2, workers), np.nan)
        self._medians = np.ones(2)
        self._fresh = 0
        self._slots: npt.NDArray[np.float64] | None = None

    def heard(self, place: int, seconds: float, share: float) -> None:
        """Takes a report of a worker; what is no number, or beyond bounds, is refused. O(1) amortized."""
        if not (SECONDS_MIN <= seconds <= SECONDS_MAX and SHARE_MIN <= share <= 1):
            self.refused += 1
            return
        if self.known:
            least, most = self._medians / FACTOR_MAX, self._medians * FACTOR_MAX
            kept = min(max(seconds, least[0]), most[0]), min(max(share, least[1]), most[1], 1.0)
            self.refused += kept != (seconds, share)
            seconds, share = kept
        self._slots = None
        before = self._reports[:, place]
        told = np.array([seconds, share])
        self._reports[:, place] = np.where(np.isnan(before), told, before + (told - before) * WEIGHT)
        self._fresh -= 1
        if self._fresh <= 0:
            self._measure()

    def change(self, origins: npt.NDArray[np.int64]) -> None:
        """Keeps the reports of workers who stay; `origins` are their former places, -1 for new ones."""
        self._slots = None
        self._reports = np.where(origins < 0, np.nan, self._reports[:, origins])
        self._measure()

    @property
    def known(self) -> bool:
        """Whether any worker has reported."""
        return self._fresh > 0

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Seconds that each worker takes for an event: the known ones' median where it has not told, 1 if none has."""
        return self._filled(0)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """This source's share of each worker's events: the median where it has not told, 1 if none has."""
        return self._filled(1)

    @property
    def slots(self) -> npt.NDArray[np.float64]:
        """Seconds from one event of this source to the next at each worker. Remembered until a worker reports."""
        if self._slots is None:
            self._slots = self.seconds / self.shares
        return self._slots

    def _filled(self, row: int) -> npt.NDArray[np.float64]:
        known: npt.NDArray[np.float64] = self._reports[row]
        return np.where(np.isnan(known), self._medians[row], known)

    def _measure(self) -> None:
        """Takes the medians of what is known, which hold for as many reports as there are known workers."""
        known = int((~np.isnan(self._reports[0])).sum())
        self._medians = np.nanmedian(self._reports, axis=1) if known else np.ones(2)
        self._fresh = known
