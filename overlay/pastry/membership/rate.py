"""Rate limiting with a token bucket."""


class Rate:
    """Allows `per_s` actions per second in the long run, and `burst` at once.

    >>> rate = Rate(per_s=2.0, burst=2)
    >>> [rate.allows(now) for now in (0.0, 0.1, 0.2, 0.6)]
    [True, True, False, True]
    """

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def allows(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        since = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(self._burst, self._tokens + since * self._per_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
