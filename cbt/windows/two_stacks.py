"""Two stacks that make a queue with its aggregate always at hand, without subtracting.

The *back* takes new frames and has a running aggregate. The *front* has, for each of its frames, the aggregate from
there to the front's end, so that dropping the oldest is a pop. When the front is empty, the back is turned over into
it.
"""

from collections.abc import Iterable

import polars as pl

from cbt.windows.merging import Mergeable, combined


class TwoStacks:
    """A queue of frames with the combination of all, for aggregates of any kind.

    Frames have one and the same pane. Amortised at most two combines a frame, and one for each value; up to one
    for each frame of the queue at once, when the stacks are turned over.
    """

    def __init__(self, layout: Mergeable, frames: Iterable[pl.DataFrame] = ()) -> None:
        self._layout = layout
        self._front: list[pl.DataFrame] = []  # the last is the aggregate of the whole front
        self._back: list[pl.DataFrame] = []
        self._total = layout.empty()  # the back's aggregate
        for frame in frames:
            self.push(frame)

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def push(self, frame: pl.DataFrame) -> None:
        """Adds a frame at the end. One combine."""
        self._back.append(frame)
        self._total = combined(self._layout, [self._total, frame])

    def evict(self, count: int) -> None:
        """Drops the oldest frames. One combine for each remaining frame, once in its life, as the stacks are turned
        over."""
        popped = min(count, len(self._front))
        del self._front[len(self._front) - popped :]
        if popped < count:
            self._turn_over(self._back[count - popped :])

    def _turn_over(self, frames: list[pl.DataFrame]) -> None:
        aggregate = self._layout.empty()
        for frame in reversed(frames):
            aggregate = combined(self._layout, [aggregate, frame])
            self._front.append(aggregate)
        self._back, self._total = [], self._layout.empty()

    def value(self) -> pl.DataFrame:
        """The combination of all frames. One combine."""
        return combined(self._layout, [*self._front[-1:], self._total])

    @property
    def memory_bytes(self) -> int:
        return sum(int(frame.estimated_size()) for frame in (*self._front, *self._back, self._total))
