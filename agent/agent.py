"""The agent's core: one overlay node, and the worker, combiner and master of every job it has a part in.

Sans-IO: the shell around it feeds the overlay node, calls `process_events` after every delivery and `handle_timer` when
`next_timer` is due, gives it what its `feeds()` yield, and drains its `notices()`.

Life of a job here (DESIGN §6): Submit reaches the master by route → Announce is multicast to the fleet, again and again
→ agents with the stream subscribe to the appId and enrol with the master → Enrolled brings number and function, Ready
acknowledges it → Snapshots flow up the tree → the master replicates, publishes to followers, and multicasts Commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

import query
from agent.announcements import Announcements
from agent.feeds_wanted import Feed, FeedKey, StreamOptions
from agent.following import Followings
from agent.master import Master
from agent.messages import (
    CODEC,
    Acknowledgement,
    Announce,
    Commit,
    Enrol,
    Enrolled,
    Farewell,
    Finished,
    Follow,
    Followed,
    Message,
    NoJob,
    Ready,
    Received,
    Replica,
    Replicated,
    Snapshot,
    Stop,
    StopAnswer,
    Stopped,
    Submit,
    Submitted,
    Unfollow,
    Window,
)
from agent.notices import Notice, SubmitRefused
from agent.offices import Offices
from agent.panes import FIRST_PANE
from agent.parsing import Parsed
from agent.parts import Parts
from agent.post import FLEET_GROUP, Post
from agent.requests import Requests
from agent.result import Result
from agent.status import AgentStatus, JobListing, PartStatus
from agent.succession import Succession
from overlay import (
    PAYLOAD_BYTES_MAX,
    ChildAdded,
    ChildRemoved,
    Delivered,
    Event,
    Id,
    MessageReceived,
    MulticastReceived,
    Node,
    ParentChanged,
    Peer,
    PeerFailed,
    PeerLeft,
    WireError,
)

TICK_S = 0.25
"""So often an agent with anything to do looks at what may be due."""
REPLICAS = 3


class Agent:
    """One agent. `streams` are the names of the streams it has events of, and where live jobs begin to read them.

    `replicas` is how many agents hold the descriptor of each job whose master is here. `refused` counts messages that
    were no messages, unexpected, or from the wrong sender.
    """

    def __init__(
        self, name: str, node: Node, streams: Mapping[str, StreamOptions], *, replicas: int = REPLICAS
    ) -> None:
        self.name = name
        self.node = node
        self.streams = dict(streams)
        self._refused = 0
        self._tick_at: float | None = None
        self._notices: list[Notice] = []
        post = Post(node)
        self._announcements = Announcements()
        self._parts = Parts(name, node, post, self.streams, self._announcements, self._advance)
        self._offices = Offices(name, node, post, self._parts, self._announcements, replicas)
        self._succession = Succession(node, post, self._announcements)
        self._followings = Followings(post, self._announcements, self._notices)
        self._requests = Requests(post, self._announcements, self._notices)

    def start(self, now: float) -> None:
        """Joins the group in which jobs are announced."""
        self.node.subscribe(FLEET_GROUP, now)
        self._tick_at = now

    # What clients want.

    def submit(self, job: Submit, now: float, wall_ms: int) -> None:
        """Starts a job, wherever its master will be: `Accepted` or `SubmitRefused` follows."""
        try:
            plan = query.Plan.from_wire(job.plan)
        except query.PlanError as error:
            self._notices.append(SubmitRefused(job.app_id, str(error), unavailable=False))
            return
        bounded = job.bounded or plan.window_ms is None
        job = msgspec.structs.replace(job, bounded=bounded, submitted_ms=max(0, wall_ms))
        self._requests.submit(job, tuple(query.output_names(plan)), now)

    def stop(self, app_id: int, now: float) -> None:
        """Ends a job everywhere: `StopAnswered` follows."""
        self._requests.stop(Id(app_id), now)

    def follow(self, app_id: int, after: int | None, now: float) -> None:
        """Gets a job's results after a pane; None: from now on, or all of a job that is just being submitted here.

        `Accepted` follows unless `submit` brings it, then `Acknowledged` and `Published` as they come, then `Ended`.
        """
        key = Id(app_id)
        submitting = self._requests.is_open(key)
        after = FIRST_PANE if submitting and after is None else after
        self._followings.follow(key, after, now, submitting=submitting)

    def unfollow(self, app_id: int, now: float) -> None:
        """Gets a job's results no longer."""
        self._followings.unfollow(Id(app_id), now)

    def notices(self) -> list[Notice]:
        """What there is to tell, drained."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    # What feeds bring.

    def feeds(self) -> tuple[Feed, ...]:
        """What has to be read, with the columns it needs."""
        return self._parts.feeds()

    def insert(self, key: FeedKey, parsed: Parsed, now: float, wall_ms: int) -> None:
        """Gives a feed's parsed block to every job on it."""
        self._parts.insert(key, parsed, now, wall_ms)

    def caught_up(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A feed has been read to its end, for now; said also of one that has just been opened there."""
        self._parts.caught_up(key, now, wall_ms)

    def end_of_feed(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A bounded feed has been read to its end."""
        self._parts.end_of_feed(key, now, wall_ms)

    def work(self, now: float, wall_ms: int) -> bool:  # noqa: ARG002 - every call takes both times
        """Seals one run, if any can be sealed; whether there is more to do at once."""
        if self._parts.sealed_upto() is None:
            return False
        self._parts.seal_next(now)
        return self._parts.sealed_upto() is not None

    def sealed_upto(self) -> int | None:
        """How far the job that is furthest behind has sealed; None when nothing can be sealed now."""
        return self._parts.sealed_upto()

    # Leaving.

    def leave(self, now: float, wall_ms: int) -> None:  # noqa: ARG002 - every call takes both times
        """Takes no further work, and hands over what it has; `has_left` says when that is done."""
        self._parts.takes_work = False

    @property
    def has_left(self) -> bool:
        """Whether the node can leave the overlay without a loss."""
        return not self._parts.takes_work

    # Time and the overlay.

    def next_timer(self) -> float | None:
        """When `handle_timer` wants to be called."""
        return self._tick_at

    def handle_timer(self, now: float, wall_ms: int) -> None:
        """Does what is due."""
        if self._tick_at is None or now < self._tick_at:
            return
        self._tick_at = now + TICK_S
        self._parts.tick(now)
        self._offices.tick(now)
        for inheritance in self._succession.tick(now, self._offices.held):
            self._offices.inherit(inheritance, now)
        for app_id in self._requests.tick(now):
            self._followings.drop(app_id)
        self._followings.tick(now)
        for app_id in self._announcements.silent(now):
            self._parts.drop(app_id, now)
            self._succession.forget(app_id)
        self.process_events(now, wall_ms)

    def process_events(self, now: float, wall_ms: int) -> bool:
        """Acts on what the overlay has raised, and on what comes of that; whether there was anything."""
        any_at_all = False
        while events := self.node.events():
            any_at_all = True
            for event in events:
                self.process(event, now, wall_ms)
        return any_at_all

    def process(self, event: Event, now: float, wall_ms: int) -> None:
        """Acts on one thing the overlay has raised."""
        match event:
            case Delivered(key=key, payload=payload, origin=origin):
                self._receive(payload, now, wall_ms, sender=origin, key=key)
            case MulticastReceived(group=group, payload=payload):
                self._receive(payload, now, wall_ms, group=group)
            case MessageReceived(sender=sender, payload=payload):
                self._receive(payload, now, wall_ms, sender=sender)
            case ChildAdded(group=group, child=child):
                self._parts.child_added(group, child, now)
            case ChildRemoved(group=group, child=child):
                self._parts.child_removed(group, child, now)
            case ParentChanged(group=group):
                self._parts.parent_changed(group, now)
            case PeerFailed(peer=peer) | PeerLeft(peer=peer):
                self._succession.failed(peer, now)
                self._offices.failed(peer)
            case _:
                pass

    def _receive(
        self,
        payload: bytes,
        now: float,
        wall_ms: int,
        *,
        sender: Peer | None = None,
        key: Id | None = None,
        group: Id | None = None,
    ) -> None:
        """One job message, come by route (sender and key), by multicast (group) or directly (sender)."""
        try:
            message = CODEC.decode(payload, PAYLOAD_BYTES_MAX)
        except WireError:
            self._refused += 1
            return
        if group is not None:
            taken = self._receive_multicast(message, group, now)
        elif sender is None or key not in (None, message.app_id):
            taken = False
        else:
            taken = self._receive_request(message, sender, now, routed=key is not None) or (
                key is None and self._receive_direct(message, sender, now, wall_ms)
            )
        self._refused += not taken

    def _receive_multicast(self, message: Message, group: Id, now: float) -> bool:
        match message:
            case Announce() if group == FLEET_GROUP:
                return self._announced(message, now)
            case Stopped() if group == FLEET_GROUP:
                return self._stopped(message, now)
            case Commit() if group == message.app_id:
                return self._parts.commit(message)
        return False

    def _receive_request(self, message: Message, sender: Peer, now: float, *, routed: bool) -> bool:
        """What is asked of a job's master by way of the overlay, or directly where it is known."""
        match message:
            case Submit() if routed:
                self._offices.submit(message, sender, now)
            case Follow():
                self._offices.follow(message, sender, now)
            case Unfollow():
                self._offices.unfollow(message.app_id, sender)
            case Stop():
                self._offices.stop(message, sender, now)
            case _:
                return False
        return True

    def _receive_direct(self, message: Message, sender: Peer, now: float, wall_ms: int) -> bool:
        match message:
            case Snapshot():
                return self._parts.snapshot(message, sender, now)
            case Received():
                return self._parts.received(message, sender)
            case Enrolled():
                return self._parts.install(message, sender, now, wall_ms)
            case Enrol() | Ready() | Farewell() | Replicated():
                return self._offices.receive(message, sender, now)
            case Replica():
                inheritance = self._succession.hold(sender, message, now)
                if inheritance is not None:
                    self._offices.inherit(inheritance, now)
                return True
            case Submitted():
                self._submitted(message, now)
                return True
            case StopAnswer():
                self._requests.stopped(message)
                return True
        return self._receive_as_follower(message, now)

    def _receive_as_follower(self, message: Message, now: float) -> bool:
        match message:
            case Followed():
                self._followings.followed(message, now)
            case Acknowledgement():
                self._followings.acknowledged(message, now)
            case Window():
                self._followings.window(message, now)
            case Finished():
                self._followings.finished(message, now)
            case NoJob():
                self._followings.no_job(message, now)
            case _:
                return False
        return True

    def _announced(self, message: Announce, now: float) -> bool:
        if not self._announcements.hear(message, now):
            return False
        self._offices.announced(message, now)
        self._succession.heard(message.app_id, message.epoch, now)
        self._parts.hear(message, now)
        self._followings.announced(message.app_id, message.epoch, now)
        return True

    def _stopped(self, message: Stopped, now: float) -> bool:
        if not self._announcements.end(message):
            return False
        self._offices.close(message.app_id)
        self._parts.drop(message.app_id, now)
        self._succession.forget(message.app_id)
        return True

    def _submitted(self, message: Submitted, now: float) -> None:
        if self._requests.answered(message):
            self._followings.ask_now(message.app_id, now)
        elif not self._requests.is_open(message.app_id) and message.refusal is not None:
            self._followings.drop(message.app_id)

    def _advance(self, app_id: Id, now: float) -> None:
        self._offices.advance(app_id, now)

    # What can be asked.

    @property
    def refused(self) -> int:
        parts = (self._parts, self._offices, self._succession, self._followings)
        return self._refused + sum(part.refused for part in parts) + sum(part.refused for part in self._parts)

    def master(self, app_id: int) -> Master | None:
        """The master of a job, if it lives here."""
        office = self._offices.get(Id(app_id))
        return office.master if office else None

    def on_result(self, listener: Callable[[Result], None]) -> None:
        """Calls the listener with each result of the jobs whose master will be here, as an object."""
        self._offices.on_result = listener

    def jobs(self) -> tuple[JobListing, ...]:
        """The jobs of the fleet, as far as this agent has heard of them."""
        return tuple(_listing(announce) for announce in self._announcements.all())

    def status(self) -> AgentStatus:
        """This agent's parts in jobs."""
        parts = tuple(self._part_status(part.app_id) for part in self._parts)
        found = tuple(part for part in parts if part is not None)
        return AgentStatus(
            self.name, found, tuple(self._followings.jobs), self._succession.jobs, self.refused, leaving=False
        )

    def _part_status(self, app_id: Id) -> PartStatus | None:
        part = self._parts.get(app_id)
        known = self._announcements.get(app_id)
        if part is None:
            return None
        roles = {"master": part.master is not None, "worker": part.is_working, "combiner": part.has_children}
        return PartStatus(
            app_id=app_id,
            name=known.name if known else "",
            roles=tuple(role for role, plays in roles.items() if plays),
            parent=self.node.parent(app_id),
            children=self.node.children(app_id),
            installed=part.is_installed,
            version=part.version,
            epoch=part.epoch.counter if part.epoch else 0,
            frontier=part.committed if part.committed > FIRST_PANE else None,
            sealed_upto=part.sealed_upto if part.sealed_upto > FIRST_PANE else None,
            late=part.late,
            memory_bytes=part.memory_bytes,
        )


def _listing(announce: Announce) -> JobListing:
    frontier = announce.frontier if announce.frontier > FIRST_PANE else None
    return JobListing(
        app_id=announce.app_id,
        name=announce.name,
        stream=announce.stream,
        text=announce.text,
        bounded=announce.bounded,
        master=announce.master,
        master_name=announce.master_name,
        epoch=announce.epoch.counter,
        version=announce.version,
        agents=announce.agents,
        expected=announce.expected,
        frontier=frontier,
    )
