"""`elf tap`: a live sample of a stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec

from agent.control.messages import TAPPED_PER_S_MAX, Tapped, TappedLine, TapRequest
from elf.errors import UsageError
from elf.options.fleet import connected, output_option, socket_option, timeout_option
from elf.terminal.terminal import printable, printable_json, tell

EXAMPLES = """\b
Examples:
  elf tap web
  elf tap web --where "status >= 500"
  elf tap web --malformed --lines 10
  elf tap web --all --where "status >= 500"
"""


@click.command(epilog=EXAMPLES, short_help="Show new events of a stream, or its malformed lines.")
@click.argument("stream", metavar="STREAM")
@click.option("--malformed", is_flag=True, help="Show lines that are no event, or have no usable time, as they are.")
@click.option("--where", metavar="CONDITION", help="Show only events that this condition of ELF QL keeps.")
@click.option(
    "--per-second", "per_s", metavar="N", default=20, show_default=True, type=click.IntRange(1, TAPPED_PER_S_MAX),
    help="Show at most about N a second, of each agent; others are counted.",
)  # fmt: skip
@click.option("--all", "everywhere", is_flag=True, help="Show the lines of all agents that have the stream.")
@click.option("--lines", "most", metavar="N", type=click.IntRange(1), help="End after N lines.")
@timeout_option
@output_option("table", "json")
@socket_option
def tap(
    stream: str, malformed: bool, where: str | None, per_s: int, most: int | None, everywhere: bool,
    timeout_s: float | None, output: str, socket: Path | None,
) -> None:  # fmt: skip
    """Show what comes into a stream of the agent, or of all, as it is parsed there: whether or not a job reads it, and
    without being in any job's way. Older lines are not shown. Events are JSON, a column each; control characters are
    spelled out. With --all each line begins with the name of its agent; at most 1,000 lines a second of all agents are
    shown, and an agent that cannot show any is named with the reason.
    """
    if malformed and where is not None:
        raise UsageError("--where is about events: a malformed line is none")
    left, told = most, Told()
    with connected(socket, timeout_s) as (client, deadline):
        for tapped in client.tap(TapRequest(stream, malformed, where, per_s, everywhere), deadline):
            left = _print(tapped, output, left, told)
            if left == 0:
                return
    raise click.exceptions.Exit(124)


@dataclass(slots=True)
class Told:
    """Agents whose silence or refusal has been told: it is told once, until it changes."""

    refused: dict[str, str] = field(default_factory=dict)
    silent: int = 0


def _print(tapped: Tapped, output: str, left: int | None, told: Told) -> int | None:
    """Prints lines, no more than are left; returns the number that is left then."""
    shown = tapped.lines if left is None else tapped.lines[:left]
    for line in shown:
        sys.stdout.write(f"{_line(line, output)}\n")
    sys.stdout.flush()
    if output == "table":
        _tell_losses(tapped)
    _tell_absent(tapped, told)
    return None if left is None else left - len(shown)


def _line(line: TappedLine, output: str) -> str:
    if output == "json":
        return printable_json(msgspec.json.encode(line).decode())
    agent = f"{printable(line.agent)}: " if line.agent else ""
    if line.event is not None:
        return agent + printable_json(msgspec.json.encode(line.event).decode())
    return f"{agent}{printable(line.place)}: {printable(line.line or '')}"


def _tell_losses(tapped: Tapped) -> None:
    if tapped.skipped:
        by = ", ".join(f"{printable(agent)} {count:,}" for agent, count in tapped.skipped_by.items())
        tell(f"{tapped.skipped:,} more were not shown" + (f" ({by})" if by else ""))


def _tell_absent(tapped: Tapped, told: Told) -> None:
    for agent, refusal in tapped.refused.items():
        if told.refused.get(agent) != refusal:
            tell(f"{printable(agent)} shows nothing: {printable(refusal)}")
    if tapped.silent > told.silent:
        tell(f"{tapped.silent} agents do not answer: their lines are not shown")
    told.refused, told.silent = dict(tapped.refused), tapped.silent
