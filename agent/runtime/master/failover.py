"""Replicates a master's state to the agents nearest to it, so that any of them can take over (DESIGN §4.5).

Theory. A master sends each revision of its descriptor (roster, frontier, results) to the live agents nearest to it.
When it fails, the agents that hold a descriptor forward it to the node that is closest to the appId now, which waits a
moment for the newest revision and becomes master, with the next epoch. The overlay reports failed nodes; as no node may
be probing a master, its silence counts too: it announces its job every 3 s. A live master that is no longer the closest
node hands over by itself, and so does one whose agent leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.master.result_log import ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, Replica, Replicated
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Node, Peer, distance


@dataclass(slots=True)
class _Replica:
    revision: int = 0
    upto: int = FIRST_PANE


class StateReplicator:
    """Replicates one master in one epoch to `wanted` agents."""

    def __init__(self, state: JobState, log: ResultLog, sender: MessageSender, node: Node, wanted: int) -> None:
        self._state = state
        self._sender = sender
        self._node = node
        self._wanted = wanted
        self._results = ResultLog(log)
        self._revision = 0
        self._roster_revision = -1
        self._held: dict[int, _Replica] = {}
        self._attempts = 0

    def publish(self, results: Iterable[tuple[int, bytes]], now: float) -> int:
        """Replicates a frontier and the results up to it; returns the revision to be held before they are published."""
        for pane, json in results:
            self._results.append(pane, json)
        self._replicate(now)
        return self._revision

    def refresh(self, now: float) -> None:
        """Replicates the roster if it has changed, or if a further agent is to hold the descriptor."""
        is_new = any(peer.node_id not in self._held for peer in self._nearest())
        if is_new or self._roster_revision != self._state.roster.revision:
            self._replicate(now)

    def confirmed(self, sender: Peer, message: Replicated) -> None:
        """Notes that an agent holds a revision."""
        if (held := self._held.get(sender.node_id)) is not None:
            held.revision = max(held.revision, message.revision)
            held.upto = max(held.upto, message.upto)

    def is_held(self, revision: int) -> bool:
        """Whether all agents that are to hold this revision do."""
        return all(held.revision >= revision for held in self._held.values())

    def hand_over(self, peer: Peer, attempt: int, now: float, *, leaving: bool) -> None:
        """Asks another agent to take over as master."""
        self._sender.send(peer, self._descriptor(FIRST_PANE, take_over=attempt, leaving=leaving), now)

    def successor(self) -> Peer | None:
        """The agent to hand over to when this one leaves: a different one with each attempt."""
        app_id = self._state.job.app_id
        # The next root comes first: anyone else would have to hand over once more.
        nearest = sorted(self._node.leaf_set, key=lambda peer: (distance(app_id, peer.node_id), peer.node_id))
        self._attempts += 1
        return nearest[(self._attempts - 1) % len(nearest)] if nearest else None

    def _nearest(self) -> tuple[Peer, ...]:
        return self._node.neighbours(self._wanted)

    def _replicate(self, now: float) -> None:
        self._revision += 1
        self._roster_revision = self._state.roster.revision
        nearest = self._nearest()
        self._held = {peer.node_id: self._held.get(peer.node_id) or _Replica() for peer in nearest}
        alike: dict[int, list[Peer]] = {}
        for peer in nearest:
            alike.setdefault(self._held[peer.node_id].upto, []).append(peer)
        for upto, peers in alike.items():
            self._sender.send_all(peers, self._descriptor(upto), now)

    def _descriptor(self, upto: int, *, take_over: int = 0, leaving: bool = False) -> Replica:
        """Everything that another master needs to continue from here; `upto`: the last result that it has."""
        state = self._state
        return Replica(
            app_id=state.job.app_id,
            epoch=state.epoch,
            revision=self._revision,
            job=state.job,
            submitter=state.submitter,
            members=state.roster.entries(),
            next_number=state.roster.next_number,
            frontier=state.published_upto,
            totals=list(state.totals),
            written_off=contributors.to_bytes(state.written_off),
            results=self._results.to_give(upto),
            versions=state.versions.all(),
            take_over=take_over,
            leaving=leaving,
        )


REPLICAS_MAX = 1024
SILENCE_S = 10.0
"""Time without an announcement, three of which are due in it, after which a master counts as failed."""
FORWARD_S = 1.0
"""First delay before forwarding a descriptor again; doubles each time so an overloaded fleet is not flooded."""
CANVASS_S = 0.5
"""Time for which a successor waits for a newer descriptor than its own."""
FORGET_S = 60.0
STOOD_STILL_S = 1.0
"""Time after a standstill in which an agent reads the messages it has missed, and does not take over."""


@dataclass(slots=True)
class _Held:
    replica: Replica
    log: ResultLog
    heard_at: float
    doubted_at: float | None = None
    forward_at: float = 0.0
    pause_s: float = FORWARD_S

    def heard(self, now: float) -> None:
        """Notes a sign of life of the job's master."""
        self.heard_at, self.doubted_at, self.pause_s = now, None, FORWARD_S


@dataclass(frozen=True, slots=True)
class Takeover:
    """A job whose master this agent has to become, in this epoch."""

    replica: Replica
    log: ResultLog
    epoch: JobEpoch


class Successors(Protocol):
    """The masters on this agent, which take over jobs."""

    @property
    def held(self) -> Mapping[Id, object]: ...
    def take_over(self, takeover: Takeover, now: float) -> None: ...


class Failover:
    """Holds the descriptors of other agents' masters, and decides which of them to take over."""

    name = "failover"

    def __init__(self, node: Node, sender: MessageSender, directory: JobDirectory, masters: Successors) -> None:
        self.refused = 0
        self.takes_over = True
        self._node = node
        self._sender = sender
        self._directory = directory
        self._masters = masters
        self._held: dict[Id, _Held] = {}
        self._failed: dict[int, float] = {}
        self._stood_still_at = -STOOD_STILL_S

    def handlers(self) -> Handlers:
        return {Replica: Handler(Via.DIRECT, self._replicated)}

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "held": len(self._held)}

    def _replicated(self, replica: Replica, sender: Peer, now: float) -> None:
        if (takeover := self.hold(sender, replica, now)) is not None:
            self._masters.take_over(takeover, now)

    @property
    def jobs(self) -> tuple[Id, ...]:
        return tuple(self._held)

    def hold(self, sender: Peer, replica: Replica, now: float) -> Takeover | None:
        """Takes a descriptor; a takeover if its master hands over to this agent."""
        app_id, held = replica.app_id, self._held.get(replica.app_id)
        known = self._directory.get(app_id)
        has_room = held is not None or len(self._held) < REPLICAS_MAX
        if not has_room or not self.takes_over or (known and replica.epoch < known.epoch):
            self.refused += 1
            return None
        if held is None or not replica.epoch.is_same_job(held.replica.epoch):
            held = self._held[app_id] = _Held(replica, ResultLog(replica.results), now)
        elif (replica.epoch, replica.revision) >= (held.replica.epoch, held.replica.revision):
            held.replica = replica
            for pane, json in replica.results:
                held.log.append(pane, json)
        if sender.node_id == replica.epoch.master:
            held.heard(now)
            self._failed.pop(sender.node_id, None)
            # Only the announced master may hand over; one that was never announced is not the master.
            is_master = known is not None and known.epoch == replica.epoch
            takes_over = is_master and (replica.leaving or (replica.take_over > 0 and self._is_successor(app_id, now)))
            declined = 0 if takes_over else replica.take_over
            self._sender.send(sender, Replicated(app_id, replica.epoch, replica.revision, held.log.last, declined), now)
            if takes_over:
                return self._take_over(app_id)
        return None

    def _is_successor(self, app_id: Id, now: float) -> bool:
        """Whether this agent is the root by now, and has not just stood still: the master may have withdrawn an older
        request."""
        return self._node.is_root(app_id) and now - self._stood_still_at > STOOD_STILL_S

    def failed(self, peer: Peer, now: float) -> None:
        """Notes that an agent is dead."""
        self._failed[peer.node_id] = now
        for node_id in [node_id for node_id, at in self._failed.items() if now - at > FORGET_S]:
            del self._failed[node_id]

    def announced(self, announce: Announce, now: float) -> None:
        """Notes that a master has announced its job."""
        held = self._held.get(announce.app_id)
        if held is not None and announce.epoch >= held.replica.epoch:
            held.heard(now)
            self._failed.pop(announce.epoch.master, None)

    def extend_deadlines(self, seconds: float, now: float) -> None:
        """Makes up for a standstill of this agent: masters may have announced their jobs meanwhile."""
        self._stood_still_at = now
        for held in self._held.values():
            held.heard_at += seconds

    def forget(self, app_id: Id, _now: float) -> None:
        """Drops the descriptor of a job that is over."""
        self._held.pop(app_id, None)

    def tick(self, now: float) -> None:
        """Takes over the jobs whose masters have failed, unless their new master is here already."""
        if not self.takes_over:
            return
        takeovers: list[Takeover] = []
        masters = self._masters.held
        for app_id, held in list(self._held.items()):
            if now - held.heard_at > FORGET_S:
                del self._held[app_id]
            elif app_id not in masters and self._is_orphaned(app_id, held, now):
                if held.doubted_at is None:
                    held.doubted_at = now
                if not self._node.is_root(app_id):
                    self._forward(app_id, held, now)
                elif now - held.doubted_at >= CANVASS_S:
                    takeovers.append(self._take_over(app_id))
        for takeover in takeovers:
            self._masters.take_over(takeover, now)

    def _is_orphaned(self, app_id: Id, held: _Held, now: float) -> bool:
        known = self._directory.get(app_id)
        master = max(known.epoch, held.replica.epoch).master if known else held.replica.epoch.master
        if not self._node.is_active or (known and held.replica.epoch > known.epoch):
            return False
        # The master may be this agent itself, in its previous process.
        is_self = master == self._node.peer.node_id
        return is_self or master in self._failed or now - held.heard_at > SILENCE_S

    def _forward(self, app_id: Id, held: _Held, now: float) -> None:
        nearest = self._node.closest(app_id)
        if nearest.node_id != self._node.peer.node_id and now >= held.forward_at:
            held.forward_at, held.pause_s = now + held.pause_s, 2 * held.pause_s
            replica = msgspec.structs.replace(held.replica, results=held.log.to_give(FIRST_PANE))
            self._sender.send(nearest, replica, now)

    def _take_over(self, app_id: Id) -> Takeover:
        held = self._held.pop(app_id)
        known = self._directory.get(app_id)
        last = max(known.epoch, held.replica.epoch) if known else held.replica.epoch
        return Takeover(held.replica, held.log, last.next(self._node.peer.node_id))
