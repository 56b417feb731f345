"""`elf drain`: the planned end of an agent, which hands over what it has before it leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from agent.control.messages import DRAIN_PATIENCE_MAX_S, Drained, Draining
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.terminal.terminal import tell

PATIENCE_S = 60.0
EXAMPLES = """\b
Examples:
  elf drain && apt upgrade
  elf drain --patience 300 --output json
"""


@click.command(epilog=EXAMPLES, short_help="End an agent once it has handed over all it has.")
@click.option(
    "--patience", "patience_s", metavar="S", default=PATIENCE_S, show_default=True,
    type=click.FloatRange(0, DRAIN_PATIENCE_MAX_S), help="Upper bound on the wait until everything is handed over.",
)  # fmt: skip
@output_option("table", "json")
@socket_option
def drain(patience_s: float, output: str, socket: Path | None) -> None:
    """Let the agent hand over the jobs it leads and the state it has counted, leave the fleet, and end.

    Other agents expect it no more, and no window waits for it. Exit code 0: everything was handed over; 1: some was not
    within the patience, and the agent has ended without.
    """
    whole = False
    for answer in SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).drain(patience_s):
        if output == "json":
            click.echo(msgspec.json.encode(answer))
        match answer:
            case Draining(masters=masters, jobs=jobs) if output == "table":
                tell(f"to hand over: {_count(masters, 'job')} led, the agent's part of {_count(jobs, 'job')}")
            case Drained(whole=whole):
                pass
    if output == "table":
        click.echo("drained" if whole else "ended before everything was handed over; the agent's log says what")
    sys.exit(0 if whole else 1)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
