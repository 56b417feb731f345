"""`elf latency`: how long results take, of all jobs, and of one phase by phase."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from agent.control.messages import JobLatency
from elf.client.errors import RefusedError, UnknownJobError
from elf.client.sync_client import SyncClient
from elf.options.fleet import (
    command_line,
    connected,
    every_option,
    optional_app_argument,
    output_option,
    rounds_option,
    socket_option,
)
from elf.terminal.looks import looks, show_looks
from elf.terminal.terminal import can_be_drawn_over, printable, tell

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = """\b
Examples:
  elf latency
  elf latency top-products
  elf latency top-products --watch
  elf latency --output json | jq -r 'select(.missed > 0) | .app'
  elf latency top-products --output json | jq '.phases[] | {what, mean_ms}'

\b
Latency is from the end of a window until its result is published; MET % of results were within the limit that the query
states (WITHIN). A window waits for the last of its parts: MEAN MS, P50 MS, P99 MS and SHARE % are of that one's phases,
LAST MS of the last result's, ALL MEAN and ALL P99 (ms) of all agents' own parts.

\b
Phases:
  tail       a line, or the end of the grace, waits for the next look at the file
  read wait  what was found waits until it is parsed, and then until it is inserted
  parse      lines are decoded into columns
  insert     rows are filtered, grouped and added to what is there
  close      the pane has ended; its GRACE passes
  seal wait  the pane waits behind others of the same agent
  seal       the pane is encoded, and written to disk
  uplink     the part is on its way to the parent, once for each level of the tree
  combine    the part waits for others there, and is merged with them
  finish     the master makes the window: HAVING, ORDER BY, LIMIT
  commit     the result waits until neighbours hold it, and for those before it
  deliver    from the master to the agents whose clients follow; no part of the latency
  sum        of all but the last; latency less sum is skew: clocks that differ, ways unlike half of there and back

\b
PLAN (ms) is what the plan that is in force said of jobs with WITHIN, and drift by how much the median of the last
five results is beyond that. A line below says what has not been planned, and what follows from it.

\b
SLOWEST AGENTS: MEAN MS of a PART, but for its GRACE; LAST counts results for which this agent's part was the last.
"""


@click.command(epilog=EXAMPLES, short_help="Show how long results take, and in which phase, on which agent.")
@optional_app_argument
@click.option("--watch", is_flag=True, help="Look again and again; Ctrl-C ends it. On a terminal: in place.")
@every_option
@rounds_option
@output_option("table", "json")
@socket_option
def latency(
    app: str | None, every_s: float, rounds: int | None, output: str, socket: Path | None, *, watch: bool
) -> None:
    """Show how long the latest results of live jobs have taken, a line for each; with APP, how long each phase of one
    job's results takes, on which agents.

    The last 300 to 600 results count, since the job's master leads it; of agents' own parts those of a minute or two.
    Without a terminal --watch looks once, unless --rounds says more, or --output json. With --output json each job is
    a line.
    """
    in_place = output == "table" and (watch or rounds is not None) and can_be_drawn_over(sys.stdout)
    left = rounds if rounds is not None or (watch and (in_place or output == "json")) else 1
    with connected(socket, None) as (client, _):
        if output == "json":
            for _ in looks(every_s, left):
                found, silent = _found(client, app)
                for one in found:
                    click.echo(_line(one))
                if silent:
                    tell(f"elf: {silent}")
            return
        show_looks(lambda height: _drawn(client, app, height), every_s, left, in_place=in_place)


def _line(one: JobLatency) -> bytes:
    """A job as JSON, without what its durations and its plan are made of."""
    fields = msgspec.to_builtins(one)
    return msgspec.json.encode(
        {name: value for name, value in fields.items() if name != "group_points" and not name.endswith("_statistics")}
    )


def _found(client: SyncClient, app: str | None) -> tuple[list[JobLatency], str]:
    """One job, or all live ones whose masters answer, and what there is to say of others."""
    if app is not None:
        return [client.latency(app)], ""
    found, silent = [], []
    for job in client.jobs():
        if job.bounded:
            continue
        try:
            found.append(client.latency(job.full_name))
        except UnknownJobError:
            continue  # it has ended since
        except RefusedError as error:
            silent.append(f"{job.full_name}: {error}")
    return found, printable(f"left out: {len(silent):,}, the first is {silent[0]}") if silent else ""


def _drawn(client: SyncClient, app: str | None, height: int | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from elf.output.latency_table import jobs_table, latency_table

    found, silent = _found(client, app)
    if app is None:
        nothing = Text("the fleet runs no live jobs, as far as this agent has heard: elf query starts one")
        shown = jobs_table(found, height) if found else nothing
        return Group(shown, Text(silent)) if silent else shown
    if not found[0].results:
        why = command_line("tree", app, None)
        return Text(
            printable(f"{app}: no result has been out since {found[0].master} leads it: {why} shows for whom it waits")
        )
    return latency_table(found[0])
