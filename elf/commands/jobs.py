"""`elf jobs`: what the fleet runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from agent.control.messages import Job
from elf.asking import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.terminal import tell

EXAMPLES = """\b
Examples:
  elf jobs
  elf jobs --output json | jq -r 'select(.agents < .expected) | .app'

\b
Columns: AGENTS run the job, of how many on its roster; UP TO is where its last window ended.
NAME.STAGE is a stage of the job NAME.
"""


@click.command(epilog=EXAMPLES, short_help="List the fleet's jobs.")
@output_option("table", "json")
@socket_option
def jobs(output: str, socket: Path | None) -> None:
    """List the jobs of the fleet, as far as the agent has heard of them."""
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).jobs()
    if output == "json":
        for job in found:
            click.echo(msgspec.json.encode(job))
    elif found:
        _print(found)
    else:
        tell("the fleet runs no jobs, as far as this agent has heard")


def _print(found: list[Job]) -> None:
    from elf.output import terminal
    from elf.plain_table import plain_table

    rows = [
        [
            job.app,
            job.stream,
            "once" if job.bounded else "live",
            f"{job.agents} of {job.expected}",
            job.frontier,
            job.master,
            job.creator or "-",
            job.query,
        ]
        for job in _with_stages(found)
    ]
    titles = ["APP", "STREAM", "KIND", "AGENTS", "UP TO", "MASTER", "OWNER", "QUERY"]
    terminal(sys.stdout).print(plain_table(titles, rows))


def _with_stages(found: list[Job]) -> list[Job]:
    """In the order in which they were heard of, but for stages, which come after their job."""
    places: dict[tuple[str, str], int] = {}
    for job in found:
        places.setdefault((job.part_of or job.app, job.creator), len(places))
    return sorted(found, key=lambda job: (places[job.part_of or job.app, job.creator], bool(job.part_of)))
