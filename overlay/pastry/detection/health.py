"""The health of this node itself, so that it does not blame others for its own slowness (Lifeguard).

Theory. A node that is overloaded, or whose own link loses messages, sees silence everywhere. Signs of this are: its
timers are late; a peer that it asked helpers to ping stays silent, and no helper reports even a failure; it is notified
that it is suspected. Each sign adds a point, each answer in time takes one away. The higher the score, the longer the
timeouts and the rarer the pings.
"""

SCORE_MAX = 7


class Health:
    """A score from 0, healthy, to SCORE_MAX.

    >>> health = Health()
    >>> health.worsen(2); health.improve(); health.factor
    2.0
    """

    def __init__(self) -> None:
        self.score = 0

    def worsen(self, points: int = 1) -> None:
        """Add points for signs that this node is the cause of the trouble."""
        self.score = min(SCORE_MAX, self.score + points)

    def improve(self) -> None:
        """Take a point away: a peer answered in time."""
        self.score = max(0, self.score - 1)

    @property
    def factor(self) -> float:
        """Factor by which timeouts are stretched."""
        return 1.0 + self.score
