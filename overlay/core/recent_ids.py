"""A bounded set of recent message ids, so that a message that arrives twice is applied once."""

RECENT_IDS_MAX = 8192


class RecentIds:
    """Remembers the last `size` ids added.

    >>> recent = RecentIds(size=2)
    >>> [recent.add(identifier) for identifier in (1, 1, 2, 3, 1)]
    [True, False, True, True, True]
    """

    def __init__(self, size: int = RECENT_IDS_MAX) -> None:
        self._size = size
        self._ids: dict[int, None] = {}

    def add(self, identifier: int) -> bool:
        """Remember the id; return whether it was new. O(1)."""
        if identifier in self._ids:
            return False
        self._ids[identifier] = None
        if len(self._ids) > self._size:
            del self._ids[next(iter(self._ids))]
        return True

    def __len__(self) -> int:
        return len(self._ids)
