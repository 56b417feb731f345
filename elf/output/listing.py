"""Prints lists of things without windows: streams, jobs, columns, functions."""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from agent.access.owners import shown_owner
from agent.control.messages import JobEntry
from elf.terminal.terminal import printable, tell

Cell = str | int | float | None


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table without lines between its rows: numbers to the right, `-` for None; long texts are folded."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        known = [row[number] for row in rows if row[number] is not None]
        right = bool(known) and all(isinstance(value, int | float) for value in known)
        table.add_column(Text(title), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Cell) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(f"{value:,.1f}" if isinstance(value, float) else printable(value))


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under titles; `nothing` explains an empty list, `note` adds a remark. A table leaves out those columns of
    `optional` in which there is nothing."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    nothing: str
    note: str = ""
    optional: Collection[str] = ()

    def table(self) -> Table:
        """The table for people."""
        shown = [
            number
            for number, title in enumerate(self.titles)
            if title not in self.optional or any(row[number] for row in self.rows)
        ]
        return plain_table([self.titles[n] for n in shown], [[row[n] for n in shown] for row in self.rows])

    @property
    def names(self) -> list[str]:
        """Values of the first column."""
        return [str(row[0]) for row in self.rows]


def print_listing(listing: Listing, output: str) -> None:
    """Prints a listing as a table (also for `plot`), as JSON with an object per row, or as CSV."""
    from elf.terminal.console import open_console

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
        open_console(sys.stdout).print(listing.table())
    sys.stdout.flush()
    if text := " · ".join(part for part in ("" if listing.rows else listing.nothing, listing.note) if part):
        tell(printable(text))


TITLES = ("APP", "STREAM", "KIND", "AGENTS", "UP TO", "MASTER", "OWNER", "QUERY")


def listed_jobs(found: list[JobEntry]) -> Listing:
    """A list of jobs, each followed by its stages."""
    rows = [
        [
            job.app,
            job.stream,
            "once" if job.bounded else "live",
            f"{job.agents} of {job.expected}",
            job.frontier,
            job.master,
            job.creator or (shown_owner(job.owner) if job.owner else "-"),
            job.query,
        ]
        for job in _with_stages(found)
    ]
    return Listing(TITLES, rows, "the fleet runs no jobs, as far as this agent has heard")


def _with_stages(found: list[JobEntry]) -> list[JobEntry]:
    """Jobs in the agent's order, except that stages follow their job."""
    places: dict[tuple[str, str], int] = {}
    for job in found:
        places.setdefault((job.part_of or job.app, job.creator), len(places))
    return sorted(found, key=lambda job: (places[job.part_of or job.app, job.creator], bool(job.part_of)))
