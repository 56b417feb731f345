"""`elf tap`: a live sample of a stream."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from agent.control.messages import TAPPED_PER_S_MAX, Tapped, TapRequest
from elf.errors import UsageError
from elf.options.fleet import connected, output_option, socket_option, timeout_option
from elf.terminal.terminal import printable, printable_json, tell

EXAMPLES = """\b
Examples:
  elf tap web
  elf tap web --where "status >= 500"
  elf tap web --malformed --lines 10
"""


@click.command(epilog=EXAMPLES, short_help="Show new events of a stream, or its malformed lines.")
@click.argument("stream", metavar="STREAM")
@click.option("--malformed", is_flag=True, help="Show lines that are no event, or have no usable time, as they are.")
@click.option("--where", metavar="CONDITION", help="Show only events that this condition of ELF QL keeps.")
@click.option(
    "--per-second", "per_s", metavar="N", default=20, show_default=True, type=click.IntRange(1, TAPPED_PER_S_MAX),
    help="Show at most about N a second; others are counted.",
)  # fmt: skip
@click.option("--lines", "most", metavar="N", type=click.IntRange(1), help="End after N lines.")
@timeout_option
@output_option("table", "json")
@socket_option
def tap(
    stream: str, malformed: bool, where: str | None, per_s: int, most: int | None, timeout_s: float | None, output: str,
    socket: Path | None,
) -> None:  # fmt: skip
    """Show what comes into a stream of the agent, as it parses it: whether or not a job reads it, and without being in
    any job's way. Older lines are not shown. Events are JSON, a column each; control characters are spelled out.
    """
    if malformed and where is not None:
        raise UsageError("--where is about events: a malformed line is none")
    left = most
    with connected(socket, timeout_s) as (client, deadline):
        for tapped in client.tap(TapRequest(stream, malformed, where, per_s), deadline):
            left = _print(tapped, output, left)
            if left == 0:
                return
    raise click.exceptions.Exit(124)


def _print(tapped: Tapped, output: str, left: int | None) -> int | None:
    """Prints lines, no more than are left; returns the number that is left then."""
    shown = tapped.lines if left is None else tapped.lines[:left]
    for line in shown:
        if output == "json":
            sys.stdout.write(printable_json(msgspec.json.encode(line).decode()) + "\n")
        elif line.event is not None:
            sys.stdout.write(printable_json(msgspec.json.encode(line.event).decode()) + "\n")
        else:
            sys.stdout.write(f"{printable(line.place)}: {printable(line.line or '')}\n")
    sys.stdout.flush()
    if tapped.skipped and output == "table":
        tell(f"{tapped.skipped:,} more were not shown")
    return None if left is None else left - len(shown)
