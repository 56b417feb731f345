"""Describes an agent's local jobs as plain data, made on request."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.topology import groups_of
from agent.runtime.messages.jobs import Announce
from agent.runtime.model.panes import FIRST_PANE
from overlay import Node, Peer


@dataclass(frozen=True, slots=True)
class LocalJobStatus:
    """One local job: the agent's roles (master, worker, combiner), its place in the first of the job's trees, and its
    progress. `roots`: the other trees of which it is the root.
    """

    app_id: int
    name: str
    roles: tuple[str, ...]
    parent: Peer | None
    children: tuple[Peer, ...]
    trees: int
    roots: tuple[int, ...]
    installed: bool
    version: int
    epoch: int
    frontier: int | None
    sealed_upto: int | None
    late: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """All local jobs of one agent. `refused` counts messages that are unreadable, unexpected or from a wrong sender."""

    name: str
    jobs: tuple[LocalJobStatus, ...]
    followed: tuple[int, ...]
    replicas: tuple[int, ...]
    refused: int
    leaving: bool


def local_job_status(job: LocalJob, announce: Announce | None, node: Node) -> LocalJobStatus:
    """Describes one local job."""
    groups = groups_of(job.app_id, len(job.nodes))
    combines = job.nodes.has_children
    roles = {"master": job.root is not None, "worker": job.pipeline is not None, "combiner": combines}
    return LocalJobStatus(
        app_id=job.app_id,
        name=announce.name if announce else "",
        roles=tuple(role for role, plays in roles.items() if plays),
        parent=node.parent(job.app_id),
        children=node.children(job.app_id),
        trees=len(job.nodes),
        roots=tuple(tree for tree, group in enumerate(groups) if tree and node.is_root(group)),
        installed=job.is_installed,
        version=job.version,
        epoch=job.epoch.counter if job.epoch else 0,
        frontier=_pane(job.committed),
        sealed_upto=_pane(job.pipeline.frontier if job.pipeline else FIRST_PANE),
        late=job.pipeline.late if job.pipeline else 0,
        memory_bytes=job.pipeline.memory_bytes if job.pipeline else 0,
    )


def _pane(frontier: int) -> int | None:
    return frontier if frontier > FIRST_PANE else None
