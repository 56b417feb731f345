"""The interface that windows need of a layout."""

from collections.abc import Iterable
from typing import Protocol

import polars as pl


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
