"""Limits how often something may happen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Allowance:
    """Allows `burst` at once, then `per_s` on average. `refused` counts refusals since the last look."""

    per_s: float
    burst: float
    refused: int = 0
    _left: float = -1.0
    _at: float = 0.0

    def take(self, now: float) -> bool:
        """Whether once more is allowed.

        >>> allowance = Allowance(per_s=1, burst=2)
        >>> [allowance.take(0.0) for _ in range(3)], allowance.take(1.0), allowance.refused
        ([True, True, False], True, 1)
        """
        left = self.burst if self._left < 0 else min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        self._left = left - 1 if left >= 1 else left
        self.refused += left < 1
        return left >= 1

    def take_refused(self) -> int:
        """The number of refusals, and counts anew."""
        refused, self.refused = self.refused, 0
        return refused
