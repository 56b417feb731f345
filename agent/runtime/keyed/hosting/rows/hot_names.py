"""Remembers the keys behind the hashes that a grouping takes for hot, so that people can be told which they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from agent.grouping import Grouping, HotKeys
from agent.runtime.keyed.logical_nodes import Hashes

HOT_SHOWN = 10
"""Hot keys of a route that are named, at most."""
KEY_CHARACTERS = 100
"""Characters of a key that are kept."""
LOOK_S = 0.25
"""Interval between two looks at which keys are hot."""


class NamedKey(NamedTuple):
    """A hot key as text, its estimated share of this agent's events, and the workers that it may go to."""

    key: str
    share: float
    workers: int


class HotNames:
    """The names of one route's hot keys. `fields`: of the key, each with its type."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._names: dict[int, str] = {}
        self._look_at = 0.0

    def note(self, grouping: Grouping, rows: pl.DataFrame, hashes: Hashes, now: float) -> None:
        """Looks in rows for the keys that have become hot."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        hot = grouping.hot_keys().hashes[:HOT_SHOWN]
        self._names = {one: self._names[one] for one in hot.tolist() if one in self._names}
        unnamed = hot[~np.isin(hot, np.fromiter(self._names, np.uint64, len(self._names)))]
        if not len(unnamed):
            return
        places = np.flatnonzero(np.isin(hashes, unnamed))
        found, firsts = np.unique(hashes[places], return_index=True)
        for one, row in zip(found.tolist(), places[firsts].tolist(), strict=True):
            values = rows[row, [*self._fields]].row(0)
            named = (_text(value, kind) for value, kind in zip(values, self._fields.values(), strict=True))
            self._names[one] = ", ".join(named)[:KEY_CHARACTERS]

    def named(self, hot: HotKeys) -> list[NamedKey]:
        """Names the hot keys that have been seen since they are hot, the hottest first."""
        about = zip(hot.hashes.tolist(), hot.shares.tolist(), hot.parts.tolist(), strict=True)
        found = (NamedKey(self._names[one], share, parts) for one, share, parts in about if one in self._names)
        return [one for _, one in zip(range(HOT_SHOWN), found, strict=False)]


def _text(value: object, kind: str) -> str:
    """A value of a key as people read it; of any type it is canonical JSON, and a text among these has quotes."""
    if kind == "any" and isinstance(value, str) and value.startswith('"'):
        value = msgspec.json.decode(value)
    return "NULL" if value is None else str(value)
