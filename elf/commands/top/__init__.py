"""`elf top`: the fleet, its agents and its jobs, as they are now and again."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from agent.control.messages import Fleet, JobEntry
from elf.client.sync_client import SyncClient
from elf.options.fleet import connected, every_option, output_option, rounds_option, socket_option
from elf.terminal.looks import looks, show_looks
from elf.terminal.terminal import can_be_drawn_over

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = """\b
Examples:
  elf top
  elf top --rounds 1
  elf top --output json --every 10 | jq '.fleet.agents | map(.events_per_s) | add'

\b
Columns: LAG is the time since the end of the last window that is out, of an agent's jobs the longest. The agents with
most events and the jobs that lag most come first; the rest is counted below.
"""


class Look(msgspec.Struct, frozen=True):
    """One look at the fleet, as `--output json` prints it."""

    time: str
    fleet: Fleet
    jobs: list[JobEntry]


@click.command(epilog=EXAMPLES, short_help="Watch the fleet: agents, rates, jobs, lags.")
@every_option
@rounds_option
@output_option("table", "json")
@socket_option
def top(every_s: float, rounds: int | None, output: str, socket: Path | None) -> None:
    """Watch the fleet: what each agent reads and leads, and how far each job is.

    Every look asks all agents. Without a terminal it looks once, unless --rounds says more.
    """
    in_place = output == "table" and can_be_drawn_over(sys.stdout)
    left = rounds if rounds is not None or in_place or output == "json" else 1
    with connected(socket, None) as (client, _):
        if output == "json":
            for _ in looks(every_s, left):
                click.echo(msgspec.json.encode(_look(client)))
            return
        from elf.output.fleet_table import fleet_table

        def drawn(height: int | None) -> RenderableType:
            look = _look(client)
            return fleet_table(look.fleet, look.jobs, time.time(), height)

        show_looks(drawn, every_s, left, in_place=in_place)


def _look(client: SyncClient) -> Look:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Look(now, client.fleet(), client.jobs())
