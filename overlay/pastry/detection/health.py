"""How well this node itself is, so that it does not blame others for its own slowness (Lifeguard).

Theory. A node that is short of time, or whose own link loses much, sees silence everywhere. What speaks for that: its
timers are late; a peer that it asked others to ping stays silent, and none of those others even says that it
failed; it hears that it is suspected itself. Each of these is a point, each answer that came in time takes one
away. The worse the score, the more time others have, and the more seldom they are asked.
"""

SCORE_MAX = 7


class Health:
    """A score from 0, well, to SCORE_MAX.

    >>> health = Health()
    >>> health.worsen(2); health.improve(); health.factor
    2.0
    """

    def __init__(self) -> None:
        self.score = 0

    def worsen(self, points: int = 1) -> None:
        """Note signs that this node is the one in trouble."""
        self.score = min(SCORE_MAX, self.score + points)

    def improve(self) -> None:
        """Note that a peer answered in time."""
        self.score = max(0, self.score - 1)

    @property
    def factor(self) -> float:
        """By how much waiting times are stretched."""
        return 1.0 + self.score
