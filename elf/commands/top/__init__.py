"""`elf top`: the fleet, its agents and its jobs, as they are now and again."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from agent.control.messages import Fleet, JobEntry
from elf.client.sync_client import SyncClient
from elf.options.fleet import connected, output_option, socket_option
from elf.terminal.terminal import can_be_drawn_over

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
@click.option("--every", "every_s", metavar="S", default=2.0, show_default=True, type=click.FloatRange(0.5, 3600),
              help="Seconds between two looks.")  # fmt: skip
@click.option("--rounds", metavar="N", type=click.IntRange(1), help="End after N looks.")
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
            _print_all(client, every_s, left)
            return
        _show_all(client, every_s, left, in_place=in_place)


def _look(client: SyncClient) -> Look:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Look(now, client.fleet(), client.jobs())


def _print_all(client: SyncClient, every_s: float, left: int | None) -> None:
    while True:
        click.echo(msgspec.json.encode(_look(client)))
        left = _wait(every_s, left)
        if left == 0:
            return


def _show_all(client: SyncClient, every_s: float, left: int | None, *, in_place: bool) -> None:
    from elf.output.fleet_table import fleet_table
    from elf.terminal.console import open_console
    from elf.terminal.live_region import LiveRegion

    console = open_console(sys.stdout)
    region = LiveRegion(console) if in_place else None
    try:
        while True:
            look = _look(client)
            if region is None:
                console.print(fleet_table(look.fleet, look.jobs, time.time(), None))
            else:
                region.show(fleet_table(look.fleet, look.jobs, time.time(), console.height))
            left = _wait(every_s, left)
            if left == 0:
                return
    finally:
        if region is not None:
            region.release()


def _wait(every_s: float, left: int | None) -> int | None:
    """Waits for the next look, unless this was the last one; returns the number of looks that are left."""
    left = None if left is None else left - 1
    if left != 0:
        time.sleep(every_s)
    return left
