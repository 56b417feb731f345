"""Keeps all local jobs of an agent: creates and drops them, passes messages to them, and sends their snapshots up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import msgspec

import query
from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.runtime.fleet.job_directory import JOBS_MAX, SILENCE_S, JobDirectory
from agent.runtime.function.versions import FunctionCache
from agent.runtime.ingest.feed import FeedKey, StreamOptions
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.job.code import CodeRegistry, call_received, deliver_multicast, folder, mapper
from agent.runtime.job.local_job import LocalJob, OnLeaving
from agent.runtime.job.program_table import Programs
from agent.runtime.job.topology import TreeTopology
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import (
    CODEC,
    Announce,
    Commit,
    Enrol,
    Leap,
    LeaveAck,
    MoveKeys,
    Snapshot,
    SnapshotAck,
    SnapshotPart,
    SnapshotPartAck,
    Submit,
)
from agent.runtime.messages.programs import Line, LogLines, ProgramFailed, ProgramMulticast
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.containment import JobContainment, reason_of
from agent.runtime.model.epoch import JobEpoch, JobTerm
from agent.runtime.model.fields import Message
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.model.placement import KeyMoves, groups_of
from agent.runtime.model.schedule import ANY_TIME, Schedule
from agent.runtime.model.work_budget import OverBudgetError
from agent.runtime.reduce.parts import RunAssembler
from agent.runtime.reduce.retransmit import AckLatency
from agent.runtime.reduce.straggler import SLOW_LOOK_S
from agent.runtime.reduce.tree_node import TreeNode
from agent.runtime.scheduling.deadline_queue import DeadlineQueue, WorkPhase
from overlay import Id, Node, Peer, WireError

AGENT_REGEX_SIZE_MAX = 50_000
"""Upper bound on the compiled size of all queries' regular expressions, as of `REGEX_SIZE_MAX`, on one agent."""
LOOK_AGAIN_S = 10.0
"""Time after which a job is looked at to which nothing has happened."""
JOBS_AT_ONCE = 4
"""Number of jobs that combine and send before the rest of the agent gets its turn."""


class LocalJobs:
    """All local jobs of one agent. The events of its `streams` come in through `ingest`."""

    name = "jobs"

    def __init__(
        self,
        name: str,
        node: Node,
        sender: MessageSender,
        streams: Mapping[str, StreamOptions],
        directory: JobDirectory,
        ingest: OperatorPool,
        programs: Programs,
        code: CodeRegistry,
        containment: JobContainment,
    ) -> None:
        self._containment = containment
        self.refused = self.oversized = 0
        self.assembler = RunAssembler(ingest.area)
        self.takes_work = True
        """False once the agent leaves."""
        self.ingest = ingest
        ingest.listener = self
        self.functions = FunctionCache()
        self.agent_name = name
        self._node = node
        self._sender = sender
        self._streams = streams
        self._directory = directory
        self._programs = programs
        self._code = code
        self._latency = AckLatency()
        self._trees = TreeTopology(node, directory.groups)
        self._jobs: dict[Id, LocalJob] = {}
        self._awaiting: dict[Id, None] = {}
        """Jobs that wait for a sign of life of their feeds."""
        self._working: DeadlineQueue[Id] = DeadlineQueue()
        """Jobs with runs to combine or to send, the most urgent ones first."""
        self._unannounced: dict[Id, float] = {}
        self._withdrawing: set[Id] = set()
        self._looks: Schedule[Id] = Schedule()
        self._looked_at: float | None = None
        self._unable: dict[Id, JobEpoch] = {}
        """Jobs whose code cannot run here, in this epoch."""
        self.on_leaving: OnLeaving | None = None
        self.take_given: Callable[[LocalJob, Snapshot, Peer, float], bool] = lambda _job, _message, _peer, _now: False
        """Takes what another owner gives to one here; False if that is of no use."""
        self.on_working: Callable[[LocalJob, Submit, float], None] = lambda _local, _job, _now: None
        """Takes each job on whose roster this agent is now."""

    def handlers(self) -> Handlers:
        return {
            Snapshot: Handler(Via.DIRECT, self.snapshot),
            SnapshotAck: Handler(Via.DIRECT, self.acknowledged),
            SnapshotPart: Handler(Via.DIRECT, self.part),
            SnapshotPartAck: Handler(Via.DIRECT, self.part_acknowledged),
            LeaveAck: Handler(Via.DIRECT, self.left),
            Commit: Handler(Via.JOB, self.commit),
            ProgramMulticast: Handler(Via.JOB, self.multicast),
            Leap: Handler(Via.JOB, self.leap),
            MoveKeys: Handler(Via.JOB, self.place),
        }

    def statistics(self) -> Mapping[str, int]:
        return {
            "refused": self.refused + sum(job.refused for job in self),
            "oversized": self.oversized + sum(job.oversized for job in self),
            "jobs": len(self),
        }

    def __iter__(self) -> Iterator[LocalJob]:
        return iter(list(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, app_id: Id) -> LocalJob | None:
        return self._jobs.get(app_id)

    # Announcements and epochs.

    def announced(self, announce: Announce, now: float) -> None:
        """Acts on a master's announcement: joins the job, follows a new master, repeats messages that were lost."""
        job = self._jobs.get(announce.app_id)
        if job is not None and self.takes_work and self._has_done(job, announce, now):
            return
        streams = {} if announce.keyed else self.streams_of(announce.stream)
        has_events = (
            announce.keyed or bool(streams) or (job is not None and (job.reads_app or self._ends_later(job, announce)))
        )
        works = has_events and (self.takes_work or (job is not None and job.pipeline is not None))
        works = works and self._unable.get(announce.app_id) != announce.epoch
        if job is None and not works and not self._trees.has_children(announce):
            return
        job = job or self._make(announce.app_id)
        if job is None or (job.epoch is not None and announce.epoch < job.epoch):
            self.refused += 1
            return
        if job.epoch is None or announce.epoch > job.epoch:
            self._unannounced.pop(job.app_id, None)
            self._begin_epoch(job, announce.epoch, announce.master, announce.trees, announce.moved, now)
            job.has_owners = announce.owners
        job.place(announce.moved)
        job.commit(announce.frontier, announce.incomplete)
        job.works = works
        if not works:
            job.close()
        job.forwards = job.nodes.has_children
        if not job.is_needed:
            self.drop(job.app_id, now)
            return
        if self.takes_work:
            job.note_members(contributors.from_bytes(announce.members))
        self._enrol(job, now, behind=announce.version > job.version)
        job.withdraw_unless(announce.proposed, announce.version)
        follows = bool(streams) and job.works and self.takes_work and not job.withdraws
        if follows and job.follow_streams(streams, self._programs.wall_ms):
            self.await_feeds(job)
        if job.is_on_roster and announce.agents < announce.expected:
            self._sender.send(announce.master, job.ready_message(), now)
        job.heard = announce if job.is_on_roster and announce.agents == announce.expected else None

    def _has_done(self, job: LocalJob, announce: Announce, now: float) -> bool:
        """Whether a job does all that an announcement asks for, and has since it was heard first."""
        works = job.works and job.is_on_roster and not (job.has_departed or job.withdraws)
        prepares = job.versions is not None and job.versions.proposed is not None
        is_quiet = works and not (prepares or self._looks.is_due(job.app_id, now))
        if not is_quiet or announce.version != job.version or announce != job.heard:
            return False
        return not job.streams or job.streams == self.streams_of(announce.stream).keys()

    # Streams that come and go.

    def change_streams(self, streams: Mapping[str, StreamOptions], now: float) -> None:
        """Has these streams from now on. Jobs that read what is new are joined as by an agent that has just come, or
        read it as well; of those that read nothing of this agent any more it takes leave."""
        self._streams = dict(streams)
        for announce in self._directory.all():
            job = self._jobs.get(announce.app_id)
            if job is not None:
                job.heard = None
            if job is None or job.epoch is None or announce.epoch >= job.epoch:
                self.announced(announce, now)

    def _ends_later(self, job: LocalJob, announce: Announce) -> bool:
        """Whether a job without streams here still works: a bounded one reads on what was there, another takes leave
        of its master."""
        if job.streams and self.takes_work and not announce.bounded:
            job.withdraws = True
            self._withdrawing.add(job.app_id)
        return job.pipeline is not None and (job.withdraws or (announce.bounded and bool(job.streams)))

    def withdrawing(self) -> list[LocalJob]:
        """The jobs of whose masters this agent is taking leave although it stays."""
        self._withdrawing &= self._jobs.keys()
        return [self._jobs[app_id] for app_id in self._withdrawing]

    def end_work(self, job: LocalJob, now: float) -> None:
        """Ends the part in a job whose master knows that this agent has left it."""
        self._withdrawing.discard(job.app_id)
        job.end_work()
        if not job.is_needed:
            self.drop(job.app_id, now)
        elif job.is_installed:
            self._trees.join(job, now)  # leaves the trees in which nothing goes up from here any more

    def _begin_epoch(
        self, job: LocalJob, epoch: JobEpoch, master: Peer, trees: int, moved: KeyMoves, now: float
    ) -> None:
        if groups_of(job.app_id, trees, moved.added) != job.groups:
            self._trees.leave(job, now)
        job.begin_epoch(epoch, master, trees, moved)
        self._looks.set(job.app_id, ANY_TIME)
        self._trees.watch(job)

    def lead(self, app_id: Id, epoch: JobEpoch, trees: int, moved: KeyMoves, now: float) -> LocalJob:
        """Begins an epoch in which this agent is the job's master; the caller sets the job's `root`."""
        job = self._jobs.get(app_id) or self._make(app_id)
        assert job is not None, "a master is made only where there is room"
        self._begin_epoch(job, epoch, self._node.peer, trees, moved, now)
        job.has_owners = trees > 1
        for program in job.programs.values():
            program.is_root = True
        return job

    def work_no_more(self, job: LocalJob, now: float) -> None:
        """Ends the work on a job that this agent cannot run in this epoch, and drops the job unless others need it."""
        assert job.epoch is not None
        self._unable[job.app_id] = job.epoch
        if len(self._unable) > JOBS_MAX:
            del self._unable[next(iter(self._unable))]
        job.works = False
        if not job.is_needed:
            self.drop(job.app_id, now)

    def is_unable(self, app_id: Id) -> bool:
        """Whether this agent cannot run a job that it would work for."""
        return app_id in self._unable

    def abandon(self, app_id: Id, error: BaseException, now: float) -> bool:
        """Works no more on a job whose state cannot be trusted, or that takes too long, and tells its master; False if
        this agent has no part in it.
        """
        job = self._jobs.get(app_id)
        if job is None or job.epoch is None:
            return False
        reason = reason_of(error)[:TEXT_CHARACTERS_MAX]
        if isinstance(error, OverBudgetError):
            self.send_to_master(job, ProgramFailed(app_id, job.epoch, self.agent_name, reason, ""), now)
        else:
            text = f"this agent works for the job no more: {reason}"[:TEXT_CHARACTERS_MAX]
            line = Line(self._programs.wall_ms, self.agent_name, text)
            self.send_to_master(job, LogLines(app_id, job.epoch, [line]), now)
        self.work_no_more(job, now)
        return True

    def depose(self, app_id: Id) -> None:
        """Notes that the job's master is no longer on this agent."""
        if (job := self._jobs.get(app_id)) is not None:
            job.root = None
            for program in job.programs.values():
                program.is_root = False

    def drop(self, app_id: Id, now: float) -> None:
        """Ends this agent's part in a job."""
        self._unannounced.pop(app_id, None)
        self._working.drop(app_id)
        if (job := self._jobs.pop(app_id, None)) is not None:
            self._looks.forget(app_id)
            self._code.keep(job, ())
            job.close()
            self.assembler.forget(app_id)
            self.refused += job.refused
            self.oversized += job.oversized
            self._trees.leave(job, now)

    def has_regex_room(self, size: int) -> bool:
        """Whether there is room for one more query with regular expressions of this size; of equal ones, one counts."""
        if self.functions.regex_size_max is None:
            return True
        functions = (one.function for job in self if job.works and job.versions is not None for one in job.versions)
        sizes = {function.operator: function.regex_size for function in functions}
        return size + sum(sizes.values()) <= AGENT_REGEX_SIZE_MAX

    @property
    def has_room(self) -> bool:
        return len(self._jobs) < JOBS_MAX

    def _make(self, app_id: Id) -> LocalJob | None:
        if not self.has_room:
            return None
        shared = (self.ingest, self.functions, self._latency, self.has_work)
        job = self._jobs[app_id] = LocalJob(app_id, self._node.peer.node_id, *shared, self.assembler.limits)
        self._looks.set(app_id, ANY_TIME)
        job.map_events, job.folds.call = mapper(job, self._programs), folder(job, self._programs)
        job.on_leaving = self.on_leaving
        self._containment.measure(app_id, job.nodes.work)
        self._trees.watch(job)
        return job

    def join_trees(self, job: LocalJob, now: float) -> None:
        """Joins the trees of an installed job: parents wait for this agent from now on."""
        self._trees.join(job, now)

    def enrol_again(self, job: LocalJob, now: float) -> None:
        """Asks the master of a job for its versions, as this agent lacks one."""
        self._enrol(job, now, behind=True)

    def _enrol(self, job: LocalJob, now: float, *, behind: bool = False) -> None:
        """Asks the master for the function and a number if they are missing, or if others are ahead of this agent."""
        if job.epoch is None or job.master_peer is None:
            return
        if not job.is_installed or (job.works and (job.number is None or job.has_departed)) or behind:
            resumes = job.works and self.ingest.memory.awaits(JobTerm(job.app_id, job.epoch.born_ms))
            before = None if job.has_departed else job.number_before
            enrol = Enrol(job.app_id, job.epoch, self.agent_name, job.works, before, resumes, self._programs.wall_ms)
            self._sender.send(job.master_peer, enrol, now)

    def streams_of(self, stream: str) -> dict[str, StreamOptions]:
        """The agent's streams that a job reads: `stream` is one, or several by patterns (see `query.model.streams`)."""
        return {name: options for name, options in self._streams.items() if query.selects(stream, name)}

    # Messages of masters.

    def multicast(self, message: ProgramMulticast, _now: float) -> bool:
        """Delivers the master's multicast to the job's code; False if it is of another epoch."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        deliver_multicast(job, message, self._programs)
        return True

    def left(self, message: LeaveAck, sender: Peer, _now: float) -> bool:
        """Notes that a job's master knows that this agent leaves; False if it is of another epoch, or not from it."""
        job = self._of_epoch(message)
        if job is None or message.number != job.number or sender.node_id != message.epoch.master:
            return False
        job.has_left = True
        return True

    def _of_epoch(
        self, message: LeaveAck | ProgramMulticast | Commit | Leap | MoveKeys | SnapshotAck | SnapshotPartAck
    ) -> LocalJob | None:
        """The job of a message, unless that is of another epoch."""
        job = self._jobs.get(message.app_id)
        return job if job is not None and message.epoch == job.epoch else None

    def await_feeds(self, job: LocalJob) -> None:
        """Has a job wait for a sign of life of its feeds."""
        self._awaiting[job.app_id] = None

    def send_prepared(self, job: LocalJob, now: float) -> None:
        if (prepared := job.prepared()) is not None:
            self.send_to_master(job, prepared, now)

    def send_to_master(self, job: LocalJob, message: Message, now: float) -> None:
        if job.master_peer is not None:
            self._sender.send(job.master_peer, message, now)

    def commit(self, message: Commit, _now: float) -> bool:
        """Frees published panes; False if the message is of another epoch."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        self._looks.set(job.app_id, ANY_TIME)
        job.commit(message.frontier, message.incomplete)
        return True

    def place(self, message: MoveKeys, _now: float) -> bool:
        """Takes the moves of a job's key groups; False if the message is of another epoch."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        job.place(message.moved)
        return True

    def leap(self, message: Leap, now: float) -> bool:
        """Goes on without stragglers; False if the message is of another epoch."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        job.leap(message, now)
        return True

    # The trees.

    def snapshot(self, message: Snapshot, sender: Peer, now: float) -> bool:
        """Gives a job a run: from a child, or at the master from a tree's root or from an agent that leaves."""
        job, arrived_at = self._jobs.get(message.app_id), self.ingest.time.now
        is_source = self._trees.is_source(message, sender)
        if job is None and is_source and not message.of_root:
            job = self._forward(message, now)
        if job is None:
            return False
        if message.stage == "given":
            taken = self.take_given(job, message, sender, now)
        elif message.stage == "windows":
            taken = job.root is not None and job.root.take_windows(message, sender, now)
        elif is_source:
            if message.of_root and job.root is not None:
                job.root.heard_of_root(message.tree, sender)
            taken = job.take_snapshot(sender.node_id, message)
        else:
            taken = not message.of_root and job.take_detached(message)
        if taken:
            self._sender.send(sender, _acknowledgement(message, self.ingest.time.now - arrived_at), now)
        if job.is_behind:
            self._enrol(job, now, behind=True)
        call_received(job, self._programs)
        # Not at once: if panes of many jobs end together, peers would miss a sign of life meanwhile.
        self.has_work(job)
        return taken

    def part(self, message: SnapshotPart, sender: Peer, now: float) -> bool:
        """Takes a part of a run, and the run once all parts are there; False if it is of no use, or there is no room.

        Parts are taken for the current epoch only: a snapshot that had to wait for its function would take room twice.
        """
        is_source = self._trees.is_source(message, sender)
        job = self._jobs.get(message.app_id)
        if job is None and is_source and not message.of_root:
            job = self._forward(message, now)
        if job is None or job.epoch != message.epoch or not (job.is_installed and (is_source or job.root is not None)):
            return False
        source = (sender.node_id, message.tree, message.of_root, message.stage)
        answer: SnapshotAck | SnapshotPartAck | None = self.assembler.answer(source, message)
        if answer is None:
            arrived = self.assembler.add(source, message, now)
            if arrived is None:
                return False
            if not isinstance(arrived, int):
                return self._whole(source, message, arrived, sender, now)
            answer = SnapshotPartAck(
                message.app_id, message.epoch, message.tree, message.digest, arrived, message.stage
            )
        self._sender.send(sender, answer, now)
        return True

    def _whole(self, source: Hashable, part: SnapshotPart, data: bytearray, sender: Peer, now: float) -> bool:
        """Takes a snapshot that came in parts."""
        try:
            message = CODEC.decode(data, self.assembler.limits.assembly_bytes)
        except WireError:
            return False
        if not isinstance(message, Snapshot) or (message.app_id, message.tree) != (part.app_id, part.tree):
            return False
        taken = self.snapshot(msgspec.structs.replace(message, of_root=part.of_root), sender, now)
        if taken:
            self.assembler.taken(source, part.digest, _acknowledgement(message))
        return taken

    def _forward(self, message: Snapshot | SnapshotPart, now: float) -> LocalJob | None:
        """Makes a job that this agent only forwards: to combine for the child, it needs the function, and commits."""
        if self._directory.is_over(message.app_id, message.epoch):
            return None
        job = self._make(message.app_id)
        if job is not None:
            job.forwards = True
            if (known := self._directory.get(message.app_id)) is not None:
                self.announced(known, now)
        return job

    def acknowledged(self, message: SnapshotAck, sender: Peer, now: float) -> bool:
        """Notes that the parent has a snapshot."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        if not self._is_uplink(job, message, sender):
            return False
        if job.nodes.acknowledged(message, now):
            self.has_work(job)
        return True

    def part_acknowledged(self, message: SnapshotPartAck, sender: Peer, now: float) -> bool:
        """Notes how far the parent has a snapshot, and sends the next parts."""
        if (job := self._of_epoch(message)) is None:
            return message.app_id not in self._jobs
        if not self._is_uplink(job, message, sender):
            return False
        self._send(job, message.tree, sender, job.nodes.part_acknowledged(message, now), now)
        return True

    def _is_uplink(self, job: LocalJob, message: SnapshotAck | SnapshotPartAck, sender: Peer) -> bool:
        if message.tree >= len(job.nodes):
            return False
        if message.stage == "given":
            parent = job.nodes[message.tree].given_to
        else:
            parent = self.uplink(job, message.tree) if message.stage == "panes" else job.master_peer
        return parent is not None and parent.node_id == sender.node_id

    def of_group(self, group: Id) -> LocalJob | None:
        """The job to one of whose trees a group belongs."""
        place = self._place(group)
        return None if place is None else place[0]

    def uplink(self, job: LocalJob, tree: int) -> Peer | None:
        """The agent to which this one passes on what it has combined in a tree."""
        return self._trees.uplink(job, tree, leaves=not self.takes_work)

    def _place(self, group: Id) -> tuple[LocalJob, int] | None:
        """The job and the tree of a group."""
        place = self._trees.of(group)
        return None if place is None else (self._jobs[place[0]], place[1])

    def child_added(self, group: Id, child: Peer, now: float) -> None:
        """Waits for a new child of this node."""
        if (place := self._place(group)) is not None:
            job, tree = place
            job.nodes.add_child(child.node_id, tree)
            job.forwards = True
            self._looks.set(job.app_id, ANY_TIME)
            self._enrol(job, now)

    def child_removed(self, group: Id, child: Peer, now: float) -> None:
        """Stops waiting for a child. A forwarder without children leaves the tree."""
        if (place := self._place(group)) is None:
            return
        job, tree = place
        with self._containment.around(job.app_id, now):
            job.take_ahead(at_once=True)  # while it is a source
        self._looks.set(job.app_id, ANY_TIME)
        job.nodes.remove_child(child.node_id, tree)
        job.forwards = job.nodes.has_children
        with self._containment.around(job.app_id, now):
            self.advance(job, now)
        if not job.is_needed:
            self.drop(job.app_id, now)
        elif job.is_installed and not job.works:
            self._trees.join(job, now)  # leaves this tree if nothing goes up from here any more

    def parent_changed(self, group: Id, now: float) -> None:
        """Sends the snapshots that are not committed to the node's new parent in a tree, if it has one."""
        if (place := self._place(group)) is not None:
            job, tree = place
            job.nodes.parent_changed(tree)
            with self._containment.around(job.app_id, now):
                self.send_up(job, now)

    def advance(self, job: LocalJob, now: float) -> None:
        """Combines and sends complete runs; at the root, lets the master publish them."""
        self._looks.set(job.app_id, ANY_TIME)
        if job.pipeline is not None:
            job.pipeline.advance()
        job.folds.pump()
        for node in job.nodes:
            parent = self.uplink(job, node.tree)
            is_owner = job.has_owners and self.takes_work and self._trees.is_root(job.app_id, node.tree)
            owns = job.owns if is_owner else None
            self._send(job, node.tree, parent, node.advance(now, has_parent=parent is not None, owns=owns), now)
            self._send_of_owner(job, node, now)
        if job.root is not None:
            job.root.on_complete(now)
        if (job.root is not None and job.root.has_more) or job.take_ahead():
            self.has_work(job)

    def send_up(self, job: LocalJob, now: float) -> None:
        """Sends the snapshots that are due, without combining more."""
        self._looks.set(job.app_id, ANY_TIME)
        for node in job.nodes:
            if (parent := self.uplink(job, node.tree)) is not None:
                self._send(job, node.tree, parent, node.buffer.due(now), now)
            self._send_of_owner(job, node, now)

    def _send_of_owner(self, job: LocalJob, node: TreeNode, now: float) -> None:
        """Sends what the owner of a tree has for the master, and for another owner."""
        self._send(job, node.tree, job.master_peer, node.due_of_owner(now), now)
        if node.given_to is not None:
            self._send(job, node.tree, node.given_to, node.given.due(now), now)

    def _send(
        self, job: LocalJob, tree: int, parent: Peer | None, messages: Sequence[Snapshot | SnapshotPart], now: float
    ) -> None:
        if parent is None or not messages:
            return
        is_root = tree > 0 and self._trees.is_root(job.app_id, tree)
        for message in messages:
            of_root = is_root or message.stage != "panes"
            self._sender.send(parent, msgspec.structs.replace(message, of_root=of_root), now)

    # Feeds: see `FeedListener`.

    def before_feeds(self) -> None:
        """Lets jobs that have become ready demand their feeds."""
        for app_id in list(self._awaiting):
            job = self._jobs.get(app_id)
            if job is not None and job.pipeline is not None:
                job.pipeline.get_ready()

    def feed_opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """Notes that a feed is open, for which some jobs may wait."""
        for app_id in list(self._awaiting):
            with self._containment.around(app_id, now):
                if (job := self._jobs.get(app_id)) is None or job.pipeline is None or not job.pipeline.get_ready():
                    continue
                ready = job.opened(key, wall_ms)
                if ready is not None:
                    self.send_to_master(job, ready, now)
                    self.advance(job, now)

    def feed_read(self, now: float) -> None:
        """Notes that a feed was read, which may show that it yields the columns of versions in preparation."""
        for app_id in list(self._awaiting):
            job = self._jobs.get(app_id)
            if job is not None:
                with self._containment.around(app_id, now):
                    self.send_prepared(job, now)
            if job is None or job.pipeline is None or not job.pipeline.awaits_feeds:
                self._awaiting.pop(app_id, None)

    # Time.

    def has_work(self, job: LocalJob) -> None:
        """Notes that a job has something to combine, to send, or to publish."""
        self._looks.set(job.app_id, ANY_TIME)
        due_ms = None if job.versions is None else job.versions.next_due_ms(job.committed)
        self._working.add(job.app_id, WorkPhase.COMBINE, self.ingest.time.now, 0.0, self.ingest.deadline(due_ms))

    def sealed_upto(self) -> int | None:
        """The last sealed pane of the operator whose turn it is; None: nothing can be inserted, sealed or sent now."""
        waiting = FIRST_PANE if len(self._working) else None
        return waiting if (turn := self.ingest.turn()) is None else turn.job.frontier

    def seal_next(self, now: float) -> None:
        """Lets the most urgent jobs combine and send, after a slice is inserted or a run sealed if that comes first."""
        turn, first = self.ingest.turn(), next(self._working.in_order(), None)
        if first is None or (turn is not None and turn.due < first.due):
            self.ingest.work_next(now)
        for _ in range(min(JOBS_AT_ONCE, len(self._working))):
            if (work := self._working.next()) is not None and (job := self._jobs.get(work.job)) is not None:
                with self._containment.around(job.app_id, now):
                    self.advance(job, now)

    def tick(self, now: float) -> None:
        """Retransmits unacknowledged snapshots, skips stragglers, and seals blocked runs. Costs next to nothing for a
        job to which nothing happens."""
        self.ingest.memory.tick(now)
        self.ingest.journal.tick(now)
        self.ingest.start_sealing(now)
        self.assembler.expire(now)
        is_slow = self._looked_at is not None and now - self._looked_at > SLOW_LOOK_S
        self._looked_at = now
        for job in list(self) if is_slow else self._due(now):
            self._look(job, now, is_slow=is_slow)

    def _due(self, now: float) -> list[LocalJob]:
        due = [(app_id, self._jobs.get(app_id)) for app_id in self._looks.due(now)]
        for app_id, job in due:
            if job is None:
                self._looks.forget(app_id)
        return [job for _, job in due if job is not None]

    @property
    def is_active(self) -> bool:
        """Whether anything may happen in some job before its next look. O(1)."""
        return self._looks.has_due or len(self._working) > 0

    def active(self) -> list[LocalJob]:
        """The jobs to which something may have happened: all others wait for nobody."""
        return self._due(self._looked_at or 0.0)

    def _look(self, job: LocalJob, now: float, *, is_slow: bool) -> None:
        if job.epoch is None:
            self._doubt(job, now)
            return
        with self._containment.around(job.app_id, now):
            if job.pipeline is not None:
                job.pipeline.advance()  # what it seals of versions that are over goes nowhere
            if job.skip_stragglers(now) or job.take_ahead():
                self.advance(job, now)
            elif not job.nodes.is_acknowledged:
                self.send_up(job, now)
            if (lagging := job.lagging(now, is_slow=is_slow)) is not None:
                self.send_to_master(job, lagging, now)
            if job.is_quiet:
                self._looks.set(job.app_id, now + LOOK_AGAIN_S)

    def _doubt(self, job: LocalJob, now: float) -> None:
        """Drops a job for which a child sends snapshots but no master announcements, after a while: it may be new."""
        if now - self._unannounced.setdefault(job.app_id, now) > SILENCE_S:
            self.drop(job.app_id, now)


def _acknowledgement(message: Snapshot, handled_s: float = 0.0) -> SnapshotAck:
    of_panes = (message.after, message.upto, message.contributors, message.tree)
    return SnapshotAck(message.app_id, message.epoch, *of_panes, message.stage, round(1e6 * handled_s))
