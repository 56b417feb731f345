"""Sessions with a job on this terminal: one that was submitted, until it ends or is stopped, or one that is
followed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from elf.client.errors import ClientError, ConnectionLostError, JobEndedError, UnknownJobError
from elf.client.sync_client import SyncClient, SyncJob
from elf.errors import ElfError, not_whole
from elf.options.fleet import command_line, tell_interrupted
from elf.output.view import View, ViewedJob, ViewLimits
from elf.terminal.terminal import printable, tell

STOP_TIMEOUT_S = 3.0


def show_followed(job: ViewedJob, view: View, limits: ViewLimits, socket: Path | None) -> int:
    """Shows the windows of a followed job until it ends or a limit is reached; returns the exit code."""
    from elf.output.job_view import JobView  # tables take their time to load, and windows may wait by now

    name = printable(job.app)
    goes_on = f"runs on: {command_line('stop', job.app, socket)} stops it"
    try:
        reason = JobView(job, view, limits).show()
    except KeyboardInterrupt:
        tell_interrupted(f"{name}: interrupted, {goes_on}")
        return 130
    if reason == "timeout":
        tell(f"{name}: time is up, {goes_on}")
        return 124
    if reason in ("stopped", "nobody", "lost", "failed"):
        raise JobEndedError(name, reason, job.failure)
    return 0


class QuerySession:
    """Shows a submitted job's windows, and stops the job at the end unless it is `detach`ed."""

    def __init__(self, job: SyncJob, path: str, socket: Path | None, *, detach: bool) -> None:
        self._job = job
        self._path = path
        self._socket = socket
        self._detach = detach
        self._name = printable(job.app)
        if job.warning:
            self._tell(printable(job.warning))

    def show(self, view: View, limits: ViewLimits) -> int:
        """Shows windows until the job ends or a limit is reached; returns the exit code."""
        from elf.output.job_view import JobView  # tables take their time to load, and the job runs by now

        try:
            shown = JobView(self._job, view, limits)
            reason = shown.show()
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
        if self._job.bounded and shown.reasons:
            raise ElfError(f"{self._name}: {printable(not_whole(shown.reasons))}")
        if self._job.bounded and self._job.has_lost_windows:
            raise ElfError(f"{self._name}: not all windows are shown")
        return 0

    def leave(self) -> int:
        """Leaves the job running: prints its name on standard output, and the next commands on standard error."""
        click.echo(self._name)
        self._end()
        return 0

    def _end(self, *, quietly: bool = False) -> None:
        """Stops the job and reports it, unless it was expected to end; a detached job goes on, which is reported."""
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
