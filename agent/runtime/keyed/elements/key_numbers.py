"""Numbers of the keys of elements that are code: with them, a program finds its elements by places in a list."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
import polars as pl

from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.runtime import DTYPES, NODE
from agent.runtime.keyed.elements.slots import Rows, SlotTable, Values

NUMBERED_MAX = 1 << 20
"""Number of keys from which on numbers begin anew, with 35 bytes for each."""


class KeyNumbers:
    """The keys that have had events here, by number. `numbering` changes when numbers begin anew, as they do where too
    many keys have one: the program has forgotten elements then, or has more of them than it is worth.
    """

    def __init__(self, element: Element, types: Mapping[str, EventType]) -> None:
        self._fields = {one.type: one.key or [] for one in element.inputs}
        first = element.inputs[0]
        kinds = dict(types[first.type].fields)
        self._schema = {f"key{place}": DTYPES[kinds[name]] for place, name in enumerate(first.key or [])}
        if element.grouping:  # parts of a key in several logical nodes are told apart
            self._schema[NODE] = pl.Int64()
            self._fields = {name: [*fields, NODE] for name, fields in self._fields.items()}
        self._begin()

    def _begin(self) -> None:
        self._table = _Identities(self._schema, {}, tracks=False)
        self.numbering = secrets.randbits(62)

    @property
    def count(self) -> int:
        """The number of keys that have a number."""
        return self._table.count

    def find(self, type_: str, rows: pl.DataFrame) -> bytes:
        """The number of each row's key (UInt32), empty where elements have no keys or a constant one. O(rows)."""
        if not self._schema:
            return b""
        if self.count >= NUMBERED_MAX:
            self._begin()
        named = zip(self._schema.items(), self._fields[type_], strict=True)
        columns = [rows[name].cast(dtype).alias(key) for (key, dtype), name in named]
        return self._table.find(pl.DataFrame(columns)).astype(np.uint32).tobytes()


class _Identities(SlotTable):
    """Keys and their numbers alone."""

    def _add(self, _: pl.DataFrame, slots: Rows, hashes: Values, checks: Values) -> None:
        missing = np.flatnonzero(slots < 0)
        self._make_room(len(missing))
        self.count += len(self._new_slots(slots, missing, hashes, checks))
