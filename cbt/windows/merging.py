"""Merging frames without work where there is nothing to merge."""

from collections.abc import Iterable
from typing import Protocol

import polars as pl


class Mergeable(Protocol):
    """What windows ask of a layout: merging frames into one."""

    def empty(self) -> pl.DataFrame: ...

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame: ...


def combined(layout: Mergeable, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """`layout.combine`, which is left alone where there is at most one frame that holds anything."""
    full = [frame for frame in frames if frame.height]
    if not full:
        return layout.empty()
    return full[0] if len(full) == 1 else layout.combine(full)
