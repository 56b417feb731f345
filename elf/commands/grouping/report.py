"""Prints compared groupings: tables for people, an object or a row for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import msgspec
from rich import box
from rich.table import Table

from elf.rehearsal.comparison import Advice, GroupingFigures, advise
from elf.rehearsal.key_stream import KeyStream
from elf.terminal.console import open_console
from elf.terminal.terminal import printable

HOTTEST = 10
"""Keys that are shown."""
TITLES = ("WORKERS", "GROUPING", "TIME", "ENTRIES", "MEMORY", "P50", "P99")


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """All groupings with so many workers and sources."""

    workers: int
    sources: int
    groupings: list[GroupingFigures]

    @property
    def advice(self) -> Advice:
        return advise(self.groupings)


def print_report(stream: KeyStream, found: Sequence[Rehearsed], output: str) -> None:
    """Prints to standard output: a table (with the hottest keys and advice), JSON with an object for each number of
    workers, or CSV with a row for each grouping."""
    if output == "json":
        for one in found:
            sys.stdout.write(msgspec.json.encode(_object(stream, one)).decode() + "\n")
    elif output == "csv":
        writer = csv.DictWriter(
            sys.stdout, ["workers", "sources", "take", *GroupingFigures.__slots__], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(row for one in found for row in _rows(one))
    else:
        _print_tables(stream, found)
    sys.stdout.flush()


def _object(stream: KeyStream, one: Rehearsed) -> dict[str, object]:
    return {
        "workers": one.workers, "sources": one.sources, "events": len(stream), "keys": stream.keys,
        "hottest": [key._asdict() for key in stream.hottest(HOTTEST)],
        "groupings": [asdict(figures) for figures in one.groupings],
        "take": one.advice.grouping, "because": one.advice.sentence,
    }  # fmt: skip


def _rows(one: Rehearsed) -> list[dict[str, object]]:
    place = {"workers": one.workers, "sources": one.sources}
    return [{**place, "take": one.advice.grouping == row.grouping, **asdict(row)} for row in one.groupings]


def _print_tables(stream: KeyStream, found: Sequence[Rehearsed]) -> None:
    console = open_console(sys.stdout)
    sources = found[0].sources
    console.print(f"{len(stream):,} events of {stream.keys:,} keys, from {sources:,} sources", markup=False)
    console.print(_table(TITLES, [row for one in found for row in _shown(one)], left=(1,)))
    hottest = [(printable(key.key), f"{key.share:.2%}") for key in stream.hottest(HOTTEST)]
    console.print(_table(("HOTTEST KEYS", "SHARE"), hottest, left=(0,)))
    for one in found:
        workers = "1 worker" if one.workers == 1 else f"{one.workers:,} workers"
        console.print(f"{workers}: {one.advice.sentence}.", markup=False, soft_wrap=True)


def _shown(one: Rehearsed) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.workers:,}", row.grouping, f"{row.time:.3f}", f"{row.entries:,}", f"{row.memory:.2f}",
            f"{row.p50:,.1f}", f"{row.p99:,.1f}",
        )
        for row in one.groupings
    ]  # fmt: skip


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> Table:
    """A table without lines between its rows; columns but those that are `left` stand to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
