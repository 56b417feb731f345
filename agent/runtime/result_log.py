"""The last results of a job, for followers that come back and for the next master."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from agent.runtime.panes import FIRST_PANE

RESULTS_MAX = 64
BYTES_MAX = 8 << 20


class ResultLog:
    """Results by pane, ascending, as JSON; the oldest go when there are too many or too large ones."""

    def __init__(self, results: Iterable[tuple[int, bytes]] = ()) -> None:
        self._results: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        for pane, json in results:
            self.append(pane, json)

    def append(self, pane: int, json: bytes) -> None:
        """Adds the newest result; one that is not newer than the last is passed over."""
        if self._results and pane <= self._results[-1][0]:
            return
        self._results.append((pane, json))
        self._bytes += len(json)
        while len(self._results) > RESULTS_MAX or (self._bytes > BYTES_MAX and len(self._results) > 1):
            self._bytes -= len(self._results.popleft()[1])

    @property
    def last(self) -> int:
        """The pane of the newest result."""
        return self._results[-1][0] if self._results else FIRST_PANE

    def after(self, pane: int) -> Iterator[tuple[int, bytes]]:
        """The results after a pane, in order."""
        return (result for result in self._results if result[0] > pane)

    def last_results(self, count: int) -> list[tuple[int, bytes]]:
        """The newest results, up to so many, in order."""
        return list(self._results)[-count:]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)
