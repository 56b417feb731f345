"""`elf grouping`: rehearses all groupings of keyed events over a log, and says which to take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import click

from agent.grouping import GROUPINGS, WORKERS_MAX
from agent.parsing import LINE_FORMATS
from agent.sources import STANDARD_INPUT
from elf.errors import UsageError
from elf.options.fleet import output_option
from elf.terminal.terminal import printable, tell

if TYPE_CHECKING:
    from elf.rehearsal.key_stream import KeyStream, Progress

SOURCES_MAX = 1024
FEW_ROWS = 100
"""Rows for each worker below which figures say little."""
EXAMPLES = """\b
Examples:
  elf grouping access.log --key path
  elf grouping events.json.gz --key user --workers 16,32,64,128
  elf grouping orders.csv --key customer,product --workers 32 --sources 8
  zcat events.json.gz | elf grouping - --key type --output json | jq .take

\b
Columns: TIME until all events are processed, in those of an even deal (shuffle). ENTRIES are states of keys at workers;
MEMORY is their number in those of one worker a key (fields). P50 and P99 are waits of events from arrival until they
are processed, in the times that a worker takes for one.
"""


def _numbers(_context: click.Context, _parameter: click.Parameter, typed: str) -> tuple[int, ...]:
    """Numbers of workers, of which several have commas between them."""
    try:
        numbers = tuple(map(int, typed.split(",")))
    except ValueError:
        raise click.BadParameter(f"{typed!r} is not a number, or several as in 16,128") from None
    if wrong := [one for one in numbers if not 1 <= one <= WORKERS_MAX]:
        raise click.BadParameter(f"{wrong[0]:,} workers: a stage has 1 to {WORKERS_MAX:,}")
    return tuple(dict.fromkeys(numbers))


@click.command(epilog=EXAMPLES, short_help="Compare the groupings of keyed events over a log.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--key", "keys", metavar="COLUMN[,COLUMN]", multiple=True, required=True,
              help="The column that events are keyed by, or several; NULL is a key.")  # fmt: skip
@click.option("--workers", metavar="N[,N]", callback=_numbers, default="16,128", show_default=True,
              help=f"How many workers the stage has, 1 to {WORKERS_MAX:,}; each number is compared.")  # fmt: skip
@click.option("--sources", metavar="N", type=click.IntRange(1, SOURCES_MAX),
              help="How many agents send events to them.  [default: 32, or 4 below 100,000 events]")  # fmt: skip
@click.option("--format", "source_format", type=click.Choice(["auto", *LINE_FORMATS]), default="auto",
              show_default=True, help="How lines are read; auto looks at each file's beginning.")  # fmt: skip
@output_option("table", "json", "csv")
def grouping(
    files: tuple[str, ...], keys: tuple[str, ...], workers: tuple[int, ...], sources: int | None, source_format: str,
    output: str,
) -> None:  # fmt: skip
    """Rehearse a stage KEYED BY columns over the events of FILEs, with each of the six groupings: how long it takes,
    how much memory, how long events wait, and which grouping to take.

    FILE may be `-` for standard input; .gz and .zst files are read as they are, formats as by elf local. Events come in
    the order of the files, as fast as the workers can just process them, and each takes a worker as long as any other.
    Nothing is sent anywhere: agents' own code chooses the workers, in virtual time.
    """
    columns = [name.strip() for one in keys for name in one.split(",")]
    if twice := [name for name in dict.fromkeys(columns) if columns.count(name) > 1]:
        raise UsageError(f"--key {printable(twice[0])}: name each column of the key once")
    if files.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once")
    stream = _read(files, columns, source_format)
    from elf.commands.grouping.report import Rehearsed, print_report
    from elf.rehearsal.comparison import compare, usual_sources

    if len(stream) < FEW_ROWS * max(workers):
        tell(f"elf grouping: {len(stream):,} events are few for {max(workers):,} workers: the figures are rough")
    sources = sources or usual_sources(len(stream))
    with _bar("rehearsing") as advance:
        steps = (partial(advance, done, len(workers) * len(GROUPINGS)) for done in count(1))
        found = [Rehearsed(one, sources, compare(stream, one, sources, lambda: next(steps)())) for one in workers]
    print_report(stream, found, output)


def _read(files: tuple[str, ...], columns: list[str], source_format: str) -> KeyStream:
    from elf.rehearsal.key_stream import KeyStream, read_columns

    malformed: list[int] = []
    with _bar("reading") as advance:
        stream = KeyStream.of(read_columns(files, columns, source_format, advance, malformed.append))
    if left_out := sum(malformed):
        tell(f"elf grouping: {left_out:,} malformed lines are left out")
    return stream


def _show_nothing(_done: int, _total: int) -> None:
    """Shows no progress."""


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    """Shows a bar on stderr while the block runs, where stderr is a terminal; the block says what is done, and of how
    much."""
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn(label), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
