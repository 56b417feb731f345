"""Starts and stops the stages of a job along with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.control.messages import JobEntry
from agent.runtime.fleet.job_names import stage_app
from agent.runtime.master.job_masters import RUNNING
from agent.runtime.model.bundle import Contents
from elf.client.errors import QueryRefusedError, UnknownJobError
from elf.client.sync_client import SyncClient
from elf.errors import ElfError
from elf.signing.creator import stop_signature
from elf.signing.submission import signed
from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from overlay import Creator

KNOWN_S, ENDED_S = 10.0, 2.0
"""Upper bounds on the time until an agent hears of a new job, and of a job's end."""
LOOK_S = 0.05


def stages_of(client: SyncClient, job: JobEntry) -> dict[str, JobEntry]:
    """The running stages of a job, by their names in the fleet."""
    return {
        one.app: one
        for one in client.jobs()
        if (one.part_of, one.creator) == (job.app, job.creator) and one.app.startswith(stage_app(job.app, ""))
    }


@contextmanager
def started(
    client: SyncClient, creator: Creator, stages: Mapping[str, Contents], folder: Path | None
) -> Iterator[None]:
    """Starts stages, by their names in the fleet, one after the other; stops them if the block fails."""
    begun: list[str] = []
    try:
        for app, contents in stages.items():
            app_id, bundle = signed(creator, app, contents)
            with client.submit(app, app_id, bundle):
                begun.append(app_id)
            _until_known(client, app, app_id)
        yield
    except BaseException:
        with suppress(ElfError):
            stop_stages(client, [job for job in client.jobs() if job.app_id in begun], folder)
        raise


def refuse_if_running(client: SyncClient, app: str, app_id: str) -> None:
    """Raises QueryRefusedError if the job runs; waits a while, as the agent may not know of its end yet."""
    if not _comes_true(client, lambda running: app_id not in running, ENDED_S):
        raise QueryRefusedError(RUNNING.format(name=printable(app)))


def _until_known(client: SyncClient, app: str, app_id: str) -> None:
    """Waits until the agent knows a job: before, it would refuse queries that read the job's results."""
    if not _comes_true(client, lambda running: app_id in running, KNOWN_S):
        raise ElfError(f"{printable(app)} was started, but its agent has not heard of it within {KNOWN_S:.0f} s")


def _comes_true(client: SyncClient, condition: Callable[[set[str]], bool], seconds: float) -> bool:
    """Whether a condition on the ids of the fleet's jobs becomes true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (is_true := condition({job.app_id for job in client.jobs()})) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return is_true


def stop_stages(client: SyncClient, stages: list[JobEntry], folder: Path | None) -> None:
    """Stops stages that are no longer needed; some may have ended already."""
    for job in stages:
        with suppress(UnknownJobError):
            client.stop(job.app, app_id=job.app_id, seal=stop_signature(job, folder))
