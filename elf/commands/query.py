"""`elf query`: one query over a whole fleet, its windows shown as they close."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from agent.control.messages import BeyondGroups
from elf.asking import (
    asking,
    command_line,
    output_option,
    socket_option,
    tell_interrupted,
    timeout_option,
    windows_option,
)
from elf.client.errors import ClientError, ConnectionLostError, JobEndedError, UnknownJobError
from elf.client.sync_client import SyncClient, SyncJob
from elf.errors import UsageError
from elf.group_options import beyond_groups_option, max_groups_option
from elf.terminal import printable, tell

STOP_TIMEOUT_S = 3.0
EXAMPLES = """\b
Examples:
  elf query "SELECT status, COUNT(*) FROM access GROUP BY status WINDOWING 10 SECONDS"
  elf query --once "SELECT path, COUNT(*) AS n FROM access GROUP BY path ORDER BY n DESC LIMIT 10"
  elf query --windows 6 --output csv "SELECT COUNT(*) FROM * WINDOWING 1 MINUTE" > minutes.csv
  elf query --detach --app errors "SELECT path, COUNT(*) FROM access WHERE status >= 500 GROUP BY path
    WINDOWING 1 MINUTE"
  elf query --explain "SELECT product, SUM(clicks) FROM events GROUP BY product WINDOWING 30 SECONDS"

\b
Exit codes: 0 done, 1 failed (also when somebody else stopped the job), 2 the query cannot be run as it is
written, 124 --timeout, 130 Ctrl-C or SIGTERM, 141 nobody reads the output any more.
"""


@click.command(epilog=EXAMPLES, short_help="Ask a fleet, and see windows as they close.")
@click.argument("query_text", metavar="QUERY")
@click.option("--app", metavar="NAME", help="The job's name, by which others follow and stop it; else one is made up.")
@click.option("--once", is_flag=True, help="Over what the logs hold now; then the job ends. Otherwise it goes on.")
@windows_option
@timeout_option
@click.option("--detach", is_flag=True,
              help="Leave the job running: print its name and end, after --windows or --timeout if given.")  # fmt: skip
@max_groups_option
@beyond_groups_option
@click.option("--explain", is_flag=True, help="Print what would run, and where; nothing is submitted.")
@output_option("table", "json", "csv")
@socket_option
def query(
    query_text: str,
    app: str | None,
    once: bool,
    windows: int | None,
    timeout_s: float | None,
    detach: bool,
    max_groups: int,
    beyond_groups: BeyondGroups,
    explain: bool,
    output: str,
    socket: Path | None,
) -> int:
    """Run QUERY on every agent that has its stream, and print each window when it closes.

    The job ends with this command: with Ctrl-C, after --windows or --timeout, or when the logs are read (--once,
    and queries without WINDOWING). Standard error says how many agents run it.
    """
    if explain:
        from elf.explanation import print_explanation  # it needs all of ELF QL, which asking does not

        print_explanation(query_text, once=once, max_groups=max_groups, beyond_groups=beyond_groups, output=output)
        return 0
    if app is not None and not 1 <= len(app) <= 255:
        raise UsageError("--app: a job's name has 1 to 255 characters")
    unsure = "; elf jobs tells whether the job was submitted before that" if detach else ""
    with (
        asking(socket, timeout_s, unsure) as (client, deadline),
        client.query(
            query_text, app=app, once=once, detach=detach, max_groups=max_groups, beyond_groups=beyond_groups
        ) as job,
    ):
        session = _Session(job, client.path, socket, detach=detach)
        if detach and windows is None and timeout_s is None:
            return session.leave()
        return session.show(output, windows, deadline)


class _Session:
    """A submitted job, until it ends or is ended."""

    def __init__(self, job: SyncJob, path: str, socket: Path | None, *, detach: bool) -> None:
        self._job = job
        self._path = path
        self._socket = socket
        self._detach = detach
        self._name = printable(job.app)

    def show(self, output: str, windows: int | None, deadline: float) -> int:
        """Shows windows until the job or the patience is at its end; returns the exit code."""
        from elf.job_view import JobView, Limits  # tables take their time to load, and the job runs by now

        try:
            reason = JobView(self._job, output, Limits(windows, deadline)).show()
        except KeyboardInterrupt:
            tell_interrupted(f"{self._name}: interrupted")
            self._end()
            return 130
        except ConnectionLostError as error:
            raise ClientError(f"{error}; {self._command('follow')} goes on if the fleet still runs it") from None
        match reason:
            case "enough":
                self._end(quietly=True)
            case "timeout":
                self._tell("time is up")
                self._end()
                return 124
            case "stopped" | "nobody" | "lost" | "failed":
                raise JobEndedError(self._name, reason, self._job.failure)
        return 0

    def leave(self) -> int:
        """Says how to come back; the job's name is all there is on standard output."""
        click.echo(self._name)
        self._end()
        return 0

    def _end(self, *, quietly: bool = False) -> None:
        """Stops the job and says so, unless all went as it was asked for; detached jobs go on, which is said."""
        if self._detach:
            self._tell(f"runs on: {self._command('follow')} shows it, {self._command('stop')} stops it")
            return
        try:
            with suppress(UnknownJobError):  # it has just finished by itself
                SyncClient(self._path, STOP_TIMEOUT_S).stop(self._job.app)
        except ClientError as error:
            self._tell(f"the agent does not say whether the job is stopped: {error}")
        else:
            if not quietly:
                self._tell("stopped")

    def _tell(self, text: str) -> None:
        tell(f"{self._name}: {text}")

    def _command(self, verb: str) -> str:
        return command_line(verb, self._job.app, self._socket)
