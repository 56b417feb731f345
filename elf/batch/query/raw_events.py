"""Turns rows of the archive back into events: parses the original lines with the agents' parsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from agent.archive.format.segments import EVENTS, FORMAT, LINE, STREAM, TIME
from agent.parsing import Format, Parsed, Parser, SourceColumn, parser
from agent.sources import Block, Origin

COLUMNS = (STREAM, TIME, FORMAT, EVENTS, LINE)
"""Columns to read from the archive."""
_IN_THE_MIDDLE = 1
"""Offset of a block that does not begin its file, so that its first line is no header."""


@dataclass(frozen=True, slots=True)
class StreamEvents:
    """Parsed events of one stream."""

    stream: str
    parsed: Parsed


class RawEvents:
    """Parses rows; `columns` gives the columns needed of a stream's events."""

    def __init__(self, columns: Callable[[str], Sequence[SourceColumn]]) -> None:
        self._columns = columns
        self._parsers: dict[tuple[str, str], tuple[Format, Parser]] = {}

    def read(self, rows: pa.RecordBatch) -> Iterator[StreamEvents]:
        """The events of rows; rows with the same stream and format are parsed together. O(bytes)."""
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        for alike in _alike(frame, [STREAM, FORMAT]):
            stream, encoded = alike[STREAM][0], alike[FORMAT][0]
            yield from (StreamEvents(stream, parsed) for parsed in self._parse(stream, encoded, alike))

    def _parse(self, stream: str, encoded: str, rows: pl.DataFrame) -> Iterator[Parsed]:
        form, reader = self._parser(stream, encoded)
        # A malformed line must not become an event together with others. Blank lines have no count.
        events = rows.filter(rows[EVENTS] > 0) if rows[EVENTS].null_count() or rows[EVENTS].min() == 0 else rows
        if malformed := int((rows[EVENTS] == 0).sum()):
            yield Parsed((), malformed)
        # An event without a time of its own has the time of its arrival, which its row holds.
        together = (
            [EVENTS] if form.time_field is not None or form.traits.fixed_time_field is not None else [EVENTS, TIME]
        )
        for alike in _alike(events, together):
            yield reader.parse(_block(alike[LINE]), alike[TIME][0])

    def _parser(self, stream: str, encoded: str) -> tuple[Format, Parser]:
        key = (stream, encoded)
        if key not in self._parsers:
            form = msgspec.json.decode(encoded, type=Format)
            self._parsers[key] = (form, parser(form, self._columns(stream)))
        return self._parsers[key]


def _alike(rows: pl.DataFrame, columns: list[str]) -> list[pl.DataFrame]:
    """Partitions rows by equal values in these columns. O(n)."""
    different = [name for name in columns if rows[name].n_unique() > 1]
    if rows.is_empty() or not different:
        return [rows] if rows.height else []
    return rows.partition_by(different, maintain_order=True)


def _block(lines: pl.Series) -> Block:
    values = lines.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")
    return Block(joined[0].as_py() + b"\n", Origin("", _IN_THE_MIDDLE), 0)
