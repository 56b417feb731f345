"""The agent's core: one overlay node, and the worker, combiner and master of every job it has a part in.

Sans-IO: the shell around it feeds the overlay node, calls `process_events` after every delivery and `handle_timer` when
`next_timer` is due, gives its `ingest` what the feeds yield, and drains its `notices()`.

Life of a job here (DESIGN §6): Submit reaches the master by route → Announce is multicast to the fleet, again and again
→ agents with the stream subscribe to the appId and enrol with the master → Enrolled brings number and function, Ready
acknowledges it → Snapshots flow up the tree → the master replicates, publishes to followers, and multicasts Commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from agent.programs.orders import Order, ProgramEnded, ProgramSaid
from agent.runtime.drain import Drain
from agent.runtime.fleet.authorization import Creators, NoCreators
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_of
from agent.runtime.function.result import Result
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.deployment import Deployments
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Programs
from agent.runtime.master.failover import Failover
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Ask, Submit, Update
from agent.runtime.messages.programs import LogRequest
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model.bundle import Signature
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.program_host.handler import ProgramHost
from agent.runtime.program_host.rpc import JobRpc
from agent.runtime.program_host.stages import Stages
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from agent.runtime.requests.asks import PendingRequests
from agent.runtime.requests.commands import JobCommands
from agent.runtime.requests.following import JobSubscriptions
from agent.runtime.requests.notices import CoreEvent
from agent.runtime.requests.status import AgentStatus, JobListing, listing, part_status
from agent.runtime.requests.stream_survey import StreamDiscovery
from agent.runtime.router import Router
from agent.runtime.upstream.app_source import UpstreamJobs
from agent.runtime.upstream.join_cache import JoinCache
from agent.runtime.upstream.tables import FileTables
from overlay import (
    ChildAdded,
    ChildRemoved,
    Delivered,
    EpochTaken,
    Event,
    Id,
    MessageReceived,
    MulticastAcknowledged,
    MulticastReceived,
    Node,
    ParentChanged,
    PeerFailed,
    PeerLeft,
    Requested,
    RequestFailed,
    Responded,
)

TICK_S = 0.25
"""So often an agent with anything to do looks at what may be due."""
IDLE_TICK_S = 1.0
"""The same for one without: to wake up costs a processor more than to look."""
STANDSTILL_S = 1.0
"""An agent whose own timer comes later than this was suspended: it must not take that for the others' silence."""
REPLICAS = 3


class Agent:
    """One agent. `streams` are the names of the streams it has events of, and where live jobs begin to read them.

    `replicas` is how many agents hold the descriptor of each job whose master is here. What jobs count stays in memory,
    or goes to disk where there is a `room` for that. `tables` are the names of those that will be brought.
    """

    def __init__(
        self,
        name: str,
        node: Node,
        streams: Mapping[str, StreamOptions],
        *,
        replicas: int = REPLICAS,
        room: SpillArea | None = None,
        tables: Collection[str] = (),
    ) -> None:
        self.name = name
        self.node = node
        self.streams = dict(streams)
        self._tick_at: float | None = None
        self._notices: list[CoreEvent] = []
        self._heard = 0  # so many of them by programs
        post = MessageSender(node)
        self._announcements = JobDirectory()
        self._programs = Programs(name, node)
        self._code = code = CodeRegistry(self._programs, NoCreators())
        self.ingest = OperatorPool(room)
        self._parts = LocalJobs(
            name, node, post, self.streams, self._announcements,
            self.ingest, self._programs, code,
        )  # fmt: skip
        self._installations = Deployments(name, post, self._parts, self._announcements, self._programs, code)
        self.on_peer_gone: Callable[[PeerFailed | PeerLeft], None] | None = None
        self.on_epochs: Callable[[list[EpochTaken]], None] | None = None
        self.offices = JobMasters(name, node, post, self._parts, self._announcements, self._programs, code, replicas)
        self._succession = Failover(node, post, self._announcements)
        self._followings = JobSubscriptions(post, self._announcements, self._notices)
        self._requests = JobCommands(post, self._announcements, self._notices)
        self._questions = PendingRequests(post, self._announcements, self._notices)
        self._readings = UpstreamJobs(post, self._announcements, self._parts)
        self.on_unjoinable: Callable[[str, str], None] | None = None
        self.tables = FileTables(tables, self._say_unjoinable)
        self._lookups = JoinCache(node.peer.node_id, post, self._announcements, self.tables, self._say_unjoinable)
        self._letters = JobRpc(post, self._announcements, self._programs)
        self._subscriptions = ProgramSubscriptions(self._followings, self._announcements, self._programs, self._parts)
        self._stages = Stages(self.offices, self._announcements, self._subscriptions)
        self._acts = ProgramHost(
            name, post, self._programs, self._parts, self._installations, self.offices, self._letters, self._notices,
            self._subscriptions,
        )  # fmt: skip
        self._departure = Drain(self._parts, self.offices, self._succession, post)
        self.surveys = StreamDiscovery(node.peer, post, self._notices)
        self._dispatch = Router(
            self._parts, self._installations, self.offices, self._succession, self._followings, self._requests,
            self._announcements, self._acts, self._readings, self.surveys,
        )  # fmt: skip

    def start(self, now: float) -> None:
        """Joins the group in which jobs are announced."""
        self.node.subscribe(FLEET_GROUP, now)
        self._tick_at = now

    # What clients want.

    def submit(self, job: Submit, now: float, wall_ms: int) -> None:
        """Starts a job, wherever its master will be: `Accepted` or `SubmitRefused` follows."""
        self._requests.submit(job, now, wall_ms)

    def update(self, update: Update, now: float, wall_ms: int) -> None:
        """Lets a job compute something else from a window on: `UpdateAnswered` or `UpdateRefused` follows."""
        self._requests.update(update, now, wall_ms)

    def stop(self, app_id: int, now: float, seal: Signature | None = None) -> None:
        """Ends a job everywhere: `StopAnswered` follows. `seal`: its creator's word for that, if it has one."""
        self._requests.stop(Id(app_id), seal, now)

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
        if Id(app_id) not in self._subscriptions:
            self._followings.unfollow(Id(app_id), now)

    def ask(self, question: int, app_id: int, windows: int, now: float) -> None:
        """Asks a job for its last results: `Answered` or `AskRefused` follows, under the asker's number."""
        self._questions.ask(question, Ask(Id(app_id), windows), now)

    def ask_log(self, question: int, app_id: int, lines: int, now: float) -> None:
        """Asks for the last lines of a job's log: `LogAnswered` or `AskRefused` follows, under the asker's number."""
        self._questions.ask(question, LogRequest(Id(app_id), lines), now)

    def app_of(self, name: str) -> Id:
        """The app that people mean by NAME or NAME@CREATOR. Raises AmbiguousNameError."""
        return app_of(name, self._announcements.all(), self._announcements.past())

    # The code of jobs.

    @property
    def creators(self) -> Creators:
        """Whose word counts for jobs that belong to somebody; at first nobody's."""
        return self._code.creators

    @creators.setter
    def creators(self, creators: Creators) -> None:
        self._code.creators = creators

    def orders(self) -> list[Order]:
        """What the shell is to do with programs, drained."""
        return self._programs.orders()

    def program_told(self, told: ProgramSaid | ProgramEnded, now: float, wall_ms: int) -> None:
        """What a program says, or that its process is gone."""
        self._programs.wall_ms = wall_ms
        if isinstance(told, ProgramSaid):
            self._acts.said(told.key, told.data, now, wall_ms)
        else:
            self._acts.ended(told.key, told.reason, told.stderr, now)
        self.process_events(now, wall_ms)

    def notices(self) -> list[CoreEvent]:
        """What there is to tell, drained."""
        notices = list(self._notices)
        self._notices.clear()
        self._heard = 0
        return notices

    # Events: feeds call `ingest`.

    def look_up(self, now: float) -> None:
        """Gives jobs what they join events with, as far as it is there; a timer does so too."""
        self._lookups.tick(self._parts, now)

    def work(self, now: float, wall_ms: int) -> bool:
        """Seals one run, or passes on what is new, if there is any; whether there is more to do at once."""
        if not self.has_work:
            return False
        self._parts.seal_next(now)
        self._departure.step(now)
        self.process_events(now, wall_ms)
        return self.has_work

    @property
    def has_work(self) -> bool:
        """Whether `work` would do anything."""
        return self._parts.sealed_upto() is not None

    def sealed_upto(self) -> int | None:
        """How far the job that is furthest behind has sealed; None when nothing can be sealed now."""
        return self._parts.sealed_upto()

    # Leaving.

    def leave(self, now: float, wall_ms: int) -> None:
        """Takes on nothing new and hands over what it has; `has_left` says when that is done."""
        self._departure.begin(now)
        self.process_events(now, wall_ms)

    @property
    def has_left(self) -> bool:
        """Whether the node can leave the overlay without a loss."""
        return self._departure.is_complete

    # Time and the overlay.

    def next_timer(self) -> float | None:
        """When `handle_timer` wants to be called."""
        if self._tick_at is None or self._is_busy():
            return self._tick_at
        return self._tick_at + IDLE_TICK_S - TICK_S

    def _is_busy(self) -> bool:
        jobs = len(self._parts) or self.offices.held or self._succession.jobs or self._followings.jobs
        waits = not (self._requests.is_empty and self._questions.is_empty and self.surveys.is_empty)
        return bool(jobs) or waits or self._departure.has_begun

    def handle_timer(self, now: float, wall_ms: int) -> None:
        """Does what is due."""
        due = self.next_timer()
        if self._tick_at is None or due is None or now < self._tick_at:
            return
        self._programs.wall_ms = wall_ms
        self._notice_standstill(now)
        self._tick_at = now + TICK_S
        self._parts.tick(now)
        self.offices.tick(now)
        self._stages.tick(now)
        self._programs.tick(now)
        self._departure.step(now)
        for inheritance in self._succession.tick(now, self.offices.held):
            self.offices.inherit(inheritance, now)
        for app_id in self._requests.tick(now):
            self._followings.drop_new(app_id)
        self._followings.tick(now)
        self._questions.tick(now)
        self.surveys.tick(now)
        self.look_up(now)
        self._readings.tick(now, wall_ms)
        for app_id in self._announcements.silent(now):
            self._parts.drop(app_id, now)
            self._succession.forget(app_id)
        self.process_events(now, wall_ms)

    def _notice_standstill(self, now: float) -> None:
        """Whoever stood still has not heard what others said meanwhile, and may be asked what is long decided."""
        due = self.next_timer()
        if due is not None and now - due > STANDSTILL_S:
            self._tick_at = now
            self._succession.extend_deadlines(now - due, now)
            for waiting in (self._announcements, self._followings, self._readings):
                waiting.extend_deadlines(now - due)

    def process_events(self, now: float, wall_ms: int) -> bool:
        """Acts on what the overlay has raised, and on what comes of that; whether there was anything."""
        any_at_all = False
        while events := self.node.events():
            any_at_all = True
            epochs = [event for event in events if isinstance(event, EpochTaken)]
            if epochs and self.on_epochs is not None:
                self.on_epochs(epochs)
            for event in events:
                self.process(event, now, wall_ms)
        self._subscriptions.hear(self._notices[self._heard :], now)
        self._heard = len(self._notices)
        return any_at_all

    def process(self, event: Event, now: float, wall_ms: int) -> None:
        """Acts on one thing the overlay has raised."""
        self._notice_standstill(now)
        self._programs.wall_ms = wall_ms
        if isinstance(event, PeerFailed | PeerLeft) and self.on_peer_gone is not None:
            self.on_peer_gone(event)
        match event:
            case Delivered() | Requested() | MulticastReceived() | MessageReceived():
                self._dispatch.receive(event, now, wall_ms)
                self._readings.take(now, wall_ms)
            case Responded():
                if not self._letters.responded(event):
                    self._questions.responded(event, now)
                    self._lookups.responded(event, now)
            case RequestFailed(ticket=ticket):
                if not self._letters.failed(ticket):
                    self._questions.failed(ticket)
                    self._lookups.failed(ticket, now)
            case ChildAdded(group=group, child=child):
                self._parts.child_added(group, child, now)
            case ChildRemoved(group=group, child=child):
                self._parts.child_removed(group, child, now)
            case MulticastAcknowledged():
                self.surveys.acknowledged(event)
            case ParentChanged(group=group):
                self._parts.parent_changed(group, now)
            case PeerFailed(peer=peer) | PeerLeft(peer=peer):
                self._succession.failed(peer, now)
                self.offices.failed(peer, now)
            case _:
                pass

    def _say_unjoinable(self, app: str, why: str) -> None:
        if self.on_unjoinable is not None:
            self.on_unjoinable(app, why)

    # What can be asked.

    @property
    def refused(self) -> int:
        """Messages that were no messages, unexpected, or from the wrong sender."""
        parts = (
            self._dispatch, self._parts, self._installations, self.offices, self._succession, self._followings,
            self._questions, self._readings, self._lookups,
        )  # fmt: skip
        return sum(part.refused for part in (*parts, *self._parts))

    def master(self, app_id: int) -> JobState | None:
        """The master of a job, if it lives here."""
        office = self.offices.get(Id(app_id))
        return office.master if office else None

    def on_result(self, listener: Callable[[Result], None]) -> None:
        """Calls the listener with each result of the jobs whose master will be here, as an object."""
        self.offices.on_result = listener

    def jobs(self) -> tuple[JobListing, ...]:
        """The jobs of the fleet, as far as this agent has heard of them."""
        return tuple(listing(announce) for announce in self._announcements.all())

    def status(self) -> AgentStatus:
        """This agent's parts in jobs."""
        return AgentStatus(
            name=self.name,
            parts=tuple(part_status(part, self._announcements.get(part.app_id), self.node) for part in self._parts),
            followed=self._followings.jobs,
            replicas=self._succession.jobs,
            refused=self.refused,
            leaving=self._departure.has_begun,
        )
