"""The merging of frames that windows need of a layout, and the subtraction of some from others."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import polars as pl

from cbt.algebra.columns import Aggregate
from cbt.layout.group_limit import is_other
from cbt.layout.layout import Layout
from cbt.windows.subtraction import invertible, subtract_frames, subtracts_exactly

_SUPPORT = "frames with the key"
_SUPPORT_STATE = f"{_SUPPORT}.n"


class Mergeable(Protocol):
    """Merges frames into one: a `Layout`, or a layout with several rows for each key."""

    def empty(self) -> pl.DataFrame: ...

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame: ...


def combined(layout: Mergeable, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Combines frames by the layout, unless at most one of them has rows."""
    full = [frame for frame in frames if frame.height]
    if not full:
        return layout.empty()
    return full[0] if len(full) == 1 else layout.combine(full)


class Difference:
    """Adds frames of a layout and takes them off again (`PAO₁₅ ⊖ PAO₅`: paper, section 2.2), for invertible aggregates.

    For each key the panes that have it are counted in a column of their own; a key without panes is dropped, while one
    whose values are all NULL stays. More than `groups_max` groups are no frame that can be taken off: which are kept
    differs from frame to frame.
    """

    def __init__(self, layout: Layout, groups_max: int | None = None) -> None:
        support = Aggregate(_SUPPORT, "count", None, "any")
        self.layout = Layout(layout.keys, [*layout.aggregates, support], layout.seed, layout.functions)
        """The layout of the frames that are added and taken off."""
        self._layout = layout
        self._groups_max = groups_max
        self._has_other = is_other(layout).any() if layout.keys else None

    @classmethod
    def of(cls, layout: Mergeable, groups_max: int | None = None) -> "Difference | None":
        """The difference of a layout; None where its states cannot be subtracted."""
        return cls(layout, groups_max) if isinstance(layout, Layout) and invertible(layout) else None

    def takes(self, frame: pl.DataFrame) -> bool:
        """Whether adding this pane's frame and taking it off again leaves no trace. O(n)."""
        if not self.is_within_limit(frame):
            return False
        if self._has_other is not None and frame.height and frame.select(self._has_other).item():
            return False
        return subtracts_exactly(self._layout, frame)

    def is_within_limit(self, frame: pl.DataFrame) -> bool:
        """Whether a frame has no more groups than are kept. O(1)."""
        return self._groups_max is None or frame.height <= self._groups_max

    def counted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A pane's frame, as the others take and give frames."""
        return frame.with_columns(pl.lit(1, dtype=pl.Int64).alias(_SUPPORT_STATE))

    def plain(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame as the layout knows it."""
        return frame.drop(_SUPPORT_STATE)

    def merge(self, added: Sequence[pl.DataFrame], taken_off: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The combination of some frames without that of others, which are a part of it. O(rows)."""
        whole = combined(self.layout, added)
        if not taken_off:
            return whole
        left = subtract_frames(self.layout, whole, combined(self.layout, taken_off))
        return left.filter(pl.col(_SUPPORT_STATE) != 0)
