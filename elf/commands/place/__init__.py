"""`elf place`: the owners of a job's key groups, and moves from one to another."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.shell_completion import CompletionItem

from agent.runtime.model.fields import GROUPS
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.errors import ElfError
from elf.options.fleet import ANSWER_TIMEOUT_S, COMPLETION_TIMEOUT_S, app_argument, output_option, socket_option
from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from agent.runtime.model.fields import Mode

EXAMPLES = """\b
Examples:
  elf place top-products
  elf place top-products --move 0-7,12 --to web-5
  elf place top-products --move 3 --to web-2 --mode smooth
  elf place top-products --output json | jq -c 'select(.type == "owner")'

\b
Modes:
  instant     panes from the next ones on are the new owner's; the master merges open windows of both owners' panes
  smooth      the old owner finishes the windows that are open, of panes that both get
  disruptive  the new owner waits for what the old one has of open windows, and goes on alone
"""


def _groups(_context: click.Context, _parameter: click.Parameter, text: str | None) -> list[int] | None:
    """Key groups and runs of them, with commas between them. Raises click.BadParameter."""
    if text is None:
        return None
    groups: set[int] = set()
    for part in map(str.strip, text.split(",")):
        first, dash, last = map(str.strip, part.partition("-"))
        numbers = (first, last) if dash else (first,)
        if not all(number.isascii() and number.isdigit() and len(number) < 4 for number in numbers):
            raise click.BadParameter(f"{part!r} is no key group: write them like 3,8-15")
        least, most = int(numbers[0]), int(numbers[-1])
        if most >= GROUPS:
            raise click.BadParameter(f"there is no key group {most}: they are 0 to {GROUPS - 1}")
        if least > most:
            raise click.BadParameter(f"{part} ends before it begins")
        groups.update(range(least, most + 1))
    return sorted(groups)


def _agent_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the fleet's agents, if they answer in time."""
    with suppress(ElfError):
        agents = SyncClient(control_socket(context.params.get("socket")), COMPLETION_TIMEOUT_S).fleet().agents
        names = [one.agent for one in agents if one.agent == printable(one.agent)]
        return [CompletionItem(name) for name in names if name.startswith(typed)]
    return []


@click.command(epilog=EXAMPLES, short_help="Show the owners of a job's key groups, and move groups.")
@app_argument
@click.option("--move", "groups", metavar="GROUPS", callback=_groups, help="Move these key groups, as 3 or 0-7,12.")
@click.option("--to", metavar="AGENT", shell_complete=_agent_names,
              help="The agent that is to own them: its name, or its node id.")  # fmt: skip
@click.option("--mode", type=click.Choice(("instant", "smooth", "disruptive")), help="[default: instant]")
@output_option("table", "json")
@socket_option
def place(
    app: str, groups: list[int] | None, to: str | None, mode: Mode | None, output: str, socket: Path | None
) -> None:
    """Show which agents make the windows of the job APP: the owners of its trees and its 64 key groups, the rows that
    they get in a second, the moves, and where its windows are merged, with what that and the other way costs.

    With --move and --to, key groups move to another agent first; what is shown then holds already. No window is left
    out for that. An agent that owns nothing yet is given a tree of its own, which takes a few seconds. A query is its
    owner's to move, and anybody's who may operate it. With --output json each owner, group and move is a line.
    """
    if (groups is None) != (to is None):
        raise click.UsageError("say which key groups are to move, and to whom: --move GROUPS --to AGENT")
    if mode is not None and groups is None:
        raise click.UsageError("--mode says how key groups move: name them with --move GROUPS --to AGENT")
    client = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S)
    found = client.place(app, move=groups or (), to=to or "", mode=mode or "instant")
    if output == "json":
        for one in (*found.owners, *found.groups, *found.moves, *found.decisions, *found.measured):
            sys.stdout.write(msgspec.json.encode(one).decode() + "\n")
        return
    from elf.output.listing import print_listing
    from elf.output.placement_table import placement_tables

    for listing in placement_tables(found):
        print_listing(listing, output)
