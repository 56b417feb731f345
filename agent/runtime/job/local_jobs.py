"""All of an agent's parts in jobs: which it has, what comes in for them, and what they send up their trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

import query
from agent.runtime.fleet.job_directory import JOBS_MAX, SILENCE_S, JobDirectory
from agent.runtime.ingest.feed import FeedKey, StreamOptions
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.job import code_calls as part_code
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.job.topology import TreeTopology
from agent.runtime.messages.jobs import Announce, Commit, Enrol, Snapshot, SnapshotAck
from agent.runtime.messages.programs import ProgramMulticast
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.reduce.resend import AckLatency
from overlay import Id, Node, Peer

JOBS_AT_ONCE = 4
"""Number of jobs that combine and send before the rest of the agent has its turn."""


class LocalJobs:
    """All local jobs of one agent; the feeds of their streams come in by `ingest`."""

    def __init__(
        self,
        name: str,
        node: Node,
        post: MessageSender,
        streams: Mapping[str, StreamOptions],
        announcements: JobDirectory,
        ingest: OperatorPool,
        programs: Programs,
        code: CodeRegistry,
    ) -> None:
        self.refused = 0
        self.takes_work = True
        self._name = name
        self._node = node
        self._post = post
        self._streams = streams
        self._announcements = announcements
        self._programs = programs
        self._code = code
        self.ingest = ingest
        ingest.listener = self
        self._pace = AckLatency()
        self._trees = TreeTopology(node)
        self._parts: dict[Id, LocalJob] = {}
        self._awaiting: dict[Id, None] = {}
        """Jobs that wait for a sign of life of their feeds."""
        self._working: dict[Id, None] = {}
        """Jobs with runs to combine and send, in the order in which they got them."""
        self._unannounced: dict[Id, float] = {}
        self._unable: dict[Id, JobEpoch] = {}

    def __iter__(self) -> Iterator[LocalJob]:
        return iter(list(self._parts.values()))

    def __len__(self) -> int:
        return len(self._parts)

    def get(self, app_id: Id) -> LocalJob | None:
        return self._parts.get(app_id)

    # Which parts there are.

    def hear(self, announce: Announce, now: float) -> None:
        """A job is announced by its present master: joins it, turns to a new master, mends what got lost."""
        part = self._parts.get(announce.app_id)
        has_events = bool(self.streams_of(announce.stream)) or (part is not None and part.reads_app)
        works = has_events and (self.takes_work or (part is not None and part.pipeline is not None))
        works = works and self._unable.get(announce.app_id) != announce.epoch
        if part is None and not works and not self._trees.has_children(announce.app_id, announce.trees):
            return
        part = part or self._make(announce.app_id)
        if part is None or (part.epoch is not None and announce.epoch < part.epoch):
            self.refused += 1
            return
        if part.epoch is None or announce.epoch > part.epoch:
            self._unannounced.pop(part.app_id, None)
            self._begin_epoch(part, announce.epoch, announce.master, announce.trees, now)
        part.commit(announce.frontier)
        part.works = works
        if not works:
            part.close()
        part.forwards = part.nodes.has_children
        if not part.is_needed:
            self.drop(part.app_id, now)
            return
        self._ask(part, now, behind=announce.version > part.version)
        part.withdraw_unless(announce.proposed, announce.version)
        if part.number is not None and announce.agents < announce.expected:
            self._post.send(announce.master, part.ready_message(), now)

    def _begin_epoch(self, part: LocalJob, epoch: JobEpoch, master: Peer, trees: int, now: float) -> None:
        if trees != len(part.nodes):
            self._trees.leave(part, now)
        part.begin_epoch(epoch, master, trees)
        self._trees.watch(part)

    def lead(self, app_id: Id, epoch: JobEpoch, trees: int, now: float) -> LocalJob:
        """Begins an epoch in which this agent is the job's master; the caller sets the job's `root`."""
        part = self._parts.get(app_id) or self._make(app_id)
        assert part is not None, "a master is made only where there is room"
        self._begin_epoch(part, epoch, self._node.peer, trees, now)
        for program in part.programs.values():
            program.is_root = True
        return part

    def work_no_more(self, part: LocalJob, now: float) -> None:
        """This agent cannot run the job in this epoch: it is no worker, and has no part in it unless others need it."""
        assert part.epoch is not None
        self._unable[part.app_id] = part.epoch
        if len(self._unable) > JOBS_MAX:
            del self._unable[next(iter(self._unable))]
        part.works = False
        if not part.is_needed:
            self.drop(part.app_id, now)

    def depose(self, app_id: Id) -> None:
        """The job's master is here no longer."""
        if (part := self._parts.get(app_id)) is not None:
            part.root = None
            for program in part.programs.values():
                program.is_root = False

    def drop(self, app_id: Id, now: float) -> None:
        """Has no part in a job any more."""
        self._unannounced.pop(app_id, None)
        if (part := self._parts.pop(app_id, None)) is not None:
            self._code.keep(part, ())
            part.close()
            self._trees.leave(part, now)

    @property
    def has_room(self) -> bool:
        return len(self._parts) < JOBS_MAX

    def _make(self, app_id: Id) -> LocalJob | None:
        if not self.has_room:
            return None
        shared = (self.ingest, self._pace)
        part = self._parts[app_id] = LocalJob(app_id, self._node.peer.node_id, *shared, self._has_work)
        part.map_events = part_code.mapper(part, self._programs)
        self._trees.watch(part)
        return part

    def join_trees(self, part: LocalJob, now: float) -> None:
        """The part is installed: what it says will be waited for."""
        self._trees.join(part, now)

    def _ask(self, part: LocalJob, now: float, *, behind: bool = False) -> None:
        """Asks the master for what is needed to take part, also where others are ahead of what is known here."""
        if part.epoch is None or part.master_peer is None:
            return
        if not part.is_installed or (part.works and part.number is None) or behind:
            enrol = Enrol(part.app_id, part.epoch, self._name, part.works, part.number_before)
            self._post.send(part.master_peer, enrol, now)

    def streams_of(self, stream: str) -> dict[str, StreamOptions]:
        """The agent's streams that a job reads: `stream` is one, or several by patterns (see `query.model.streams`)."""
        return {name: options for name, options in self._streams.items() if query.selects(stream, name)}

    # What masters say.

    def word(self, message: ProgramMulticast) -> bool:
        """The master says something to the job's code; False if it is not the one in office."""
        part = self._parts.get(message.app_id)
        if part is None or message.epoch != part.epoch:
            return part is None
        part_code.hear(part, message, self._programs)
        return True

    def await_feeds(self, part: LocalJob) -> None:
        """The part has something to do, or to say, as soon as its feeds give a sign of life."""
        self._awaiting[part.app_id] = None

    def tell_prepared(self, part: LocalJob, now: float) -> None:
        if (prepared := part.prepared()) is not None:
            self.tell_master(part, prepared, now)

    def tell_master(self, part: LocalJob, message: Message, now: float) -> None:
        if part.master_peer is not None:
            self._post.send(part.master_peer, message, now)

    def commit(self, message: Commit) -> bool:
        """Frees what is out; False if the word is not from the master in office."""
        part = self._parts.get(message.app_id)
        if part is None or message.epoch != part.epoch:
            return part is None
        part.commit(message.frontier)
        return True

    # The tree.

    def snapshot(self, message: Snapshot, sender: Peer, now: float) -> bool:
        """Takes a run: from a child, or at the master from a tree's root, or straight from an agent that leaves."""
        part = self._parts.get(message.app_id)
        if part is None and self._announcements.is_over(message.app_id, message.epoch):
            return False
        if message.of_root:
            is_root = self._trees.may_be_root(message.app_id, message.tree, sender)
            taken = part is not None and is_root and part.child_snapshot(sender.node_id, message)
        elif not self._trees.is_child(message.app_id, message.tree, sender):
            taken = part is not None and part.take_again(message)
        else:
            part = part or self._forward(message.app_id, now)
            taken = part is not None and part.child_snapshot(sender.node_id, message)
        if part is not None:
            if taken:
                self._post.send(sender, _receipt(message), now)
            if part.is_behind:
                self._ask(part, now, behind=True)
            part_code.show_received(part, self._programs)
            # Not at once: where many jobs' panes end together, peers would wait for a sign of life meanwhile.
            self._has_work(part)
        return taken

    def _forward(self, app_id: Id, now: float) -> LocalJob | None:
        """A child speaks of a job we only lie on the way of: to combine for it we need the function, and commits."""
        part = self._make(app_id)
        if part is not None:
            part.forwards = True
            if (known := self._announcements.get(app_id)) is not None:
                self.hear(known, now)
        return part

    def received(self, message: SnapshotAck, sender: Peer, now: float) -> bool:
        """The parent has a snapshot."""
        part = self._parts.get(message.app_id)
        if part is None or message.epoch != part.epoch:
            return part is None
        if message.tree >= len(part.nodes):
            return False
        parent = self._trees.uplink(part, message.tree, leaves=not self.takes_work)
        if parent is None or parent.node_id != sender.node_id:
            return False
        part.nodes.confirmed(message, now)
        return True

    def _place(self, group: Id) -> tuple[LocalJob, int] | None:
        """The part and the tree that a group is of."""
        place = self._trees.of(group)
        return None if place is None else (self._parts[place[0]], place[1])

    def child_added(self, group: Id, child: Peer, now: float) -> None:
        """Somebody has become a child of this node."""
        if (place := self._place(group)) is not None:
            part, tree = place
            part.nodes.add_child(child.node_id, tree)
            part.forwards = True
            self._ask(part, now)

    def child_removed(self, group: Id, child: Peer, now: float) -> None:
        """Without children a forwarder has nothing to do in the tree, and its parent nothing to wait for."""
        if (place := self._place(group)) is None:
            return
        part, tree = place
        part.nodes.remove_child(child.node_id, tree)
        part.forwards = part.nodes.has_children
        self.pass_on(part, now)
        if not part.is_needed:
            self.drop(part.app_id, now)

    def parent_changed(self, group: Id, now: float) -> None:
        """The node has another parent in the tree, or none."""
        if (place := self._place(group)) is not None:
            part, tree = place
            part.nodes.parent_changed(tree)
            self.send_up(part, now)

    def pass_on(self, part: LocalJob, now: float) -> None:
        """Sends completed runs up; at the root, lets the master publish them."""
        part.pass_on()
        self.send_up(part, now)
        if part.root is not None:
            part.root.on_complete(now)

    def send_up(self, part: LocalJob, now: float) -> None:
        """Sends what parents have to get now, and from the root of a tree the master."""
        for tree in range(len(part.nodes)):
            uplink = self._trees.uplink(part, tree, leaves=not self.takes_work)
            if uplink is None:
                continue
            of_root = tree > 0 and self._trees.is_root(part.app_id, tree)
            for message in part.nodes.unsent(tree, now):
                self._post.send(uplink, msgspec.structs.replace(message, of_root=of_root), now)

    # Events and sealing.

    def before_feeds(self) -> None:
        """Jobs that have become ready want their feeds read."""
        for app_id in self._awaiting:
            part = self._parts.get(app_id)
            if part is not None and part.pipeline is not None:
                part.pipeline.get_ready()

    def feed_opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A feed gives a sign of life: it is open, which some jobs may have waited for."""
        for app_id in list(self._awaiting):
            part = self._parts.get(app_id)
            if part is not None and part.pipeline is not None and part.pipeline.get_ready():
                ready = part.opened(key, wall_ms)
                if ready is not None:
                    self.tell_master(part, ready, now)
                    self.pass_on(part, now)

    def feed_read(self, now: float) -> None:
        """A feed may have shown that it yields the columns of versions that are being prepared."""
        for app_id in list(self._awaiting):
            part = self._parts.get(app_id)
            if part is not None:
                self.tell_prepared(part, now)
            if part is None or part.pipeline is None or not part.pipeline.awaits_feeds:
                del self._awaiting[app_id]

    def sealed_upto(self) -> int | None:
        """How far the job has sealed whose turn it is; None when nothing can be sealed or passed on now."""
        if (operator := self.ingest.turn()) is not None:
            return operator.frontier
        return FIRST_PANE if self._working else None

    def seal_next(self, now: float) -> None:
        """Passes on what some jobs have new; where none has, seals one run of the operator whose turn it is first."""
        if not self._working:
            self.ingest.seal_next()
        for app_id in list(islice(self._working, JOBS_AT_ONCE)):
            del self._working[app_id]
            if (part := self._parts.get(app_id)) is not None:
                self.pass_on(part, now)

    def _has_work(self, part: LocalJob) -> None:
        self._working[part.app_id] = None

    def tick(self, now: float) -> None:
        """Looks after what waits: snapshots without confirmation, watermarks that have moved on."""
        self.ingest.start_sealing()
        for part in self:
            if part.epoch is None:
                self._doubt(part, now)
                continue
            if part.excuse_stragglers(now):
                self.pass_on(part, now)
            elif not part.nodes.is_confirmed:
                self.send_up(part, now)

    def _doubt(self, part: LocalJob, now: float) -> None:
        """A child speaks of a job that no master announces: for a while that may be news of a new one."""
        if now - self._unannounced.setdefault(part.app_id, now) > SILENCE_S:
            self.drop(part.app_id, now)


def _receipt(message: Snapshot) -> SnapshotAck:
    return SnapshotAck(message.app_id, message.epoch, message.after, message.upto, message.contributors, message.tree)
