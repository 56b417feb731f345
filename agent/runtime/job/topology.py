"""Finds an agent's place in the trees of its jobs: tree 0 has the appId as its key, tree k a key made of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import Announce, Snapshot, SnapshotPart
from agent.runtime.model.placement import groups_of
from overlay import Id, Node, Peer, distance


class TreeTopology:
    """The trees of one agent's node: its parents, children and roots."""

    def __init__(self, node: Node, groups: Callable[[Id], Sequence[Id]]) -> None:
        self._node = node
        self._groups = groups
        """The groups of a job's trees, as far as they are known here."""
        self._watched: dict[Id, tuple[Id, int]] = {}

    def _group(self, app_id: Id, tree: int) -> Id:
        known = self._groups(app_id)
        return known[tree] if tree < len(known) else groups_of(app_id, tree + 1)[tree]

    def of(self, group: Id) -> tuple[Id, int] | None:
        """The job and the tree of a group that this agent watches."""
        return self._watched.get(group)

    def watch(self, job: LocalJob) -> None:
        """Watches a job's groups from now on; nodes below this one already are its children."""
        for tree, group in enumerate(job.groups):
            self._watched[group] = (job.app_id, tree)
            for child in self._node.children(group):
                job.nodes.add_child(child.node_id, tree)

    def join(self, job: LocalJob, now: float) -> None:
        """Becomes a member of the trees to which this agent contributes: in others, parents would wait in vain."""
        for tree, group in enumerate(job.groups):
            needs_commits = not tree and (job.root is not None or bool(self._node.children(group)))
            if job.works or needs_commits:
                self._node.subscribe(group, now)
            else:
                self._node.unsubscribe(group, now)

    def leave(self, job: LocalJob, now: float) -> None:
        """Leaves a job's groups, because the job or its trees are over."""
        for group in job.groups:
            self._watched.pop(group, None)
            self._node.unsubscribe(group, now)

    def has_children(self, announce: Announce) -> bool:
        """Whether this agent has children in any of a job's trees."""
        groups = groups_of(announce.app_id, announce.trees, announce.moved.added)
        return any(self._node.children(group) for group in groups)

    def is_source(self, message: Snapshot | SnapshotPart, sender: Peer) -> bool:
        """Whether a snapshot comes from a child or, if it claims so, from a tree's root."""
        if message.of_root:
            return self.may_be_root(message.app_id, message.tree, sender)
        children = self._node.children(self._group(message.app_id, message.tree))
        return any(child.node_id == sender.node_id for child in children)

    def is_root(self, app_id: Id, tree: int) -> bool:
        """Whether this agent is the root of a tree, as far as it knows."""
        group = self._group(app_id, tree)
        return self._node.parent(group) is None and self._node.is_attached(group)

    def may_be_root(self, app_id: Id, tree: int, sender: Peer) -> bool:
        """Whether another agent may be a tree's root: it is no farther from the tree's key than this one."""
        key = self._group(app_id, tree)
        return distance(key, sender.node_id) <= distance(key, self._node.peer.node_id)

    def uplink(self, job: LocalJob, tree: int, *, leaves: bool) -> Peer | None:
        """The receiver of this agent's snapshots: its parent; the master where it leaves, or is another tree's root."""
        parent = self._node.parent(self._group(job.app_id, tree))
        if parent is not None or (not tree and job.root is not None):
            return parent
        return job.master_peer if leaves or (tree and self.is_root(job.app_id, tree)) else None
