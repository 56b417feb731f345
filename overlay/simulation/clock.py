"""The clock of one simulated process, which may jump and run fast or slow."""

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Shows `shown` at the true time `since` and advances by `rate` seconds per second from then on.

    >>> clock = Clock()
    >>> clock.change(now=10.0, jump_s=5.0, rate=2.0)
    >>> clock.read(10.0), clock.read(11.0), clock.when(17.0)
    (15.0, 17.0, 11.0)
    """

    since: float = 0.0
    shown: float = 0.0
    rate: float = 1.0

    def read(self, now: float) -> float:
        """Return what the clock shows at a true time."""
        return self.shown + (now - self.since) * self.rate

    def when(self, shown: float) -> float:
        """Return the true time at which the clock shows a time."""
        return self.since + (shown - self.shown) / self.rate

    def change(self, now: float, *, jump_s: float = 0.0, rate: float | None = None) -> None:
        """Set the clock forward or back, and its rate."""
        self.shown = self.read(now) + jump_s
        self.since = now
        self.rate = self.rate if rate is None else rate
