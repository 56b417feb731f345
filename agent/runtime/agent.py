"""The agent's core: one overlay node, and the services that run this agent's side of every job.

Sans-IO: the shell around it feeds the overlay node, calls `process_events` after every delivery and `handle_timer` when
`next_timer` is due, gives `ingest` what the feeds yield, and carries out the `orders`.

Life of a job here (DESIGN §6): Submit reaches the master by route → Announce is multicast to the fleet, again and again
→ agents with the stream subscribe to the appId and enrol with the master → Enrolled brings number and function, Ready
acknowledges it → Snapshots flow up the tree → the master replicates, publishes to followers, and multicasts Commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from agent.programs.commands import ProgramCommand
from agent.runtime.copies.service import COPIES, CopyOptions, RunCopies
from agent.runtime.drain import Drain
from agent.runtime.fleet.authorization import NoCreators
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_inquiry import JobInquiry
from agent.runtime.fleet.master_search import MasterSearch
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_clock import MAX_SKEW_MS, EventClock
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.deployment import Deployments
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Programs
from agent.runtime.job.tree_owners import TreeOwners
from agent.runtime.job.tree_watch import TreeWatch
from agent.runtime.keyed.given_parts import GivenParts
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.intake.emissions import Emissions
from agent.runtime.keyed.seen.losses import ElementLossReports
from agent.runtime.keyed.seen.observation import ElementsObservation
from agent.runtime.keyed.service import KeyedJobs
from agent.runtime.master.failover import Failover
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.master.job_recorder import JobRecorder
from agent.runtime.master.kept_jobs import KeptJobs
from agent.runtime.messages.handlers import Handlers
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model.containment import Clock, JobContainment
from agent.runtime.model.incomplete import HEAL_RETENTION_MS
from agent.runtime.model.step_clock import StepClock
from agent.runtime.program_host.handler import ProgramHost
from agent.runtime.program_host.rpc import JobRpc
from agent.runtime.program_host.stages import Stages
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from agent.runtime.requests.asks import JobQuestions
from agent.runtime.requests.claims import MasterClaims
from agent.runtime.requests.commands import JobCommands
from agent.runtime.requests.endings import JobEndings
from agent.runtime.requests.events import AgentObserver
from agent.runtime.requests.following import JobSubscriptions
from agent.runtime.requests.pending import PendingRequests
from agent.runtime.requests.status import AgentStatus, local_job_status
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
    Joined,
    LeafSetChanged,
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
"""Interval between looks at due work, of an agent that has any."""
IDLE_TICK_S = 1.0
"""Interval between looks of an idle agent: waking up costs a processor more than looking."""
STANDSTILL_S = 1.0
"""Lateness of its timer from which an agent assumes that it was suspended, rather than that the others are silent."""
REPLICAS = 3
KEYED = KeyedOptions()


class Service(Protocol):
    """A part of the agent that counts its work."""

    @property
    def name(self) -> str: ...
    def statistics(self) -> Mapping[str, int]: ...


class Agent:
    """One agent. `streams`: the streams of which it has events, by name, with the places where live jobs begin to read.

    `replicas`: the number of agents that hold the descriptor of each job whose master is here. The states of jobs stay
    in memory, or spill to disk if there is a `room` for them. `tables`: the names of the look-up tables whose rows will
    be given to it. `observer` gets the events that no client has requested. `clock` tells the seconds of work that the
    process has done; `time` is the shell's clock, whose time stands still within a step without it. Events move
    watermarks up to `max_skew_ms` ahead of the wall clock. Other agents hold `copies` of sealed runs. For `heal_ms`
    panes are kept that were published without somebody.
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
        observer: AgentObserver | None = None,
        clock: Clock = lambda: 0.0,
        time: Clock | None = None,
        max_skew_ms: int = MAX_SKEW_MS,
        heal_ms: int = HEAL_RETENTION_MS,
        copies: CopyOptions = COPIES,
        keyed: KeyedOptions = KEYED,
    ) -> None:
        self.name, self.node, self._clock, events = name, node, StepClock(time), EventClock(max_skew_ms)
        self.observer = observer or AgentObserver()
        self._tick_at: float | None = None
        sender = MessageSender(node)
        self.directory = directory = JobDirectory()
        self.inquiry = JobInquiry(node, sender, directory)
        self.programs = programs = Programs(name, node)
        self.code = code = CodeRegistry(programs, NoCreators())
        containment = JobContainment(self.observer.job_contained, clock)
        self.ingest = ingest = OperatorPool(containment, room, events, heal_ms, self.observer, self._clock)
        self.jobs = jobs = LocalJobs(name, node, sender, dict(streams), directory, ingest, programs, code, containment)
        self.tree_watch, self.owners = TreeWatch(node, jobs), TreeOwners(jobs, sender, clock)
        self.deployments = Deployments(name, sender, jobs, directory, programs, code)
        self.recorder = recorder = JobRecorder(self.observer, containment)
        self.masters = JobMasters(name, node, sender, jobs, directory, programs, code, containment, recorder, replicas)
        self.failover = Failover(node, sender, directory, self.masters, recorder, MasterSearch(node, sender))
        self.copies = RunCopies(node, sender, jobs, self.masters, directory, self._clock, copies)
        self.drain = Drain(jobs, self.masters, self.failover, sender)
        self.keyed = KeyedJobs(node, sender, jobs, self.masters, directory, self._clock, containment, programs, keyed)
        self.given = GivenParts(sender, self.copies.copy_sender, directory, self.keyed, self.masters)
        self.pending = PendingRequests(sender)
        self.endings = JobEndings(directory, self.masters.is_over, code, jobs, self.pending)
        self.claims = MasterClaims(node, sender, directory, self.masters, self.pending, lambda: self.drain.has_begun)
        self.following = JobSubscriptions(sender, directory)
        self.commands = JobCommands(sender, directory, self.following, jobs.functions)
        self.questions = JobQuestions(self.pending, directory)
        self.discovery = StreamDiscovery(node.peer, sender, self.observer)
        self.elements_seen = ElementsObservation(name, sender, self.keyed)
        self.element_losses = ElementLossReports(node, sender, self.keyed, jobs, self.masters)
        self.emissions = Emissions(node.peer, sender, self._clock, self.keyed)
        self.upstream = UpstreamJobs(directory, jobs, self.following, self._clock, containment)
        self.tables = FileTables(tables, missed := self.observer.rows_unjoinable)
        self.joins = JoinCache(node.peer.node_id, directory, jobs, self.pending, self.tables, missed, containment)
        self.rpc = JobRpc(self.pending, directory, programs)
        self.subscriptions = ProgramSubscriptions(self.following, directory, programs, jobs, containment)
        self.stages = Stages(self.masters, directory, self.subscriptions, containment)
        self.program_host = ProgramHost(
            name, sender, programs, jobs, self.deployments, self.masters, self.rpc, self.subscriptions,
            self.observer.shown, self.ingest.observe,
        )  # fmt: skip
        self._connect(containment)
        self.router = Router(self._handlers(), containment)
        self._services = self._counting()

    def _counting(self) -> tuple[Service, ...]:
        """The services whose counters the agent shows."""
        return (
            self.router, self.directory, self.ingest, self.ingest.journal, self.jobs, self.deployments, self.masters,
            self.failover, self.recorder, self.tree_watch, self.drain, self.pending, self.following, self.commands,
            self.questions, self.discovery, self.elements_seen, self.element_losses, self.emissions,
            self.upstream, self.joins, self.rpc, self.subscriptions, self.stages, self.program_host, self.endings,
            self.claims, self.copies, self.failover.search, self.keyed, self.given, self.inquiry, self.owners,
        )  # fmt: skip

    def _connect(self, containment: JobContainment) -> None:
        """Sets up calls between services made one after the other; they are called in this order."""
        self.directory.on_claimed(self.claims.claimed)
        self.directory.on_announced(
            self.masters.announced, self.failover.announced, self.jobs.announced, self.following.announced,
        )  # fmt: skip
        self.directory.on_gone(
            self.masters.close, self.keyed.drop, self.jobs.drop, self.failover.forget, containment.forget,
            self.copies.drop, self.owners.forget,
        )  # fmt: skip
        self.masters.on_plan_asked = self.observer.plan_asked
        self.program_host.element_act, self.copies.on_given = self.keyed.answered, self.given.take
        self.drain.on_begun, self.drain.holds = (self.keyed.leave, self.owners.leave), self.keyed.holds
        self.directory.on_over(self.failover.answer_over)
        containment.on_raised(self.masters.fail, self.jobs.abandon)
        self._timers = (
            self.jobs.tick, self.masters.tick, self.stages.tick, self.programs.tick, self.drain.step,
            self.tree_watch.tick, self.failover.tick, self.recorder.tick, self.commands.tick, self.following.tick,
            self.questions.tick, self.discovery.tick, self.joins.tick, self.upstream.tick, self.directory.tick,
            self.claims.tick, self.copies.tick, self.keyed.tick, self.emissions.tick,
            self.element_losses.tick, self.elements_seen.tick, self.inquiry.tick,
        )  # fmt: skip

    def _handlers(self) -> Iterator[Handlers]:
        """The handler tables of all services; of two services that take a message, the first gets it first."""
        services = (
            self.directory, self.endings, self.claims, self.following, self.commands, self.jobs, self.deployments,
            self.masters, self.failover, self.program_host, self.discovery, self.elements_seen, self.emissions,
            self.element_losses, self.copies, self.failover.search, self.keyed, self.given, self.inquiry, self.owners,
        )  # fmt: skip
        return (service.handlers() for service in services)

    def restore(self, kept: KeptJobs, now: float) -> None:
        """Takes the jobs that its disk has kept, before its node joins the overlay."""
        self.directory.restore_ended(kept.ended)
        self.recorder.restore(kept.jobs.values())
        self.failover.restore(kept.jobs.values(), now)

    def jobs_stored(self, count: int, now: float, wall_ms: int) -> None:
        """The oldest so many records of jobs are on disk, or will never be."""
        self._begin_step(now, wall_ms)
        self.recorder.stored(count, now)
        self.process_events(now, wall_ms)

    def sealed_stored(self, count: int, now: float, wall_ms: int, *, are_kept: bool) -> None:
        """The oldest so many records of sealed runs are on disk, or will not be."""
        self._begin_step(now, wall_ms)
        self.ingest.journal.stored(count, now, are_kept=are_kept)
        self.drain.step(now)
        self.process_events(now, wall_ms)

    def change_streams(self, streams: Mapping[str, StreamOptions], now: float, wall_ms: int) -> None:
        """Has these streams from now on: joins jobs that read what is new, and leaves those that read what has gone."""
        self._begin_step(now, wall_ms)
        self.jobs.change_streams(streams, now)
        self.drain.step(now)
        self.process_events(now, wall_ms)

    def start(self, now: float) -> None:
        """Joins the group in which jobs are announced."""
        self.node.subscribe(FLEET_GROUP, now)
        self.failover.begin(now)
        self._tick_at = now

    def orders(self) -> list[ProgramCommand]:
        """Returns the commands for programs that the shell is to carry out, once."""
        return self.programs.orders()

    # Work.

    @property
    def has_work(self) -> bool:
        """Whether `work` would do anything."""
        return self.jobs.sealed_upto() is not None or self.copies.has_work

    def work(self, now: float, wall_ms: int) -> bool:
        """Inserts a slice of events, seals a run, or combines and sends waiting ones, if there are any; returns whether
        there is more to do."""
        if not self.has_work:
            return False
        self.ingest.observe(now, wall_ms)
        if self.jobs.sealed_upto() is not None:
            self.jobs.seal_next(now)
        else:
            self.copies.step(now)  # no window waits for a copy
        self.drain.step(now)
        self.process_events(now, wall_ms)
        return self.has_work

    # Time and the overlay.

    def next_timer(self) -> float | None:
        """The time at which `handle_timer` wants to be called."""
        timers = (self._next_tick(), self.keyed.next_timer(), self.masters.next_timer(), self.ingest.next_hand_in())
        return min((due for due in timers if due is not None), default=None)

    def _next_tick(self) -> float | None:
        if self._tick_at is None or self._is_busy():
            return self._tick_at
        return self._tick_at + IDLE_TICK_S - TICK_S

    def _is_busy(self) -> bool:
        has_jobs = len(self.jobs) or self.masters.held or self.failover.jobs or self.following.jobs
        return bool(has_jobs) or self._is_asking or self.drain.has_begun

    @property
    def _is_asking(self) -> bool:
        return not all(
            one.is_empty
            for one in (self.commands, self.questions, self.discovery, self.claims, self.emissions, self.inquiry)
        )

    @property
    def is_idle(self) -> bool:
        """Whether this agent is in the fleet, and nothing happens to any job here, nor has to at a certain moment.
        O(jobs with elements, operators that hand in, and masters with deadlines)."""
        is_active = self.jobs.is_active or self.masters.is_active or self._is_asking or self.drain.has_begun
        is_timed = self.masters.next_timer() is not None or self.ingest.next_hand_in() is not None
        return self.node.is_active and not (is_active or is_timed or self.keyed.is_active)

    def handle_timer(self, now: float, wall_ms: int) -> None:
        """Does what is due."""
        due = self.next_timer()
        if self._tick_at is None or due is None or now < min(due, self._tick_at):
            return
        self._begin_step(now, wall_ms)
        if now >= self._tick_at:
            self._tick_at = now + TICK_S
            for tick in self._timers:
                tick(now)
        self.keyed.step(now)
        self.ingest.hand_in(now)
        self.masters.at_deadlines(now)
        self.process_events(now, wall_ms)

    def _begin_step(self, now: float, wall_ms: int) -> None:
        """Sets the clock, without a step that is doubted. An agent that stood still has missed messages meanwhile, and
        may get requests that are long settled."""
        self._clock.ms = self.programs.wall_ms = self.ingest.observe(now, wall_ms)
        due = self._next_tick()
        if due is not None and now - due > STANDSTILL_S:
            self._tick_at = now
            self.failover.extend_deadlines(now - due, now)
            for service in (self.directory, self.following, self.upstream, self.masters):
                service.extend_deadlines(now - due)

    def process_events(self, now: float, wall_ms: int) -> bool:
        """Acts on the overlay's events, and on events that follow from them; returns whether there were any."""
        any_at_all = False
        while events := self.node.events():
            any_at_all = True
            epochs = [event for event in events if isinstance(event, EpochTaken)]
            if epochs:
                self.observer.epochs_taken(epochs)
            for event in events:
                self.process(event, now, wall_ms)
        self.subscriptions.deliver(now)
        self.emissions.step(now)
        return any_at_all

    def process(self, event: Event, now: float, wall_ms: int) -> None:
        """Acts on one event of the overlay."""
        self._begin_step(now, wall_ms)
        match event:
            case Delivered() | Requested() | MulticastReceived() | MessageReceived():
                self.router.receive(event, now)
                self.upstream.take(now)
            case Responded() | RequestFailed():
                self.pending.resolve(event, now)
            case ChildAdded(group=group, child=child):
                self.jobs.child_added(group, child, now)
            case ChildRemoved(group=group, child=child):
                self.tree_watch.child_removed(group, child)
                self.jobs.child_removed(group, child, now)
            case ParentChanged(group=group):
                self.jobs.parent_changed(group, now)
            case MulticastAcknowledged():
                self.discovery.acknowledged(event)
            case PeerFailed(peer=peer) | PeerLeft(peer=peer):
                self.observer.peer_gone(event)
                self.failover.failed(peer, now)
                self.masters.failed(peer, now)
                self.tree_watch.failed(peer, now)
                self.keyed.failed(peer, now)
            case Joined():
                self.inquiry.joined(now)
            case LeafSetChanged():
                self.keyed.neighbours_changed(now)
            case _:
                pass

    # Statistics and status.

    def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """Returns the counters of each service, by its name."""
        return {service.name: service.statistics() for service in self._services}

    @property
    def refused(self) -> int:
        """Number of messages that were unreadable, unexpected, or from a wrong sender."""
        return sum(counted.get("refused", 0) for counted in self.statistics().values())

    def status(self) -> AgentStatus:
        """Describes this agent's local jobs."""
        return AgentStatus(
            name=self.name,
            jobs=tuple(
                local_job_status(job, self.directory.get(job.app_id), self.node, self.upstream.rows_of(job.app_id))
                for job in self.jobs
            ),
            followed=self.following.jobs,
            replicas=self.failover.jobs,
            refused=self.refused,
            leaving=self.drain.has_begun,
        )
