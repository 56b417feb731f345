"""The look-up tables of an agent: small files of rows with which jobs join events, as JOIN table('products').

Each agent has its own, named in its `agent.toml`; `hold` brings their contents. An agent whose table is missing or
broken joins with the rows it has, perhaps none, and the panes it seals meanwhile are partial.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from agent.parsing import TIME, Format, SourceColumn, parser
from agent.runtime.function.join import JoinTable
from agent.sources import Block
from query import TableError

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class FileTable:
    """The rows of one file, as of its last reading."""

    form: Format
    blocks: tuple[Block, ...]

    def frames(self, columns: Iterable[SourceColumn]) -> Sequence[pl.DataFrame]:
        """The rows with their places as `@time`, in frames whose columns have one physical type each. O(bytes).

        A CSV column without a declared type is a column of numbers if all its values are numbers.
        """
        frames = self._parsed(columns)
        if self.form.has_header_line:
            numbers = {
                name for name in (one.name for one in columns if one.type == "any") if _are_numbers(frames, name)
            }
            if numbers:
                frames = self._parsed([replace(one, type="number") if one.name in numbers else one for one in columns])
        placed, place = [], 0
        for frame in frames:
            places = pl.Series(TIME, range(place, place + frame.height), dtype=pl.Int64)
            placed.append(frame.with_columns(places))
            place += frame.height
        return placed

    def _parsed(self, columns: Iterable[SourceColumn]) -> list[pl.DataFrame]:
        reader = parser(self.form, tuple(columns))
        return [frame for block in self.blocks for frame in reader.parse(block, 0).frames]


@dataclass(slots=True)
class _Held:
    """`revision` counts readings of the file; `is_broken`: its present contents are unusable, the rows are older."""

    table: FileTable | None = None
    revision: int = 0
    is_broken: bool = False


class FileTables:
    """The tables of one agent. `names` are its tables; `warn` is called with one that cannot be joined, and why."""

    def __init__(self, names: Iterable[str], warn: Callable[[str, str], None]) -> None:
        self._held = {name: _Held() for name in names}
        self._warn = warn

    def hold(self, name: str, table: FileTable | None) -> None:
        """Sets the rows of a table; None: its file is unusable."""
        held = self._held.setdefault(name, _Held())
        held.revision += 1
        held.is_broken = table is None
        if table is not None:
            held.table = table

    def keep_only(self, names: Collection[str]) -> None:
        """Has no other tables from now on: jobs that join with one that has gone keep its last rows, and say so."""
        for name in self._held.keys() - set(names):
            self.hold(name, None)

    def update(self, lookups: Iterable[JoinTable]) -> None:
        """Gives join tables the present rows of their files."""
        for lookup in lookups:
            if lookup.table is not None:
                self._update(lookup, lookup.table)

    def _update(self, lookup: JoinTable, name: str) -> None:
        held = self._held.get(name)
        if held is None:
            lookup.is_settled = True
            return
        if lookup.revision == held.revision:
            return
        lookup.revision, lookup.is_settled, lookup.lacks = held.revision, True, True
        if held.table is not None:
            try:
                lookup.hold_rows(held.table.frames(lookup.columns))
                lookup.lacks = held.is_broken
            except TableError as error:
                self._warn(name, str(error))


def _are_numbers(frames: Sequence[pl.DataFrame], name: str) -> bool:
    """Whether a column has values, and all of them are texts that are numbers."""
    texts = [frame[name].drop_nulls() for frame in frames]
    some = [column for column in texts if column.len()]
    return bool(some) and all(column.dtype == pl.String and column.str.contains(_NUMBER).all() for column in some)
