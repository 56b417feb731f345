"""Finds out soon which neighbours in jobs' trees are dead, and tells the masters that wait for their parts.

Theory. The overlay pings a quiet neighbour once a second, which would be soon enough if nobody waited. A job's tree
knows better: where a pane lacks one child's part a moment after the others', or a parent does not acknowledge what it
was sent, that neighbour is pinged at once, once for each pane. It is dead when its lease has ended, as ever.

A master hears of the deaths near it in the ring and in its own tree. Of others the dead agent's parent tells it, so
that it waits for the dead as long as the job says (`RECOVER FOR`), and not as for those who have lost their parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.jobs import AgentFailed
from overlay import Id, Node, Peer

Wait = tuple[Id, int, int]
"""A job, one of its trees, and the neighbour that is waited for there."""


class TreeWatch:
    """Watches the neighbours in the trees of all jobs of one agent."""

    name = "tree_watch"

    def __init__(self, node: Node, jobs: LocalJobs) -> None:
        self._node = node
        self._jobs = jobs
        self._waits: dict[Wait, int] = {}
        """The waits at the last look, with the pane that was waited for."""
        self._asked: dict[Wait, int] = {}
        """The panes for which they were pinged last."""
        self._lost: dict[int, dict[Id, None]] = {}
        """The jobs in whose trees a child was removed since the last look."""
        self._pings = self._reports = 0

    def statistics(self) -> Mapping[str, int]:
        return {"pings": self._pings, "reports": self._reports}

    def child_removed(self, group: Id, child: Peer) -> None:
        """Notes that a child is gone from a tree, perhaps to another parent."""
        if (job := self._jobs.of_group(group)) is not None:
            self._lost.setdefault(child.node_id, {})[job.app_id] = None

    def failed(self, peer: Peer, now: float) -> None:
        """Tells the masters of the jobs in which a dead agent was a child of this one."""
        for app_id in self._lost.pop(peer.node_id, ()):
            job = self._jobs.get(app_id)
            if job is not None and job.epoch is not None and job.root is None:
                self._reports += 1
                self._jobs.send_to_master(job, AgentFailed(app_id, job.epoch, peer.node_id), now)

    def tick(self, now: float) -> None:
        """Has the neighbours pinged that were waited for at the last look already."""
        self._lost.clear()
        waits = {
            (job.app_id, tree, peer): pane for job in self._jobs.active() for tree, peer, pane in self._waits_of(job)
        }
        for wait, pane in waits.items():
            if wait in self._waits and self._asked.get(wait) != pane:
                self._asked[wait] = pane
                self._pings += self._node.doubt(wait[2], now)
        self._waits = waits
        self._asked = {wait: pane for wait, pane in self._asked.items() if wait in waits}

    def _waits_of(self, job: LocalJob) -> Iterator[tuple[int, int, int]]:
        """The neighbours that a job waits for: the tree, the neighbour, and the pane."""
        for node in job.nodes:
            if node.combiner is not None and (most := node.combiner.most_awaited()) is not None:
                for child in node.children:
                    if node.combiner.lacks(child, most):
                        yield node.tree, child, most
            if (unacknowledged := node.buffer.unacknowledged()) is not None:
                parent = self._jobs.uplink(job, node.tree)
                if parent is not None:
                    yield node.tree, parent.node_id, unacknowledged
