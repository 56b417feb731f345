"""Replicates a master's state to the agents nearest to it, so that any of them can take over (DESIGN §4.5).

Theory. A master sends each revision of its descriptor (roster, frontier, results) to the live agents nearest to it.
When it fails, the agents that hold a descriptor forward it to the node that is closest to the appId now, which waits a
moment for the newest revision and becomes master, with the next epoch. The overlay reports failed nodes; as no node may
be probing a master, its silence counts too: it announces its job every 3 s. A live master that is no longer the closest
node hands over by itself, and so does one whose agent leaves.

A fleet that starts again as a whole has no master for its jobs, and descriptors on the disks of agents (`JobRecorder`).
Each agent restores its own, listens for a while whether their masters live or their jobs have ended, and then does as
above; the nearest one does so as soon as those around it are back and follow nobody (`MasterSearch`). Where disks
differ, the master hears of what is newer than its own, and begins again with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.master_search import MasterSearch
from agent.runtime.master.job_recorder import JobRecorder, Then
from agent.runtime.master.kept_jobs import KeptJob
from agent.runtime.master.results.late_json import ResultJson
from agent.runtime.master.results.reader_runs import NOTHING_READ, ReaderRuns, ReadMark
from agent.runtime.master.results.result_log import Packed, ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, Replica, Replicated, Stopped
from agent.runtime.messages.mastership import MasterAnswer, MasterQuestion
from agent.runtime.messages.programs import Line
from agent.runtime.messages.reading import NO_RUNS, GivenRuns
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Node, Peer, distance


@dataclass(slots=True)
class _Replica:
    revision: int = 0
    upto: int = FIRST_PANE
    mark: ReadMark = NOTHING_READ


class StateReplicator:
    """Replicates one master in one epoch to `wanted` agents, and to this agent's disk; calls `on_stored` when that has
    a revision. `read`: what this agent has read for open windows, if it reads another job's results.
    """

    def __init__(
        self,
        state: JobState,
        log: ResultLog,
        sender: MessageSender,
        node: Node,
        wanted: int,
        recorder: JobRecorder,
        on_stored: Then,
        read: ReaderRuns,
    ) -> None:
        self._read = read
        self._marks: dict[int, ReadMark] = {}
        """The mark of each revision that is not confirmed by all."""
        self._state = state
        self._recorder = recorder
        self._on_stored = on_stored
        self._stored = 0
        self._sender = sender
        self._node = node
        self._wanted = wanted
        self._results = ResultLog(log, is_of_stage=log.is_of_stage)
        self._revision = 0
        self._roster_revision = -1
        self._held: dict[int, _Replica] = {}
        self._attempts = 0

    def publish(self, results: Iterable[tuple[int, ResultJson]], now: float) -> int:
        """Replicates a frontier and the results up to it; returns the revision to be held before they are published."""
        for pane, json in results:
            self._results.append(pane, json)
        self._replicate(now)
        return self._revision

    def pack(self, packed: Mapping[int, Packed]) -> None:
        """Keeps the results of a job that is over in less memory; `packed` are those that were published."""
        self._results.pack(packed)

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
            held.mark = max(held.mark, self._marks.get(message.revision, NOTHING_READ))

    def is_held(self, revision: int) -> bool:
        """Whether this agent's disk and all agents that are to hold this revision do."""
        return self._stored >= revision and all(held.revision >= revision for held in self._held.values())

    def hand_over(self, peer: Peer, attempt: int, now: float, *, leaving: bool) -> None:
        """Asks another agent to take over as master."""
        descriptor = self._descriptor(_Replica())
        self._sender.send(peer, msgspec.structs.replace(descriptor, take_over=attempt, leaving=leaving), now)

    def offer(self, peer: Peer, now: float) -> None:
        """Tells another master, whose epoch is higher, what this one has."""
        self._sender.send(peer, msgspec.structs.replace(self._descriptor(_Replica()), restored=True), now)

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
        oldest = min((one.revision for one in self._held.values()), default=self._revision)
        self._marks = {revision: mark for revision, mark in self._marks.items() if revision >= oldest}
        self._marks[self._revision] = self._read.mark
        alike: dict[tuple[int, ReadMark], list[Peer]] = {}
        for peer in nearest:
            held = self._held[peer.node_id]
            alike.setdefault((held.upto, held.mark), []).append(peer)
        for peers in alike.values():
            self._sender.send_all(peers, self._descriptor(self._held[peers[0].node_id]), now)
        stored = partial(self._revision_stored, self._revision)
        descriptor = descriptor_of(self._state, self._revision)
        if not self._recorder.keep(descriptor, self._results, self._read, now, stored):
            self._stored = self._revision

    def _revision_stored(self, revision: int, now: float) -> None:
        self._stored = max(self._stored, revision)
        self._on_stored(now)

    def _descriptor(self, held: _Replica) -> Replica:
        """The descriptor with the results, and the runs, that its receiver lacks."""
        results = self._results.to_give(held.upto)
        return descriptor_of(self._state, self._revision, results, self._read.given(held.mark))


def descriptor_of(
    state: JobState,
    revision: int,
    results: Sequence[tuple[int, bytes]] = (),
    read: GivenRuns = NO_RUNS,
) -> Replica:
    """Everything that another master needs to continue from here."""
    return Replica(
        app_id=state.job.app_id,
        epoch=state.epoch,
        revision=revision,
        job=state.job,
        submitter=state.submitter,
        members=state.roster.entries(),
        next_number=state.roster.next_number,
        frontier=state.published_upto,
        totals=list(state.totals),
        written_off=contributors.to_bytes(state.written_off),
        results=list(results),
        versions=state.versions.all(),
        incomplete=state.told_incomplete(state.published_upto),
        unshown=state.told_unshown,
        moved=state.moved,
        read=read,
    )


def _revision(replica: Replica) -> tuple[JobEpoch, int]:
    return replica.epoch, replica.revision


REPLICAS_MAX = 1024
EARLY_MAX = 256
"""Upper bound on the jobs whose next master's descriptor is kept until it is believed to be the master, or gone."""
SILENCE_S = 10.0
"""Time without an announcement, three of which are due in it, after which a master counts as failed."""
FORWARDED_S = 4.0
"""Time left of it where another agent forwards the descriptor, which has waited already."""
FORWARD_S = 1.0
"""First delay before forwarding a descriptor again; doubles each time so an overloaded fleet is not flooded."""
CANVASS_S = 0.5
"""Time for which a successor waits for a newer descriptor than its own."""
FORGET_S = 60.0
RESTORE_S = 5.0
"""Time without an announcement, one of which is due in it, after which a descriptor from a disk has no live master."""
STOOD_STILL_S = 1.0
"""Time after a standstill in which an agent reads the messages it has missed, and does not take over."""


@dataclass(slots=True)
class _Held:
    replica: Replica
    log: ResultLog
    heard_at: float
    read: ReaderRuns = field(default_factory=ReaderRuns)
    doubted_at: float | None = None
    forward_at: float = 0.0
    pause_s: float = FORWARD_S
    restored: bool = False
    """Whether a disk has had it, here or elsewhere, and no master of the job has been heard since."""
    lines: tuple[Line, ...] = ()
    behind_since: float | None = None
    look_at: float = 0.0
    """Time before which its master is not missed, unless something is heard."""

    def heard(self, now: float) -> None:
        """Notes a sign of life of the job's master."""
        self.heard_at, self.doubted_at, self.pause_s, self.restored = now, None, FORWARD_S, False

    def notice_progress(self, announce: Announce, now: float) -> None:
        """Notes since when the job's master has published more than this descriptor has."""
        epoch = self.replica.epoch
        if epoch.born_ms >= announce.epoch.born_ms and self.replica.frontier >= announce.frontier:
            self.behind_since = None
        elif self.behind_since is None:
            self.behind_since, self.look_at = now, 0.0

    def is_stale(self, now: float) -> bool:
        """Whether nothing has been heard of the master for long, or it has replicated to others instead for long."""
        return now - self.heard_at > FORGET_S or (self.behind_since is not None and now - self.behind_since > FORGET_S)

    def whole(self) -> Replica:
        """The descriptor with all its results, and runs."""
        results, read = self.log.to_give(FIRST_PANE), self.read.given()
        return msgspec.structs.replace(
            self.replica, results=results, read=read, restored=self.restored, take_over=0, leaving=False
        )

    def take(self, replica: Replica) -> None:
        """Takes a later descriptor, with what is new in it."""
        self.replica, self.look_at = replica, 0.0
        for pane, json in replica.results:
            self.log.append(pane, json)
        self.read.take(replica.read)


@dataclass(frozen=True, slots=True)
class Takeover:
    """A job whose master this agent has to become, in this epoch. `restored`: it comes from a disk, with the `lines` of
    its log.
    """

    replica: Replica
    log: ResultLog
    epoch: JobEpoch
    restored: bool = False
    lines: tuple[Line, ...] = ()
    dead: frozenset[int] = frozenset()
    """Agents that are known to be dead, the master before among them."""
    read: GivenRuns = NO_RUNS
    """The runs of the reader of another job's results, for open windows."""


class Successors(Protocol):
    """The masters on this agent, which take over jobs."""

    def leads(self, app_id: Id) -> bool: ...
    def take_over(self, takeover: Takeover, now: float) -> None: ...
    def learn(self, replica: Replica, sender: Peer, now: float) -> None: ...
    def end_restored(self, stopped: Stopped, now: float) -> bool: ...


class Failover:
    """Holds the descriptors of other agents' masters, and decides which of them to take over."""

    name = "failover"

    def __init__(
        self,
        node: Node,
        sender: MessageSender,
        directory: JobDirectory,
        masters: Successors,
        recorder: JobRecorder,
        search: MasterSearch,
    ) -> None:
        self.refused = 0
        self._recorder = recorder
        self.search = search
        self.takes_over = True
        self._node = node
        self._sender = sender
        self._directory = directory
        self._masters = masters
        self._held: dict[Id, _Held] = {}
        self._early: dict[Id, tuple[Peer, Replica]] = {}
        self._forwarded: dict[Id, tuple[Peer, Replica]] = {}
        """Descriptors of masters that this agent has not heard of, and that are gone as others say."""
        self._failed: dict[int, float] = {}
        self._stood_still_at = -STOOD_STILL_S

    def handlers(self) -> Handlers:
        return {
            Replica: Handler(Via.DIRECT, self._replicated),
            Stopped: Handler(Via.DIRECT, self._told_over),
            MasterQuestion: Handler(Via.DIRECT, self._asked_for_master),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "held": len(self._held)}

    # Descriptors from disks.

    def restore(self, jobs: Iterable[KeptJob], now: float) -> None:
        """Takes the descriptors that this agent's disk has kept, before its node joins the overlay."""
        for job in jobs:
            app_id, epoch = job.replica.app_id, job.replica.epoch
            if len(self._held) < REPLICAS_MAX and not self._directory.is_over(app_id, epoch):
                lines = tuple(job.log.lines)
                self._held[app_id] = _Held(job.replica, job.results, now, job.read, restored=True, lines=lines)

    def begin(self, now: float) -> None:
        """Begins to listen for the masters of jobs, as the agent has joined the fleet."""
        for held in self._held.values():
            held.heard_at = now

    def answer_over(self, announce: Announce, now: float) -> None:
        """Tells a master that its job has ended: it may have it from a disk."""
        if announce.master.node_id != self._node.peer.node_id:
            self._sender.send(announce.master, Stopped(announce.app_id, announce.epoch, "stopped"), now)

    def _told_over(self, stopped: Stopped, _sender: Peer, now: float) -> bool:
        """Ends a job that has come from a disk, and from nowhere else."""
        held = self._held.get(stopped.app_id)
        if held is not None and held.restored and held.replica.epoch.is_same_job(stopped.epoch):
            return self._directory.stopped(stopped, now)
        return self._masters.end_restored(stopped, now)

    def _asked_for_master(self, question: MasterQuestion, sender: Peer, now: float) -> None:
        """Tells whether a job from another agent's disk has a master as far as is known here, or has ended."""
        app_id, held = question.app_id, self._held.get(question.app_id)
        if self._directory.is_over(app_id, question.epoch):
            self._sender.send(sender, Stopped(app_id, question.epoch, "stopped"), now)
            return
        follows = self._directory.get(app_id) is not None or self._masters.leads(app_id)
        if held is not None:
            follows |= not held.restored
            if held.restored and (held.replica.epoch, held.replica.revision) > (question.epoch, question.revision):
                self._sender.send(sender, held.whole(), now)
        self._sender.send(sender, MasterAnswer(app_id, follows), now)

    def _offer(self, held: _Held, announce: Announce, now: float) -> None:
        """Tells a master what this agent's disk had: the master's may have had less."""
        if announce.master.node_id == self._node.peer.node_id:
            self._masters.learn(held.whole(), self._node.peer, now)
        elif now >= held.forward_at:
            held.forward_at = now + FORWARD_S
            self._sender.send(announce.master, held.whole(), now)

    # Descriptors of other masters.

    def _replicated(self, replica: Replica, sender: Peer, now: float) -> None:
        if replica.restored:
            if self._directory.is_over(replica.app_id, replica.epoch):
                self._sender.send(sender, Stopped(replica.app_id, replica.epoch, "stopped"), now)
                return
            if self._masters.leads(replica.app_id):
                self._masters.learn(replica, sender, now)
                return
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
        is_forwarded = sender.node_id != replica.epoch.master and not replica.restored
        if known is not None and replica.epoch > known.epoch and not (is_forwarded and self._is_gone(known, now)):
            self._keep_early(sender, replica, known)
            return None
        if held is not None and held.restored and not replica.restored:
            self._sender.send(sender, held.whole(), now)
        if held is None or not replica.epoch.is_same_job(held.replica.epoch):
            heard_at = now - (SILENCE_S - FORWARDED_S if is_forwarded else 0.0)
            read = ReaderRuns(replica.read)
            held = _Held(replica, ResultLog.of(replica), heard_at, read, restored=replica.restored)
            self._held[app_id] = held
        elif _revision(replica) >= _revision(held.replica):
            held.take(replica)
        if sender.node_id == replica.epoch.master and not replica.restored:
            held.heard(now)
            held.behind_since = None
            self._failed.pop(sender.node_id, None)
            # Only the announced master may hand over; one that was never announced is not the master.
            is_master = known is not None and known.epoch == replica.epoch
            takes_over = is_master and (replica.leaving or (replica.take_over > 0 and self._is_successor(app_id, now)))
            declined = 0 if takes_over else replica.take_over
            confirmation = Replicated(app_id, replica.epoch, replica.revision, held.log.last, declined)
            confirm = partial(self._sender.send, sender, confirmation)
            if takes_over:
                confirm(now)
                return self._take_over(app_id)
            if held.replica is not replica or not self._recorder.keep(replica, held.log, held.read, now, confirm):
                confirm(now)
        return None

    def _keep_early(self, sender: Peer, replica: Replica, known: Announce) -> None:
        """Keeps the last descriptor of one that is not believed to be the master so far, and the newest that others
        pass on of one that was: this agent may have stood still meanwhile."""
        is_of_master = sender.node_id == replica.epoch.master
        kept = self._early if is_of_master else self._forwarded
        before = kept.get(replica.app_id)
        follows = replica.epoch.is_same_job(known.epoch) and not replica.epoch.is_jump_from(known.epoch)
        has_room = before is not None or len(kept) < EARLY_MAX
        if replica.take_over or not has_room or not (is_of_master or (follows and not replica.restored)):
            self.refused += 1
        elif is_of_master or before is None or _revision(before[1]) <= _revision(replica):
            kept[replica.app_id] = (sender, replica)

    def _take_forwarded(self, now: float) -> None:
        """Holds the descriptors that others have passed on of masters after those that this agent knows, and that are
        gone by now."""
        for app_id, (sender, replica) in list(self._forwarded.items()):
            known = self._directory.get(app_id)
            if known is None or known.epoch >= replica.epoch or self._is_gone(known, now):
                del self._forwarded[app_id]
                self.hold(sender, replica, now)

    def _is_gone(self, known: Announce, now: float) -> bool:
        """Whether a master has failed, or has not announced its job for long."""
        heard_at = self._directory.announced_at(known.app_id)
        return known.epoch.master in self._failed or heard_at is None or now - heard_at > SILENCE_S

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
        early = self._early.pop(announce.app_id, None)
        if early is not None and early[1].epoch == announce.epoch:
            self.hold(*early, now)
        held = self._held.get(announce.app_id)
        if held is None:
            return
        if held.restored:
            self._offer(held, announce, now)
        held.look_at = 0.0
        if announce.epoch >= held.replica.epoch and not self._is_dead(announce.epoch.master):
            held.heard(now)
            self.search.forget(announce.app_id)
            self._failed.pop(announce.epoch.master, None)
            held.notice_progress(announce, now)

    def _is_dead(self, node_id: int) -> bool:
        """Whether an agent has failed and is not back: what is announced in its name is old, or forged."""
        return node_id in self._failed and self._node.tables.known(node_id) is None

    def extend_deadlines(self, seconds: float, now: float) -> None:
        """Makes up for a standstill of this agent: masters may have announced their jobs meanwhile."""
        self._stood_still_at = now
        for held in self._held.values():
            held.heard_at += seconds

    def forget(self, app_id: Id, now: float) -> None:
        """Drops the descriptor of a job that is over, or has not been announced for too long."""
        self._early.pop(app_id, None)
        self._forwarded.pop(app_id, None)
        self.search.forget(app_id)
        held = self._held.pop(app_id, None)
        if held is not None and self._directory.is_over(app_id, held.replica.epoch):
            self._recorder.end(app_id, now)
        elif held is not None:
            self._recorder.drop(app_id, held.replica.epoch, now)

    def tick(self, now: float) -> None:
        """Takes over the jobs whose masters have failed, unless their new master is here already."""
        if not self.takes_over:
            return
        takeovers: list[Takeover] = []
        self._take_forwarded(now)
        has_failed = any(now - at <= FORGET_S for at in self._failed.values())
        for app_id, held in list(self._held.items()):
            if now < held.look_at and not has_failed:
                continue
            if held.is_stale(now):
                self.forget(app_id, now)
            elif self._masters.leads(app_id):
                continue
            elif self._is_orphaned(app_id, held, now):
                if held.doubted_at is None:
                    held.doubted_at = now
                if not self._node.is_root(app_id):
                    self._forward(app_id, held, now)
                elif now - held.doubted_at >= CANVASS_S:
                    takeovers.append(self._take_over(app_id, is_orphaned=True))
            elif self._node.is_active and not held.restored and held.behind_since is None:
                held.look_at = held.heard_at + SILENCE_S
        for takeover in takeovers:
            self._masters.take_over(takeover, now)

    def _is_orphaned(self, app_id: Id, held: _Held, now: float) -> bool:
        known = self._directory.get(app_id)
        master = max(known.epoch, held.replica.epoch).master if known else held.replica.epoch.master
        if not self._node.is_active or (known and held.replica.epoch > known.epoch and not self._is_gone(known, now)):
            return False
        if held.restored:
            is_alone = self._node.is_root(app_id) and self.search.finds_nobody(held.replica, now)
            return is_alone or now - held.heard_at > RESTORE_S
        # The master may be this agent itself, in its previous process.
        is_self = master == self._node.peer.node_id
        return is_self or master in self._failed or now - held.heard_at > SILENCE_S

    def _forward(self, app_id: Id, held: _Held, now: float) -> None:
        nearest = self._node.closest(app_id)
        if nearest.node_id != self._node.peer.node_id and now >= held.forward_at:
            held.forward_at, held.pause_s = now + held.pause_s, 2 * held.pause_s
            self._sender.send(nearest, held.whole(), now)

    def _take_over(self, app_id: Id, *, is_orphaned: bool = False) -> Takeover:
        held, own = self._held.pop(app_id), self._node.peer.node_id
        self._forwarded.pop(app_id, None)
        self.search.forget(app_id)
        known = self._directory.get(app_id)
        last = max(known.epoch, held.replica.epoch) if known else held.replica.epoch
        gone = filter(self._is_dead, self._failed)  # of the others some are back
        dead = frozenset({*gone, *((last.master,) if is_orphaned else ())} - {own})
        read = held.read.given()
        return Takeover(held.replica, held.log, last.next(own), held.restored, held.lines, dead, read)
