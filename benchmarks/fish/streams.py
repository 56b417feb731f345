"""Streams of keys: Zipf-distributed ones whose ranks turn round, and those of real logs, where these are."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import cbt
from benchmarks.environment import ROOT
from elf.rehearsal.comparison import usual_sources
from elf.rehearsal.key_stream import HASH_SEED, Hashes, Indices, KeyStream, read_columns

REAL_LOGS = Path(os.environ.get("ELF_REAL_LOGS", ROOT.parent / "shared" / "data"))
ZIPF = "zipf"
ZIPF_KEYS = 100_000
TURNING_POINT = 0.8
"""Share of a Zipf stream after which the most frequent key is the rarest, and so on."""
EXPONENTS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
Split = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Rows:
    """A stream of keys: their hashes and their numbers, row by row, and how many sources send it."""

    hashes: Hashes
    keys: Indices
    sources: int


@dataclass(frozen=True)
class Stream:
    """A named stream, of which each run has its own rows."""

    name: str
    rows_of_run: Callable[[int], Rows]
    random: bool
    """Whether runs differ; else there is one."""


def zipf(exponent: float, rows: int) -> Stream:
    """Keys whose share falls with this power of their rank."""
    return Stream(f"{ZIPF} {exponent}", partial(_zipf_rows, exponent, rows), True)


def _zipf_rows(exponent: float, rows: int, run: int) -> Rows:
    chance = np.random.default_rng([run, round(exponent * 10)])
    weights = np.arange(1.0, ZIPF_KEYS + 1) ** -exponent
    bounds = np.cumsum(weights / weights.sum())
    ranks = np.minimum(np.searchsorted(bounds, chance.random(rows)), ZIPF_KEYS - 1)
    turned = int(rows * TURNING_POINT)
    ranks[turned:] = ZIPF_KEYS - 1 - ranks[turned:]
    keys = chance.permutation(ZIPF_KEYS).astype(np.int32)[ranks]
    hashes = cbt.key_hash([pl.Series(np.arange(ZIPF_KEYS))], HASH_SEED).to_numpy()
    return Rows(hashes[keys], keys, usual_sources(rows))


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def _there(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with a value."""
    return frame.drop_nulls()


def _pieces(pattern: str, frame: pl.DataFrame) -> pl.DataFrame:
    """All matches in texts, one after the other."""
    (column,) = frame.get_columns()
    return column.cast(pl.String).drop_nulls().str.extract_all(pattern).explode().drop_nulls().to_frame()


def _words(frame: pl.DataFrame) -> pl.DataFrame:
    (column,) = frame.get_columns()
    return _pieces(r"\w+", column.cast(pl.String).str.to_lowercase().to_frame())


def _of_commits(frame: pl.DataFrame) -> pl.DataFrame:
    """The words of the messages in lists of commits."""
    (column,) = frame.get_columns()
    listed = column.cast(pl.String).drop_nulls().str.json_decode(pl.List(pl.Struct({"message": pl.String})))
    commits = listed.explode().drop_nulls()
    return _words(commits.struct.field("message").to_frame())


@dataclass(frozen=True, slots=True)
class _Log:
    """The column of a real log that is the key, and how its values become keys."""

    name: str
    file: str
    column: str
    split: Split = _as_it_is


RETAIL, WIKI, GITHUB = "retail/transactions.csv.gz", "wiki/edits.json.gz", "github/events.json.gz"
_LOGS = (
    _Log("retail words", RETAIL, "Description", partial(_pieces, r"\S+")),
    _Log("retail stock codes", RETAIL, "StockCode"),
    _Log("retail customers", RETAIL, "CustomerID", _there),
    _Log("wiki words", WIKI, "comment", _words),
    _Log("wiki users", WIKI, "user"),
    _Log("github commit words", GITHUB, "payload.commits", _of_commits),
)


def real_streams() -> Iterator[Stream]:
    """Yields the streams of the real logs that are there."""
    for log in _LOGS:
        if (REAL_LOGS / log.file).is_file():
            yield Stream(log.name, partial(_rows_of, log), False)


def _rows_of(log: _Log, _run: int) -> Rows:
    stream = KeyStream.of(map(log.split, read_columns([str(REAL_LOGS / log.file)], [log.column])))
    return Rows(stream.hashes, stream.places, usual_sources(len(stream)))
