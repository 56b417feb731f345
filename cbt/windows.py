"""Panes: the smallest intervals that all windows of a job are made of, aligned to the Unix epoch."""

import polars as pl


def pane_of(time: pl.Expr, size_ms: int | None) -> pl.Expr:
    """The pane of each time: the pane's start. Both are Int64 ms since the Unix epoch; without a size there
    is one pane, 0.

    The division floors, so times before 1970 fall into the pane that starts before them. Times within
    `size_ms` of the ends of Int64 would wrap; parsed times never come near them. Raises ValueError for a size
    below 1.

    >>> pl.DataFrame({"time": [-1, 0, 31_000]}).select(pane_of(pl.col("time"), 30_000))["time"].to_list()
    [-30000, 0, 30000]
    """
    if size_ms is None:
        return time * 0
    if size_ms < 1:
        raise ValueError(f"a pane of {size_ms} ms has no length")
    return time // size_ms * size_ms
