"""`elf emit`: sends what other systems have into a keyed job, as events."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elf.commands.emit.event_files import ARROW, beginning, lines_of, table_of
from elf.errors import UsageError
from elf.options.fleet import app_argument, connected, socket_option
from elf.terminal.terminal import tell

EXAMPLES = """\b
Examples:
  elf emit top-words Quote quotes.json
  tail -F quotes.json | elf emit top-words Quote
  elf emit ctr Click clicks.arrow --time clicked_at

\b
A FILE (else standard input) has a JSON object a line, or is a stream or file of Arrow, of at most 1 GiB. Fields are
those of the type, as the job declares it; what is not there is NULL. The time of an event is that of its arrival, or is
in the field that --time names: milliseconds since the epoch, or text such as 2026-01-31T12:00:00Z.
"""


@click.command(epilog=EXAMPLES, short_help="Send events into a keyed job: JSON lines, or Arrow.")
@app_argument
@click.argument("type_name", metavar="TYPE")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--time", "time_field", metavar="FIELD", default="", help="The field with the time of an event.")
@click.option("--timeout", "timeout_s", metavar="S", default=60.0, show_default=True, type=click.FloatRange(0),
              help="End when a job without room, or its agents, have been waited for so long.")  # fmt: skip
@socket_option
def emit(app: str, type_name: str, file: Path | None, time_field: str, timeout_s: float, socket: Path | None) -> None:
    """Send events of a TYPE that the elements of the job APP read; it ends when all are safe in the job.

    Elements without a key get them in turn, agent by agent; others by their keys. An event that is none of the type
    ends it, with the line and the field; the events of batches before it are in the job then.
    """
    with connected(socket, None, ": what was acknowledged is in the job") as (client, _):
        data = sys.stdin.buffer if file is None or str(file) == "-" else file.open("rb")
        with data:
            head = beginning(data)
            try:
                rows = table_of(data, head) if head.startswith(ARROW) else lines_of(data, head)
                sent = client.emit(app, type_name, rows, at=time_field, patience_s=timeout_s)
            except UsageError as error:
                raise UsageError(f"{file or 'standard input'}: {error}") from None
    nothing = "" if sent else f": {file or 'standard input'} has none"
    tell(f"{sent:,} events of type {type_name} are in {app}{nothing}")
