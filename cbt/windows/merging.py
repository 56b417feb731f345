"""What windows ask of a layout."""

from collections.abc import Iterable
from typing import Protocol

import polars as pl


class Mergeable(Protocol):
    """What merges frames into one: a `Layout`, or what keeps more rows for a key than one."""

    def empty(self) -> pl.DataFrame: ...

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame: ...


def combined(layout: Mergeable, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """`layout.combine`, which is left alone where there is at most one frame that holds anything."""
    full = [frame for frame in frames if frame.height]
    if not full:
        return layout.empty()
    return full[0] if len(full) == 1 else layout.combine(full)
