"""What windows ask of a layout."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import polars as pl

from cbt.layout import Layout
from cbt.pao import Pao


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


def paos_of(layout: Layout) -> Sequence[Pao]:
    """The algebra of each of the layout's aggregates."""
    return layout._paos
