"""`elf batch backfill`: windows that a job has not published, from the archive, and then the job's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elf.commands.batch.options import archives_option, from_option, master_option, moments, to_option
from elf.errors import UsageError
from elf.options.fleet import app_argument, connected, output_option, socket_option, timeout_option, windows_option
from elf.output.view import View, ViewLimits
from elf.terminal.terminal import printable, tell

if TYPE_CHECKING:
    from elf.batch.backfill.backfill import Backfill

EXAMPLES = """\b
Examples:
  elf batch backfill errors --archive shop-archive --from 2026-01-01T10:00Z --to 2026-01-01T11:00Z
  elf batch backfill errors --archive shop-archive --from 2026-01-01T10:00Z --follow --output json

\b
Windows from the archive have "source":"archive" in JSON; those that the job publishes have none.

\b
Exit codes: 0 done, or the job has finished; 1 failed, 2 wrong usage; with --follow also 124 --timeout, 130 Ctrl-C.
"""


@click.command(epilog=EXAMPLES, short_help="Fill in a job's windows from the archive.")
@app_argument
@archives_option
@from_option
@to_option
@click.option(
    "--follow", is_flag=True, help="Go on with the job's own windows, from the first one that expects every agent."
)
@windows_option
@timeout_option
@output_option("table", "json", "csv")
@socket_option
@master_option
def backfill(
    app: str,
    archives: tuple[str, ...],
    since: str | None,
    until: str | None,
    follow: bool,
    windows: int | None,
    timeout_s: float | None,
    output: str,
    socket: Path | None,
    master: str,
) -> int:
    """Compute the windows of the job APP that it has not published, from the archive.

    They are windows from before it was submitted, or of times when it had no master. With --follow, all windows come
    from the archive up to the first live one that expects every agent, and from then on from the job: none is missing
    in between, and none comes twice.
    """
    if follow and until is not None:
        raise UsageError("--follow goes on for ever: leave out --to")
    if not follow and (windows is not None or timeout_s is not None):
        raise UsageError("--windows and --timeout are for --follow")
    since_ms, until_ms = moments(since, until)
    from elf.batch.backfill.backfill import Backfill
    from elf.batch.session.progress import spark_progress
    from elf.batch.session.session import spark_session

    with spark_session(master) as spark:
        past = Backfill(spark, archives, app, since_ms, until_ms)
        if follow:
            return _follow(past, View(output), windows, timeout_s, socket)
        if not past.is_described:
            with connected(socket, None) as (client, _):
                past.describe(client.ask(app).query)
        with spark_progress(spark):
            _print(past, output)
    return 0


def _print(past: Backfill, output: str) -> None:
    import msgspec

    from agent.control.messages import PublishedWindow
    from elf.client.result import read_result
    from elf.output.output import result_writer

    columns = past.columns
    writer = result_writer(output, columns)
    count = 0
    for line in past.missing_lines():
        writer.write(read_result(PublishedWindow(0, msgspec.Raw(line)), columns))
        count += 1
    writer.close()
    sys.stdout.flush()
    if not count:
        tell(f"{printable(past.app)}: there are no windows in the archive that it has not published")


def _follow(past: Backfill, view: View, windows: int | None, timeout_s: float | None, socket: Path | None) -> int:
    from elf.batch.backfill.job import BackfilledJob
    from elf.statements.session import show_followed

    with (
        connected(socket, timeout_s) as (client, deadline),
        client.follow(past.app, after=0, reconnect=True) as job,
    ):
        whole = BackfilledJob(job, past, lambda text: tell(f"{printable(past.app)}: {text}"))
        return show_followed(whole, view, ViewLimits(windows, deadline), socket)
