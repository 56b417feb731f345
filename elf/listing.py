"""Lists of things that have no windows: streams, jobs, columns, functions."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from elf.plain_table import Cell, plain_table
from elf.terminal import printable, tell


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under titles; `nothing` says what it means that there are none, `note` what else is to be known."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    nothing: str
    note: str = ""

    @property
    def names(self) -> list[str]:
        """What stands in the first column."""
        return [str(row[0]) for row in self.rows]


def print_listing(listing: Listing, output: str) -> None:
    """Prints it as a table, for want of a chart also as `plot`; as JSON, an object a row; or as CSV."""
    from elf.output import terminal

    keys = [title.lower().replace(" ", "_") for title in listing.titles]
    if output == "json":
        for row in listing.rows:
            sys.stdout.write(msgspec.json.encode(dict(zip(keys, row, strict=True))).decode() + "\n")
    elif output == "csv":
        safe = printable if sys.stdout.isatty() else str
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(keys)
        writer.writerows([["" if cell is None else safe(str(cell)) for cell in row] for row in listing.rows])
    elif listing.rows:
        terminal(sys.stdout).print(plain_table(listing.titles, listing.rows))
    sys.stdout.flush()
    if text := " · ".join(part for part in ("" if listing.rows else listing.nothing, listing.note) if part):
        tell(printable(text))
