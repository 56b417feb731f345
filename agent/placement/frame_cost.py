"""The processor time that work on frames takes, as a fixed part and one for each row, fitted to what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agent.placement.amounts import Floats, check_amount, checked_amounts

FRAME_ROWS = 2_000
"""Number of rows that take as long as a frame by itself, where measurements do not tell; encoding and decoding do."""
_PULL = 1e-3
"""Weight, in that of the measurements, with which a fit keeps to FRAME_ROWS."""


class FrameCost(NamedTuple):
    """Processor time that a kind of work takes for a frame (s): for each, and for each of its rows."""

    fixed_s: float
    row_s: float

    def of(self, frames: float, rows: float) -> float:
        """Seconds for so many frames, of so many rows together."""
        return frames * self.fixed_s + rows * self.row_s

    def check(self, field: str) -> None:
        """Raises ValueError, which names the field, for what is negative, no number, or too large."""
        check_amount(f"{field}.fixed_s", self.fixed_s)
        check_amount(f"{field}.row_s", self.row_s)

    @classmethod
    def fitted(
        cls, frames: Sequence[float] | Floats, rows: Sequence[float] | Floats, seconds: Sequence[float] | Floats
    ) -> FrameCost:
        """The cost with the least squares of errors, neither part negative; each place is one measurement. O(n).

        What measurements do not tell apart, as where frames always have as many rows, is divided as if a frame took as
        long as FRAME_ROWS. Raises ValueError, which names the field, for lists that differ in length or hold what is no
        amount.

        >>> cost = FrameCost.fitted([1, 1, 2], [1_000, 30_000, 50_000], [3, 32, 54])
        >>> round(cost.fixed_s, 2), round(cost.row_s, 4)
        (2.0, 0.001)
        """
        number = len(frames)
        f, r = checked_amounts("frames", frames, number), checked_amounts("rows", rows, number)
        s = checked_amounts("seconds", seconds, number)
        r = r / FRAME_ROWS
        ff, fr, rr, fs, rs = (float(a @ b) for a, b in ((f, f), (f, r), (r, r), (f, s), (r, s)))
        if not ff or not rr:
            return cls(fs / ff if ff else 0.0, rs / rr / FRAME_ROWS if rr else 0.0)
        pull = _PULL * min(ff, rr)
        ff, fr, rr = ff + pull, fr - pull, rr + pull
        determinant = ff * rr - fr * fr
        fixed, row = (fs * rr - rs * fr) / determinant, (rs * ff - fs * fr) / determinant
        if fixed < 0:
            fixed, row = 0.0, rs / rr
        elif row < 0:
            fixed, row = fs / ff, 0.0
        return cls(fixed, row / FRAME_ROWS)
