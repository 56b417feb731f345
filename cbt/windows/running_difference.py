"""`PAO₁₅ ⊖ PAO₅` (paper, section 2.2), repeated: frames are added to a running aggregate and subtracted from it."""

from collections import deque

import polars as pl

from cbt.algebra.columns import Aggregate
from cbt.layout.layout import Layout
from cbt.windows.merging import combined
from cbt.windows.subtraction import subtract_frames

_SUPPORT = "frames with the key"
_SUPPORT_STATE = f"{_SUPPORT}.n"


class RunningDifference:
    """A queue of frames with the combination of all, for invertible aggregates: a combine for each frame that enters, a
    subtraction for each that leaves, and no work for a value.

    Frames have the same pane, and their states subtract exactly. For each key the frames that have it are counted; a
    key without frames is dropped.
    """

    def __init__(self, layout: Layout) -> None:
        support = Aggregate(_SUPPORT, "count", None, "any")
        self._layout = Layout(layout.keys, [*layout.aggregates, support], layout.seed, layout.functions)
        self._frames: deque[pl.DataFrame] = deque()
        self._running = self._layout.empty()

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, frame: pl.DataFrame) -> None:
        """Adds a frame at the end. One combine."""
        counted = _counted(frame)
        self._frames.append(counted)
        self._running = combined(self._layout, [self._running, counted])

    def evict(self, count: int) -> None:
        """Drops the oldest frames. One subtraction, and a combine if there are several."""
        leaving = combined(self._layout, [self._frames.popleft() for _ in range(count)])
        left = subtract_frames(self._layout, self._running, leaving)
        self._running = left.filter(pl.col(_SUPPORT_STATE) != 0)

    def value(self) -> pl.DataFrame:
        """The combination of all frames. O(1)."""
        return self._running.drop(_SUPPORT_STATE)

    def frames(self) -> list[pl.DataFrame]:
        """The frames, the oldest first."""
        return [frame.drop(_SUPPORT_STATE) for frame in self._frames]

    @property
    def memory_bytes(self) -> int:
        return sum(int(frame.estimated_size()) for frame in (*self._frames, self._running))


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(1, dtype=pl.Int64).alias(_SUPPORT_STATE))
