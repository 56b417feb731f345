"""The agent's core: one overlay node, and the worker, combiner and master of every job it has a part in.

Sans-IO: the shell around it feeds the overlay node, calls `process_events` after every delivery, and carries what
the node wants sent. Life of a job here (DESIGN §6): Submit reaches the master by route → Announce is multicast over
the stream's tree → agents with the stream subscribe to the appId, enrol, and get number and function → Installed
flows up the tree → Snapshots flow up, the master publishes, Commit is multicast down.

A master keeps its job when a node joins that is closer to the appId: it publishes what its subtree sends, as before.
Agents that ask the new root to enrol are turned away (NoMaster) and leave the tree, so that nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import query
from agent.jobs import JobPart
from agent.master import Master
from agent.messages import CODEC, Announce, Commit, Enrol, Enrolled, Installed, Message, NoMaster, Snapshot, Submit
from agent.parsing import Parsed, SourceColumn
from agent.result import Result
from overlay import (
    Attached,
    ChildAdded,
    ChildRemoved,
    Delivered,
    Event,
    MessageReceived,
    MulticastReceived,
    Node,
    ParentChanged,
    Peer,
    WireError,
    group_id,
)

EVERY_STREAM = "*"
MESSAGE_BYTES_MAX = 64 << 20
JOBS_MAX = 4096
"""Jobs an agent has a part in; what it hears of others is refused."""


class Agent:
    """One agent. `streams` are the names of the streams it has events of.

    `refused` counts messages that were no messages, unexpected, or from the wrong sender.
    """

    def __init__(self, name: str, node: Node, streams: Iterable[str]) -> None:
        self.name = name
        self.node = node
        self.streams = frozenset(streams)
        self.refused = 0
        self._input_ended = False
        self._jobs: dict[int, JobPart] = {}
        self._results: list[Result] = []

    def subscribe_streams(self, now: float) -> None:
        """Joins the trees over which jobs are announced to the agents of a stream."""
        for stream in {*self.streams, EVERY_STREAM}:
            self.node.subscribe(stream_group(stream), now)

    def submit(self, job: Submit, now: float) -> None:
        """Sends a job to its master, wherever that is."""
        self.node.route(_key(job), CODEC.encode(job), now)

    def results(self) -> list[Result]:
        """Results of the jobs whose master is here, drained."""
        results, self._results = self._results, []
        return results

    def master(self, app_id: int) -> Master | None:
        """The master of a job, if it lives here."""
        part = self._jobs.get(app_id)
        return part.master if part else None

    def needs(self, stream: str) -> Sequence[SourceColumn]:
        """The columns of a stream that jobs here need decoded."""
        columns = {c.name: c for part in self._working_on(stream) for c in part.needs()}
        return tuple(columns.values())

    def insert(self, stream: str, parsed: Parsed) -> None:
        """Gives a stream's parsed block to every job on it."""
        for part in self._working_on(stream):
            part.insert(parsed)

    def end_of_input(self) -> None:
        """No stream will yield another event: every job's panes can be sealed, run by run, also of jobs to come."""
        self._input_ended = True
        for part in self._jobs.values():
            part.start_sealing()

    def sealed_upto(self) -> int | None:
        """How far the job that is furthest behind has sealed; None when nothing is left to seal."""
        return min((part.sealed_upto for part in self._jobs.values() if part.is_sealing), default=None)

    def seal_next(self, now: float) -> None:
        """Seals one run of the job that is furthest behind and sends what that completes."""
        sealing = [app_id for app_id, part in self._jobs.items() if part.is_sealing]
        app_id = min(sealing, key=lambda app_id: self._jobs[app_id].sealed_upto)
        self._jobs[app_id].seal_next()
        self._pass_on(app_id, now)

    def process_events(self, now: float) -> bool:
        """Acts on what the overlay has raised; whether there was anything."""
        events = self.node.events()
        for event in events:
            self.process(event, now)
        return bool(events)

    def process(self, event: Event, now: float) -> None:
        """Acts on one thing the overlay has raised."""
        match event:
            case Delivered(key=key, payload=payload, origin=origin):
                self._receive(payload, key, origin, now)
            case MulticastReceived(group=group, payload=payload):
                self._receive(payload, group, None, now)
            case MessageReceived(sender=sender, payload=payload):
                self._receive(payload, None, sender, now)
            case Attached(group=group):
                self._attached(group, now)
            case ChildAdded(group=group, child=child):
                if group in self._jobs:
                    self._jobs[group].add_child(child.node_id)
            case ChildRemoved(group=group, child=child):
                if group in self._jobs:
                    self._child_left(group, child, now)
            case ParentChanged(group=group, parent=Peer() as parent):
                if group in self._jobs and self._jobs[group].master is None:
                    self._send_all(parent, self._jobs[group].for_new_parent(), now)
            case _:
                pass

    def _receive(self, payload: bytes, key: int | None, sender: Peer | None, now: float) -> None:
        """One job message, come by route (key and sender), multicast (key only) or directly (sender only)."""
        try:
            message = CODEC.decode(payload, MESSAGE_BYTES_MAX)
        except WireError:
            self.refused += 1
            return
        app_id = _key(message)
        if app_id not in self._jobs and len(self._jobs) >= JOBS_MAX:
            self.refused += 1
            return
        match message:
            case Submit() if key == app_id:
                self._become_master(message, now)
            case Enrol() if key == app_id and sender is not None:
                self._enrol(app_id, message, sender, now)
            case Announce() if sender is None:
                self._join_job(app_id, now)
            case Commit() if sender is None and key == app_id and app_id in self._jobs:
                self.refused += self._jobs[app_id].commit(message)
            case Enrolled() if key is None and sender is not None and self._may_enrol(app_id, sender):
                self._install(app_id, message, sender, now)
            case NoMaster() if key is None and sender is not None and self._may_enrol(app_id, sender):
                self._leave_job(app_id, now)
            case Installed() if key is None and sender in self.node.children(app_id):
                self._forward_for_children(app_id, now)
                self.refused += self._jobs[app_id].child_installed(message)
                self._report_installed(app_id, now)
            case Snapshot() if key is None and sender is not None and sender in self.node.children(app_id):
                self._forward_for_children(app_id, now)
                self.refused += self._jobs[app_id].child_snapshot(sender.node_id, message)
                self._pass_on(app_id, now)
            case _:
                self.refused += 1

    def _become_master(self, job: Submit, now: float) -> None:
        """Unless the job is there already: here, or with a master whose tree we have become the root of."""
        app_id = _key(job)
        if self.master(app_id) is not None or self.node.children(app_id):
            self.refused += 1
            return
        try:
            master = Master(job)
        except query.PlanError:
            self.refused += 1
            return
        self._part(app_id).master = master
        self.node.multicast(stream_group(job.stream), CODEC.encode(Announce(job.app_id)), now)

    def _join_job(self, app_id: int, now: float) -> None:
        part = self._part(app_id)
        if part.works:
            return
        part.works = True
        if self.node.is_attached(app_id):
            self._ask_to_enrol(app_id, works=True, now=now)
        self.node.subscribe(app_id, now)

    def _attached(self, group: int, now: float) -> None:
        part = self._jobs.get(group)
        if part is not None and part.works:
            self._ask_to_enrol(group, works=True, now=now)

    def _forward_for_children(self, app_id: int, now: float) -> None:
        """A child speaks of a job we only lie on the way of: to combine for it we need the function, and commits."""
        part = self._part(app_id)
        if not (part.works or part.forwards):
            part.forwards = True
            self._ask_to_enrol(app_id, works=False, now=now)
            self.node.subscribe(app_id, now)

    def _child_left(self, app_id: int, child: Peer, now: float) -> None:
        """Without children a forwarder has nothing to do in the tree, and its parent nothing to wait for."""
        part = self._jobs[app_id]
        part.remove_child(child.node_id)
        if part.forwards and not (part.works or part.has_children):
            part.forwards = False
            self.node.unsubscribe(app_id, now)
        self._pass_on(app_id, now)

    def _ask_to_enrol(self, app_id: int, *, works: bool, now: float) -> None:
        message = Enrol(_bytes(app_id), self.name, works)
        self.node.route(app_id, CODEC.encode(message), now)

    def _enrol(self, app_id: int, message: Enrol, sender: Peer, now: float) -> None:
        master = self.master(app_id)
        if master is None:
            self.refused += 1
            self._send_all(sender, [NoMaster(message.app_id)], now)
            return
        self._send_all(sender, [master.enrol(sender.node_id, message.agent, works=message.works)], now)

    def _may_enrol(self, app_id: int, sender: Peer) -> bool:
        """Whether we have asked for a part in a job, and the sender may be its root; a master's is its own."""
        part = self._jobs.get(app_id)
        if part is None or not (part.works or part.forwards):
            return False
        return part.master is None or sender.node_id == self.node.peer.node_id

    def _install(self, app_id: int, message: Enrolled, sender: Peer, now: float) -> None:
        part = self._jobs[app_id]
        try:
            self.refused += part.install(message, sender.node_id)
        except query.PlanError:
            self.refused += 1
            return
        if self._input_ended:
            part.start_sealing()
        self._report_installed(app_id, now)
        self._pass_on(app_id, now)

    def _leave_job(self, app_id: int, now: float) -> None:
        part = self._jobs[app_id]
        if part.function is None:
            part.leave()
            self.node.unsubscribe(app_id, now)

    def _report_installed(self, app_id: int, now: float) -> None:
        part = self._jobs[app_id]
        if part.master is not None:
            part.master.acknowledged |= part.installed
        elif part.function is not None and (parent := self.node.parent(app_id)):
            self._send_all(parent, [part.installed_message()], now)

    def _pass_on(self, app_id: int, now: float) -> None:
        """Sends completed runs up; at the root, publishes them."""
        part = self._jobs[app_id]
        for run in part.completed():
            if part.master is not None:
                self._results.extend(part.master.publish(run))
                commit = Commit(_bytes(app_id), _bytes(self.node.peer.node_id), part.master.frontier)
                self.node.multicast(app_id, CODEC.encode(commit), now)
                continue
            message = part.keep(run)
            if parent := self.node.parent(app_id):
                self._send_all(parent, [message], now)

    def _send_all(self, peer: Peer, messages: Iterable[Message], now: float) -> None:
        for message in messages:
            self.node.send(peer, CODEC.encode(message), now)

    def _part(self, app_id: int) -> JobPart:
        if app_id not in self._jobs:
            part = self._jobs[app_id] = JobPart(app_id, self.node.peer.node_id)
            for child in self.node.children(app_id):
                part.add_child(child.node_id)
        return self._jobs[app_id]

    def _working_on(self, stream: str) -> list[JobPart]:
        return [part for part in self._jobs.values() if part.works_on(stream)]


def stream_group(stream: str) -> int:
    """The tree over which jobs are announced to the agents that have a stream."""
    return group_id(f"stream {stream}")


def _key(message: Message) -> int:
    return int.from_bytes(message.app_id, "big")


def _bytes(identifier: int) -> bytes:
    return identifier.to_bytes(16, "big")
