"""Describes an agent and its jobs for clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import cbt
import query
from agent.archive.format.status import ArchiveStatus
from agent.configuration.config import Config
from agent.control import messages as control
from agent.feeding.statistics import StreamStatistics
from agent.parsing import native_status
from agent.runtime.keyed.seen.observation import ObservedJob
from agent.runtime.messages.jobs import Announce
from agent.runtime.model import contributors as bitmaps
from agent.runtime.model.panes import END, FIRST_PANE
from agent.runtime.requests.status import AgentStatus, LocalJobStatus
from overlay import Node, Peer, TransportStatistics, Trust, format_id

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def described_job(announce: Announce) -> control.JobEntry:
    return control.JobEntry(
        app=announce.name,
        app_id=format_id(announce.app_id),
        stream=announce.stream,
        query=announce.text,
        master=announce.master_name,
        epoch=announce.epoch.counter,
        version=announce.version,
        agents=announce.agents,
        expected=announce.expected,
        bounded=announce.bounded,
        frontier=_moment(max(announce.frontier, announce.closed)),
        creator=announce.creator,
        counter=announce.counter,
        mandate=announce.mandate.hex(),
        part_of=announce.part_of,
        owner=announce.owner,
        events=announce.events,
        contributors=_contributors(announce),
    )


def _contributors(announce: Announce) -> int | None:
    """The number of agents in the last published pane, of those on the roster."""
    if announce.bounded or not FIRST_PANE < announce.frontier < END:
        return None
    _, upto, agents = announce.incomplete[-1] if announce.incomplete else (0, FIRST_PANE, b"")
    if upto < announce.frontier:
        return announce.expected
    return (bitmaps.from_bytes(agents) & bitmaps.from_bytes(announce.members)).bit_count()


def described_local_job(job: LocalJobStatus, names: Mapping[int, str]) -> control.JobStatus:
    return control.JobStatus(
        app=job.name,
        app_id=format_id(job.app_id),
        roles=list(job.roles),
        parent=None if job.parent is None else _name(job.parent, names),
        children=[_name(child, names) for child in job.children],
        version=job.version,
        epoch=job.epoch,
        frontier=_moment(job.frontier),
        trees=job.trees,
        roots=list(job.roots),
        **job.read._asdict(),
    )


def described_streams(config: Config, statistics: Mapping[str, StreamStatistics]) -> list[control.StreamStatus]:
    return [
        control.StreamStatus(
            name=stream.name,
            paths=list(stream.source.locations),
            files=read.files,
            events=read.events,
            malformed=read.malformed,
            bytes_read=read.bytes_read,
            events_per_s=round(read.events_per_s, 1),
            at_end=read.at_end,
        )
        for stream in config.streams
        for read in (statistics.get(stream.name, StreamStatistics()),)
    ]


def described_agent(
    config: Config,
    node: Node,
    agent: AgentStatus,
    *,
    uptime_s: float,
    names: Mapping[int, str],
    streams: Mapping[str, StreamStatistics],
    counters: Mapping[str, int],
    trust: Trust,
    archive: ArchiveStatus | None,
    in_force: control.ConfigStatus,
    split: Iterable[control.SplitStatus] = (),
) -> control.Status:
    """Describes the agent; `names` has the known names of peers, by id."""
    known = {peer.node_id for peer in (*node.leaf_set.members, *node.routing_table)}
    return control.Status(
        name=config.name,
        fleet=config.fleet,
        node_id=format_id(node.peer.node_id),
        address=node.peer.address,
        active=node.is_active,
        uptime_s=round(uptime_s, 3),
        memory_bytes=memory_bytes(),
        leaf_set=[_name(peer, names) for peer in node.leaf_set.members],
        peers=len(known),
        streams=described_streams(config, streams),
        jobs=[described_local_job(job, names) for job in agent.jobs],
        counters=dict(counters),
        identity=described_identity(trust),
        archive=archive,
        parsing=native_status(),
        trees=cbt.tree_status(),
        config=in_force,
        split=list(split),
    )


def described_split(
    job: ObservedJob, app: str, statistics: Mapping[str, int], rate: Callable[[str, int], float]
) -> Iterator[control.SplitStatus]:
    """Describes the elements of a job whose keys are split. `rate`: events a second of one by its name and events."""
    for one in job.describe():
        if "grouping" in one:
            yield control.SplitStatus(
                app=app,
                element=one["element"],
                grouping=one["grouping"],
                workers=one["workers"],
                events_per_s=round(rate(one["element"], one["events"]), 1),
                hot_keys=one["hot_keys"],
                split_keys=one["split_keys"],
                mean_parts=round(one["mean_parts"], 1),
                hot=[control.ElementKey(*hot) for hot in one["hot"]],
                longest_wait_s=max(one["waits"], default=0.0),
                unacknowledged=statistics["unacknowledged"],
                resent=statistics["resent"],
            )


def described_identity(trust: Trust) -> control.IdentityStatus:
    sizes = {found.authority: len(found.serials) for found in trust.revocations.lists}
    return control.IdentityStatus(
        serial=f"{trust.identity.claims.serial:x}",
        expires=f"{trust.identity.expires:%Y-%m-%dT%H:%M:%SZ}",
        authorities=[
            control.RevocationListStatus(name.hex(), number, sizes.get(name, 0))
            for name, number in trust.revocations.numbers.items()
        ],
    )


def transport_counters(statistics: TransportStatistics) -> dict[str, int]:
    """The transport's counters; those with reasons have them in their names."""
    plain = ("connections", "strangers", "waiting_bytes", "assembling_bytes", "frames_in", "frames_out", "bytes_in",
             "bytes_out", "dropped", "dialled", "broken")  # fmt: skip
    counters = {f"transport.{name}": getattr(statistics, name) for name in plain}
    for kind in ("refused", "twins", "unreachable"):
        for reason, count in getattr(statistics, kind).items():
            counters[f"transport.{kind}: {reason}"] = count
    return counters


def stream_counters(statistics: Mapping[str, StreamStatistics]) -> dict[str, int]:
    """Counters of failures to read the files of streams, if there are any."""
    return {
        f"stream.{name}.{kind}": count
        for name, read in statistics.items()
        for kind in ("unreadable", "truncated", "broken", "gone", "missed")
        if (count := getattr(read, kind))
    }


def _name(peer: Peer, names: Mapping[int, str]) -> str:
    return names.get(peer.node_id, peer.address)


def _moment(pane: int | None) -> str | None:
    """The time up to which results are published; None before the first window and after the end."""
    return None if pane is None or not FIRST_PANE < pane < END else query.format_timestamp(pane + 1)
