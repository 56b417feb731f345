"""What the agents nearest to a master hold of it: all that a successor needs, and the last results.

Each gets what it has not confirmed, so that nothing is missing in its log whatever got lost; one that is new gets all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.runtime import contributors
from agent.runtime.master import Master
from agent.runtime.messages import Replica, Replicated
from agent.runtime.panes import FIRST_PANE
from agent.runtime.post import Post
from agent.runtime.result_log import ResultLog
from overlay import Node, Peer, distance


@dataclass(slots=True)
class _Held:
    revision: int = 0
    upto: int = FIRST_PANE


class Replication:
    """Of one master in one epoch. `wanted` is how many agents are to hold its descriptor."""

    def __init__(self, master: Master, log: ResultLog, post: Post, node: Node, wanted: int) -> None:
        self._master = master
        self._post = post
        self._node = node
        self._wanted = wanted
        self._results = ResultLog(log)
        self._revision = 0
        self._roster_revision = -1
        self._held: dict[int, _Held] = {}
        self._attempts = 0

    def publish(self, results: Iterable[tuple[int, bytes]], now: float) -> int:
        """Gives away a frontier and the results up to it; the revision that has to be held before they go out."""
        for pane, json in results:
            self._results.append(pane, json)
        self._give(now)
        return self._revision

    def refresh(self, now: float) -> None:
        """Gives away what has changed, to whom it concerns by now."""
        is_new = any(peer.node_id not in self._held for peer in self._nearest())
        if is_new or self._roster_revision != self._master.roster.revision:
            self._give(now)

    def confirmed(self, sender: Peer, message: Replicated) -> None:
        """An agent holds a revision."""
        if (held := self._held.get(sender.node_id)) is not None:
            held.revision = max(held.revision, message.revision)
            held.upto = max(held.upto, message.upto)

    def is_held(self, revision: int) -> bool:
        """Whether everyone who is to have this revision has it."""
        return all(held.revision >= revision for held in self._held.values())

    def hand_over(self, peer: Peer, attempt: int, now: float, *, leaving: bool) -> None:
        """Makes another agent master, if it takes over."""
        self._post.send(peer, self._descriptor(FIRST_PANE, take_over=attempt, leaving=leaving), now)

    def successor(self) -> Peer | None:
        """Who is to be master when this agent leaves: another one with each attempt."""
        app_id = self._master.job.app_id
        # The next root comes first: anyone else would have to hand over once more.
        nearest = sorted(self._node.leaf_set, key=lambda peer: (distance(app_id, peer.node_id), peer.node_id))
        self._attempts += 1
        return nearest[(self._attempts - 1) % len(nearest)] if nearest else None

    def _nearest(self) -> tuple[Peer, ...]:
        return self._node.neighbours(self._wanted)

    def _give(self, now: float) -> None:
        self._revision += 1
        self._roster_revision = self._master.roster.revision
        nearest = self._nearest()
        self._held = {peer.node_id: self._held.get(peer.node_id) or _Held() for peer in nearest}
        alike: dict[int, list[Peer]] = {}
        for peer in nearest:
            alike.setdefault(self._held[peer.node_id].upto, []).append(peer)
        for upto, peers in alike.items():
            self._post.send_all(peers, self._descriptor(upto), now)

    def _descriptor(self, upto: int, *, take_over: int = 0, leaving: bool = False) -> Replica:
        """All that another master needs to go on from here; `upto`: the results it has."""
        master = self._master
        return Replica(
            app_id=master.job.app_id,
            epoch=master.epoch,
            revision=self._revision,
            job=master.job,
            submitter=master.submitter,
            members=master.roster.entries(),
            next_number=master.roster.next_number,
            frontier=master.out,
            totals=list(master.totals),
            given_up=contributors.to_bytes(master.given_up),
            results=self._results.to_give(upto),
            versions=master.versions.all(),
            take_over=take_over,
            leaving=leaving,
        )
