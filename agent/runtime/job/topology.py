"""Where an agent stands in the trees of its jobs: tree 0 is of the appId, tree k of a key made of it and k."""

from __future__ import annotations

from functools import lru_cache

from agent.runtime.fleet.job_directory import JOBS_MAX
from agent.runtime.job.local_job import LocalJob
from overlay import Id, Node, Peer, distance, tree_id


@lru_cache(maxsize=JOBS_MAX)
def groups_of(app_id: Id, trees: int) -> tuple[Id, ...]:
    """The groups of a job's trees, in their order."""
    return (app_id, *(tree_id(app_id, tree) for tree in range(1, trees)))


def _group(app_id: Id, tree: int) -> Id:
    return tree_id(app_id, tree) if tree else app_id


class TreeTopology:
    """Of one agent's node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._watched: dict[Id, tuple[Id, int]] = {}

    def of(self, group: Id) -> tuple[Id, int] | None:
        """The job and the tree of a group in which this agent has a part."""
        return self._watched.get(group)

    def watch(self, part: LocalJob) -> None:
        """From now on, what happens in a part's groups concerns it; who is below it already are its children."""
        for tree, group in enumerate(groups_of(part.app_id, len(part.nodes))):
            self._watched[group] = (part.app_id, tree)
            for child in self._node.children(group):
                part.nodes.add_child(child.node_id, tree)

    def join(self, part: LocalJob, now: float) -> None:
        """Becomes a member where this agent has something to say: elsewhere it would be waited for in vain."""
        for tree, group in enumerate(groups_of(part.app_id, len(part.nodes))):
            hears_the_master = not tree and (part.root is not None or bool(self._node.children(group)))
            if part.works or hears_the_master:
                self._node.subscribe(group, now)
            else:
                self._node.unsubscribe(group, now)

    def leave(self, part: LocalJob, now: float) -> None:
        """The part is over, or its trees are."""
        for group in groups_of(part.app_id, len(part.nodes)):
            self._watched.pop(group, None)
            self._node.unsubscribe(group, now)

    def has_children(self, app_id: Id, trees: int) -> bool:
        """Whether this agent lies on somebody's way in any of a job's trees."""
        return any(self._node.children(group) for group in groups_of(app_id, trees))

    def is_child(self, app_id: Id, tree: int, sender: Peer) -> bool:
        return any(child.node_id == sender.node_id for child in self._node.children(_group(app_id, tree)))

    def is_root(self, app_id: Id, tree: int) -> bool:
        """Whether this agent is the root of a tree, as far as it knows."""
        group = _group(app_id, tree)
        return self._node.parent(group) is None and self._node.is_attached(group)

    def may_be_root(self, app_id: Id, tree: int, sender: Peer) -> bool:
        """Whether another agent may be that: it is no farther from the tree's key than this one."""
        key = _group(app_id, tree)
        return distance(key, sender.node_id) <= distance(key, self._node.peer.node_id)

    def uplink(self, part: LocalJob, tree: int, *, leaves: bool) -> Peer | None:
        """Where runs go from here: to the parent; from a root that is not the master, or leaves, to the master."""
        parent = self._node.parent(_group(part.app_id, tree))
        if parent is not None or (not tree and part.root is not None):
            return parent
        return part.master_peer if leaves or (tree and self.is_root(part.app_id, tree)) else None
