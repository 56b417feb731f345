"""`elf status`: one agent, and its knowledge of the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from agent.archive.format.status import ArchiveStatus, StreamArchiveStatus
from agent.control.messages import JobStatus, SplitStatus, Status, StreamStatus
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.terminal.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = """\b
Examples:
  elf status
  elf status --socket /run/elf/control.sock --output json | jq .counters
"""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@click.command(epilog=EXAMPLES, short_help="Describe an agent: members, streams, jobs, counters.")
@output_option("table", "json")
@socket_option
def status(output: str, socket: Path | None) -> None:
    """Describe the agent: the peers it knows, its streams, its archive, its part in each job, and its counters."""
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).status()
    if output == "json":
        click.echo(msgspec.json.encode(found))
        return
    from elf.terminal.console import open_console

    console = open_console(sys.stdout)
    for part in _parts(found):
        console.print(part)


def _parts(found: Status) -> Iterator[RenderableType]:
    from rich.text import Text

    from elf.output.listing import plain_table

    for line in _lines(found):
        yield Text(printable(line))
    if found.streams:
        titles = ["STREAM", "PATHS", "FILES", "EVENTS", "EVENTS/S", "MALFORMED", "BYTES", "AT END"]
        yield plain_table(titles, [_stream(stream) for stream in found.streams])
    if found.archive is not None and found.archive.streams:
        titles = ["ARCHIVED", "ROWS", "SEGMENTS", "BYTES", "LAG", "DROPPED", "DROPPED BYTES", "GAPS", "LAST FAULT"]
        yield plain_table(titles, [_archived(stream) for stream in found.archive.streams])
    if found.jobs:
        titles = ["JOB", "ROLES", "PARENT", "CHILDREN", "UP TO", "VERSION", "EPOCH"]
        yield plain_table(titles, [_job(job) for job in found.jobs])
    if readers := [job for job in found.jobs if job.rows_here or job.rows_sent]:
        titles = ["READER", "ROWS READ HERE", "OF THESE AS STATES", "ROWS READ FROM ELSEWHERE"]
        yield plain_table(titles, [[job.app, job.rows_here, job.rows_as_states, job.rows_sent] for job in readers])
    if found.split:
        titles = ["SPLIT", "GROUPING", "EVENTS/S", "HOT KEYS", "SPLIT KEYS", "WORKERS EACH", "LONGEST WAIT", "UNSAFE",
                  "RESENT", "HOTTEST"]  # fmt: skip
        yield plain_table(titles, [_split(one) for one in found.split])
    counted: list[list[str | int | float | None]] = [
        [name, count] for name, count in sorted(found.counters.items()) if count
    ]
    if counted:
        yield plain_table(["COUNTER", "COUNT"], counted)


def _lines(found: Status) -> Iterator[str]:
    state = "active" if found.active else "joining"
    yield f"{found.name} of fleet {found.fleet} at {found.address}: {state}"
    yield f"node id   {found.node_id}"
    yield f"up        {_duration(found.uptime_s)}, {found.memory_bytes / 2**20:,.0f} MiB"
    yield f"identity  certificate {found.identity.serial[:16]}, valid until {found.identity.expires}"
    for authority in found.identity.authorities:
        revoked = f"list {authority.number}, {authority.revoked:,} revoked" if authority.number else "nothing revoked"
        yield f"authority {authority.authority[:32]}: {revoked}"
    if found.config is not None:
        waiting = f", {len(found.config.restart)} changes wait for a restart" if found.config.restart else ""
        yield f"config    {found.config.path}, generation {found.config.generation}{waiting}"
    if found.archive is not None:
        yield f"archive   {_archive(found.archive)}"
    yield f"parsing   {found.parsing}"
    yield f"trees     {found.trees}"
    yield f"peers     {found.peers:,} known"
    yield f"leaf set  {len(found.leaf_set)}: {', '.join(found.leaf_set)}" if found.leaf_set else "leaf set  empty"


def _stream(stream: StreamStatus) -> list[str | int | float | None]:
    at_end = "yes" if stream.at_end else "no"
    read = (stream.files, stream.events, stream.events_per_s, stream.malformed, stream.bytes_read)
    return [stream.name, ", ".join(stream.paths), *read, at_end]


def _archive(archive: ArchiveStatus) -> str:
    free = f"{archive.disk_free_bytes / 2**30:,.1f} GiB of the disk left" if archive.disk_free_bytes else "waits"
    return f"{archive.directory}: {archive.fault or free}"


def _archived(stream: StreamArchiveStatus) -> list[str | int | float | None]:
    dropped = (stream.dropped_rows, stream.dropped_bytes, stream.gaps)
    return [stream.name, stream.rows, stream.segments, stream.bytes, stream.lag_bytes, *dropped, stream.fault or None]


def _job(job: JobStatus) -> list[str | int | float | None]:
    children = ", ".join(job.children) or None
    roots = [f"root of {len(job.roots)} of {job.trees} trees"] if job.roots else []
    return [job.app, ", ".join([*job.roles, *roots]), job.parent, children, job.frontier, job.version, job.epoch]


def _split(one: SplitStatus) -> list[str | int | float | None]:
    """The elements of a job whose keys are split, as this agent sends events to their workers."""
    from elf.output.element_table import shown_hottest, shown_wait

    parts, wait = one.mean_parts if one.split_keys else None, shown_wait(one.longest_wait_s)
    counts = [one.events_per_s, one.hot_keys, one.split_keys, parts, wait, one.unacknowledged, one.resent]
    return [f"{one.app} {one.element}", f"{one.grouping} over {one.workers:,}", *counts, shown_hottest(one.hot)]


def _duration(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
