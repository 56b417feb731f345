"""`elf elements`: the processing elements of a keyed job, and the state of one."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, optional_app_argument, output_option, socket_option

EXAMPLES = """\b
Examples:
  elf elements
  elf elements top-words
  elf elements top-words --hosts
  elf elements top-words --key said --element Count
  elf elements ctr --key shoes --key ad-7 --output json | jq .state

\b
Columns: HOSTS have logical nodes of the job, NODES that many each; ELEMENTS are the values of the key in memory.
QUEUE waits to be processed. EVICTED elements were removed for memory or by their time to live, SHED events were left
out at the job's entry, LOST logical nodes began anew without their state. Code has raised at FAILED events, MISSED ones
were late. LAG is the age of the oldest input that is not committed yet. Tables leave out columns in which all is 0.
"""


@click.command(epilog=EXAMPLES, short_help="Look into a keyed job: its elements, their hosts, the state of one.")
@optional_app_argument
@click.option("--key", metavar="V", multiple=True,
              help="Show the state of the elements of this value of the key; once for each of its fields.")  # fmt: skip
@click.option("--element", metavar="NAME", default="", help="With --key: of this element alone.")
@click.option("--hosts", is_flag=True, help="One row for each element and agent.")
@output_option("table", "json", "csv")
@socket_option
def elements(
    app: str | None, key: tuple[str, ...], element: str, output: str, socket: Path | None, *, hosts: bool
) -> None:
    """Show the processing elements of a keyed job over all agents, or the state of those with one key; without APP, the
    elements of all jobs that you may read.

    With --output json there is one line for each element and agent, or for each state.
    """
    if element and not key:
        raise click.UsageError("--element names the one to show the state of: give the value of its key with --key")
    if key and app is None:
        raise click.UsageError("--key shows elements of one job: name it, as in elf elements APP --key V")
    client = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S)
    found = client.elements(app, key=key or None, element=element)
    from elf.output.element_table import listed_elements, shown_state
    from elf.output.listing import print_listing

    if not key and output != "json":
        print_listing(listed_elements(found, by_host=hosts), output)
    elif output == "table":
        click.echo("\n".join(map(shown_state, found.states)))
    else:
        for one in found.states if key else found.elements:
            sys.stdout.write(msgspec.json.encode(one).decode() + "\n")
