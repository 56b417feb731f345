"""Describes an agent's local jobs as plain data, made on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.job.lifecycle import LocalJobState
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import Announce
from agent.runtime.messages.views.descriptions import PLACES_MAX, ParentChoice, Role, TreePlace
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from agent.runtime.reduce.tree_node import TreeNode
from overlay import Id, Node, Peer, distance, shared_prefix_length


class RowsRead(NamedTuple):
    """The rows of another job's results that a job has read: from a master on this agent, and as JSON from elsewhere.
    `rows_as_states`: those from here of which it has merged the state, without making them."""

    rows_here: int = 0
    rows_sent: int = 0
    rows_as_states: int = 0


NO_ROWS = RowsRead()


@dataclass(frozen=True, slots=True)
class LocalJobStatus:
    """One local job: the agent's roles (master, worker, combiner), its place in the first of the job's trees, and its
    progress. `roots`: the other trees of which it is the root. `read`: the rows of another job's results that it has
    read.
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
    read: RowsRead


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """All local jobs of one agent. `refused` counts messages that are unreadable, unexpected or from a wrong sender."""

    name: str
    jobs: tuple[LocalJobStatus, ...]
    followed: tuple[int, ...]
    replicas: tuple[int, ...]
    refused: int
    leaving: bool


def local_job_status(job: LocalJob, announce: Announce | None, node: Node, read: RowsRead = NO_ROWS) -> LocalJobStatus:
    """Describes one local job. `read`: the rows of another job's results that it has read."""
    groups = job.groups
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
        read=read,
    )


LAGS_MAX = 200
"""Upper bound on the jobs whose lag is told one by one."""
AWAITED_MAX = 64
"""Upper bound on the children that are named as awaited."""


@dataclass(frozen=True, slots=True)
class JobLag:
    """Time since the end of the last published pane of a job."""

    app_id: int
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The local jobs of one agent in numbers. `states` counts them by state, `lags` has those that lag most.

    `children`: in all trees of all jobs together, and in the tree with the most. `depth`: edges up to the root that is
    farthest away.
    """

    states: Mapping[str, int]
    lags: tuple[JobLag, ...]
    children: int
    children_most: int
    depth: int


def lag_s(job: LocalJob, frontier: int, wall_ms: int) -> float | None:
    """Time since the end of a pane of a job; None where panes have no end, or none has come."""
    if job.live_pane_ms is None or frontier in (FIRST_PANE, END):
        return None
    return max(0, wall_ms - closed_ms(frontier, job.live_pane_ms) - 1) / 1000


def job_figures(jobs: Iterable[LocalJob], directory: JobDirectory, node: Node, wall_ms: int) -> JobFigures:
    """Counts the local jobs. O(jobs)."""
    states = Counter({state.name.lower(): 0 for state in LocalJobState})
    lags: list[JobLag] = []
    children, depth = [0], 0
    for job in jobs:
        states[job.state.name.lower()] += 1
        children += (len(one.children) for one in job.nodes)
        depth = max(depth, node.depth(job.app_id) or 0)
        if (seconds := lag_s(job, job.committed, wall_ms)) is not None:
            known = directory.get(job.app_id)
            lags.append(JobLag(job.app_id, known.name if known else "", seconds))
    longest = tuple(nlargest(LAGS_MAX, lags, key=lambda lag: lag.seconds))
    return JobFigures(states, longest, sum(children), max(children), depth)


def tree_places(job: LocalJob, node: Node, wall_ms: int) -> list[TreePlace]:
    """Describes an agent's places in a job's trees."""
    groups = job.groups
    return [
        _place(job, one, group, node, wall_ms) for one, group in list(zip(job.nodes, groups, strict=True))[:PLACES_MAX]
    ]


def _place(job: LocalJob, one: TreeNode, group: Id, node: Node, wall_ms: int) -> TreePlace:
    parent, combiner = node.parent(group), one.combiner
    most = None if combiner is None else combiner.most_awaited()
    awaited = [
        Id(child) for child in one.children if combiner is not None and most is not None and combiner.lacks(child, most)
    ]
    return TreePlace(
        tree=one.tree,
        roles=_roles(job, one, is_root=node.is_root(group)),
        parent=None if parent is None else parent.node_id,
        choice=_choice(parent, group, node),
        children=len(one.children),
        awaited=awaited[:AWAITED_MAX],
        depth=node.depth(group),
        round_trip_s=None if parent is None else node.round_trip_s(parent.node_id),
        lag_s=None if combiner is None else lag_s(job, combiner.frontier, wall_ms),
        waiting=0 if combiner is None else combiner.waiting_runs,
    )


def _roles(job: LocalJob, one: TreeNode, *, is_root: bool) -> list[Role]:
    roles: dict[Role, bool] = {
        "master": job.root is not None and not one.tree,
        "root": is_root and one.tree > 0,
        "worker": job.pipeline is not None,
        "combiner": bool(one.children),
    }
    return [role for role, plays in roles.items() if plays]


def _choice(parent: Peer | None, group: Id, node: Node) -> ParentChoice:
    """Reason why a node has its parent in a group's tree, as far as its own tables tell."""
    if parent is None:
        return "root" if node.is_root(group) else ""
    own = node.peer.node_id
    if shared_prefix_length(parent.node_id, group) > shared_prefix_length(own, group):
        return "prefix"
    return "nearer" if distance(parent.node_id, group) < distance(own, group) else "passed_down"


def _pane(frontier: int) -> int | None:
    return frontier if frontier > FIRST_PANE else None
