"""Chooses rows of frames that are often small."""

from __future__ import annotations

import numpy as np
import polars as pl

from agent.runtime.keyed.hosting.options import Bools


def where(rows: pl.DataFrame, chosen: Bools) -> pl.DataFrame:
    """The rows for which this is true; the same frame where it is so for all. O(rows)."""
    if chosen.all():
        return rows
    places = np.flatnonzero(chosen)
    return rows[places] if len(places) else rows.clear()
