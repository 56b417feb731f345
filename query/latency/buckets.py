"""The buckets that durations are counted in: one grid for what is measured and for what is predicted.

Bucket 0 is [0, 10 µs); each that follows is 5 % longer than the one before; the last one is all of about an hour and
beyond.
"""

from __future__ import annotations

import math
from bisect import bisect_right

GROWTH = 1.05
"""Ratio of a bucket's upper edge to its lower one."""
SHORTEST_US = 10
"""Duration (µs) below which durations are not told apart."""
_HOUR_US = 3_600_000_000
EDGES_US = (
    0.0,
    *(SHORTEST_US * GROWTH**i for i in range(math.ceil(math.log(_HOUR_US / SHORTEST_US, GROWTH)) + 1)),
)
"""Edges of buckets (µs), ascending: bucket i is from edge i to edge i + 1; the last edge is about an hour."""
BUCKETS = len(EDGES_US)
"""Number of buckets, the one beyond the last edge included."""
LONGEST_US = math.floor(EDGES_US[-1]) + 1
"""Duration (µs) as which all longer ones count; it is in the last bucket."""


def bucket_of(duration_us: float) -> int:
    """The bucket of a duration that is not negative. O(log buckets).

    >>> bucket_of(0), bucket_of(10), bucket_of(1_000_000), bucket_of(1e18) == BUCKETS - 1
    (0, 1, 236, True)
    """
    return bisect_right(EDGES_US, duration_us) - 1


def bucket_bounds_us(bucket: int) -> tuple[int, int]:
    """Whole numbers of microseconds between which all durations of a bucket are."""
    return math.floor(EDGES_US[bucket]), math.ceil(EDGES_US[bucket + 1]) if bucket + 1 < BUCKETS else LONGEST_US
