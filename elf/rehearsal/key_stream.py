"""Streams of keys for rehearsals: read from log files as `elf local` reads them, or given as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

import cbt
import query
from agent.parsing import Format, SourceColumn, parser
from agent.sources import SourceError
from elf.errors import ElfError, UsageError
from elf.local import LocalOptions, LocalSource, catalog_of

STREAM = "log"
BLOCK_BYTES = 4 << 20
HASH_SEED = 0
"""Seed of the key hash: rehearsals have no fleet, whose seed it would be."""
SEPARATOR = " · "
"""Text between the columns of a key as people see it."""
_HASH, _KEY = "@hash", "@key"
Hashes = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int32]
Progress = Callable[[int, int], None]


class HotKey(NamedTuple):
    """A key as people see it, and its share of all events."""

    key: str
    share: float


class _Distinct(NamedTuple):
    """The different hashes of a stream ascending, the place of each event's among them, and how often each is there."""

    hashes: Hashes
    places: Indices
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyStream:
    """The hashes of the keys of events in order, and the keys as texts."""

    hashes: Hashes
    texts: pl.DataFrame

    @classmethod
    def of(cls, frames: Iterable[pl.DataFrame]) -> KeyStream:
        """The stream of frames whose columns are the key; NULL is a key like others. O(events)."""
        hashes: list[Hashes] = [np.empty(0, np.uint64)]
        texts = [pl.DataFrame(schema={_HASH: pl.UInt64, _KEY: pl.String})]
        for frame in frames:
            hashed = cbt.key_hash(frame, HASH_SEED)
            hashes.append(hashed.to_numpy())
            first = frame.with_columns(hashed.alias(_HASH)).unique(_HASH, keep="first", maintain_order=True)
            shown = pl.concat_str(pl.exclude(_HASH).cast(pl.String).fill_null("NULL"), separator=SEPARATOR)
            texts.append(first.select(_HASH, shown.alias(_KEY)))
        return cls(np.concatenate(hashes), pl.concat(texts).unique(_HASH, keep="first"))

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def _distinct(self) -> _Distinct:
        hashes, places, counts = np.unique(self.hashes, return_inverse=True, return_counts=True)
        return _Distinct(hashes, places.astype(np.int32), counts)

    @property
    def places(self) -> Indices:
        """The place of each event's key among all keys."""
        return self._distinct.places

    @property
    def keys(self) -> int:
        """The number of different keys."""
        return len(self._distinct.hashes)

    def hottest(self, most: int) -> list[HotKey]:
        """The most frequent keys, and their shares of all events."""
        distinct = self._distinct
        order = np.argsort(-distinct.counts, kind="stable")[:most]
        found = pl.DataFrame({_HASH: distinct.hashes[order]}).join(self.texts, _HASH, "left", maintain_order="left")
        shares = distinct.counts[order] / len(self.hashes)
        return [HotKey(*one) for one in zip(found[_KEY].to_list(), shares.tolist(), strict=True)]


def _nobody_told(*_numbers: int) -> None:
    """Takes numbers that nobody wants to know."""


def read_columns(
    paths: Sequence[str],
    columns: Sequence[str],
    source_format: str = "auto",
    progress: Progress = _nobody_told,
    malformed: Callable[[int], None] = _nobody_told,
) -> Iterator[pl.DataFrame]:
    """Yields the columns of the events in files, block by block, in order; JSON values of mixed types are put together
    within a block. `progress` gets bytes read and bytes in all, `malformed` numbers of lines that are no events.

    Blocks. Raises UsageError for files that cannot be opened and columns that no event has, ElfError for a file that
    breaks off.
    """
    inputs, catalog = catalog_of([LocalSource(STREAM, tuple(paths))], LocalOptions(0, source_format=source_format))
    schema = catalog[STREAM]
    if not schema.open and schema.columns:
        _check_columns(columns, set(), schema)
    valued: set[str] = set()
    rows = 0
    bytes_total = sum(one.file.bytes_total() or 0 for one in inputs)
    bytes_before = 0
    for one in inputs:
        reader = parser(one.format, [_column(name, one.format) for name in columns])
        try:
            for block in one.file.blocks(block_bytes=BLOCK_BYTES, csv_quotes=one.format.quotes_span_lines):
                parsed = reader.parse(block, 0)
                malformed(parsed.malformed + block.overlong)
                for frame in parsed.frames:
                    valued |= {name for name in columns if frame[name].null_count() < frame.height}
                    rows += frame.height
                    yield frame.select(columns)
                progress(bytes_before + one.file.progress.bytes_read, bytes_total)
        except SourceError as error:
            raise ElfError(str(error)) from error
        bytes_before += one.file.progress.bytes_read
    if not rows:
        raise UsageError(f"{', '.join(paths)}: no events to read keys of: name a log that has some")
    _check_columns(columns, valued, schema)


def _column(name: str, form: Format) -> SourceColumn:
    """The column of a name: with dots, a path through nested objects where the format has them."""
    return SourceColumn(name, (name,) if form.has_header_line else tuple(name.split(".")), "any")


def _check_columns(columns: Sequence[str], valued: set[str], schema: query.Schema) -> None:
    """Raises UsageError for the first column that is neither in the schema nor has a value."""
    for name in columns:
        if name not in valued and name not in schema.columns:
            guess = query.nearest(name, schema.columns)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(schema.columns) or 'none'}"
            raise UsageError(f"--key {name}: no event has this column: {hint}")
