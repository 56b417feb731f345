"""Runs the protocol of a job's master with the fleet, the agents nearest to it, and the job's subscribers.

Nothing is published before the agents nearest to the master hold the roster and the frontier that go with it: the next
master would otherwise publish windows again, or not know which agents are missing (DESIGN §4.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import compress

import msgspec

from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.runtime.function.result import WindowMembership, WindowResult
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.master.deadlines import ResultDeadlines
from agent.runtime.master.failover import StateReplicator
from agent.runtime.master.healing import CORRECTED_MAX, HEAL_DELAY_S
from agent.runtime.master.job_recorder import JobRecorder
from agent.runtime.master.lacking_parts import HasWaitedFor, LackingParts
from agent.runtime.master.latency.live_plan import LivePlan
from agent.runtime.master.owners.adaptation import Adaptation
from agent.runtime.master.owners.key_placement import KeyPlacement
from agent.runtime.master.owners.owned_windows import OwnedWindows
from agent.runtime.master.results.job_log import JobLog
from agent.runtime.master.results.latency_meter import LatencyMeter, paths_of
from agent.runtime.master.results.outlet import ResultOutlet
from agent.runtime.master.results.program_results import ProgramResults
from agent.runtime.master.results.reader_runs import ReaderRuns
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.master.results.subscribers import Subscribers
from agent.runtime.master.rollout import Announcing, Rollout
from agent.runtime.master.state import JobState
from agent.runtime.master.waiting import PaneWaits
from agent.runtime.messages.copies import GivenResponse
from agent.runtime.messages.jobs import (
    AgentFailed,
    Announce,
    Answer,
    Ask,
    Commit,
    Enrol,
    Follow,
    Lagging,
    Leap,
    Leave,
    LeaveAck,
    NoJob,
    OwnerLost,
    Ready,
    Replicated,
    Snapshot,
    Stopped,
    Unfollow,
    Update,
)
from agent.runtime.messages.programs import CannotRun, Line, LogLines, ProgramFailed
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.versions import VersionPrepared
from agent.runtime.messages.views.latency import LatencyView
from agent.runtime.messages.views.placement import PlaceRequest
from agent.runtime.model.bundle import Signature
from agent.runtime.model.containment import Clock
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Reason
from agent.runtime.model.latency.critical_path import CriticalPath
from agent.runtime.model.latency.recent_latency import LatencyGeneration
from agent.runtime.model.meters import JobMeter
from agent.runtime.model.panes import END, FIRST_PANE, Run, in_pieces
from agent.runtime.model.schedule import ANY_TIME
from agent.runtime.model.step_clock import StepClock
from agent.runtime.reduce.straggler import (
    NEW_EPOCH_S,
    RUNS_MAX,
    TAKE_OVER_HOLDBACK_S,
    HoldbackTimer,
    MasterLeaps,
)
from overlay import Id, Node, Peer
from query import Plan

SETTLE_S = 1.0
"""Least age of a master that publishes bounded input, which may be read before all agents have enrolled."""
PAST_S = 3.0
"""Least age of one that publishes a live job's past: of four announcements that are out by then, a busy agent has
heard one."""
PAST_ENROL_S, PAST_MOST_S = 1.5, 10.0
"""Time since an agent enrolled last for which others are expected there, and age of the master up to which: machines
may be busy."""
NOBODY_S = 5.0
"""Time after which a bounded job ends if no agent with its stream has enrolled."""
UNFOLLOWED_S = 30.0
"""Time after which an attached job stops if nobody has followed it."""
LOOK_AGAIN_S = 10.0
"""Time after which a master is looked at to which nothing has happened."""
LINGER_S = 30.0
"""Time for which a job that is over can still be followed, for its last results."""
REPLICATION_S = 0.5
"""Upper bound on the delay of a result while replicas do not confirm it."""
HAND_OVER_S = 1.0
"""Interval of attempts to hand over."""
OVER = "the job is over"
SUCCESSOR_S = 3.0
"""Pause of publishing after an attempt to hand over that is not declined: the successor may be the master already. It
would not learn of results published now, and agents would free panes that it still needs."""
STANDSTILL_S = 3.0
"""Time for which parts of a pane wait for others from which on an agent is suspected to follow another master."""
UNCONFIRMED_BYTES = 1 << 20
"""Bytes of results that wait for replicas from which on no more are made. The next master's log is to hold all that the
last one had made: with what is made at a stroke they fit in it."""


class JobMaster:
    """The master of one job in one epoch: a `RootSink` whose runs become results.

    `log` holds the last results; `replicas` agents are to hold the master's descriptor. Runs of about `piece_bytes` are
    published at a stroke. `wake` is called when something happens that a look may follow. `read`: a reader's runs.
    """

    _resigns = False
    _heals_at: float | None = None
    enrolments = 0
    """Number of answers to agents that take part, or take part again."""

    def __init__(
        self,
        state: JobState,
        local: LocalJob,
        log: ResultLog,
        sender: MessageSender,
        node: Node,
        name: str,
        programs: Programs,
        now: float,
        *,
        replicas: int,
        recorder: JobRecorder,
        piece_bytes: int,
        meter: JobMeter,
        wake: Callable[[], None],
        clock: Clock,
        read: ReaderRuns,
    ) -> None:
        self.state = state
        self.local, self.read, self._wake = local, read, wake
        self.is_closest = False
        """Whether this agent is known to be the one closest to the appId, with the agents around as they are."""
        self.ended: Reason | None = None
        self.subscribers = Subscribers(state, log, sender, name)
        self.subscribers.frontier, self.subscribers.events = state.published_upto, state.totals.events
        self.latency = LatencyMeter(state, name, local.nodes.clock)
        self._leaps = MasterLeaps(now)
        agreed_ms = partial(self._agreed_ms, local.nodes.clock)
        self.deadlines = ResultDeadlines(state, self.latency, local.nodes.clock, agreed_ms, self._are_all_here)
        self.outlet = ResultOutlet(state, local, self.subscribers, programs, meter, self.latency)
        self._recorder = recorder
        self._piece_bytes = piece_bytes
        self._replication = StateReplicator(state, log, sender, node, replicas, recorder, self._stored, read)
        self._sender, self._node = sender, node
        self._name, self._programs = name, programs
        self._app_id = state.job.app_id
        self._holdback = HoldbackTimer(now, state.written_off, took_over=state.epoch.counter > 1)
        self.lacking = LackingParts(state, local, self._holdback, sender)
        self._waits = PaneWaits(state, local, self._holdback, self.lacking, self._leaps, self.deadlines)
        self._began_at = self._enrolled_at = self._followed_at = now
        self._ended_at = self._hand_over_at = self._silent_until = now
        self._attempts = 0
        self._appointed: dict[int, Id] = {}
        """The agents to which this master has handed over and that have not declined, by the number of the attempt."""
        self.rollout = Rollout(
            state, sender, self._replicate, self._replication.is_held, self.subscribers.acknowledge, REPLICATION_S
        )
        self.announcing = Announcing(state, self.rollout, self.subscribers, node.peer, name, now)
        self._complete: deque[list[Run]] = deque()
        """Complete runs that are to be published, in pieces."""
        self.placement = KeyPlacement(state, local, sender, node.peer, name, now)
        self.owned = OwnedWindows(state, sender, self.placement.loads)
        state.work, self._clock = local.nodes.work, clock
        self.adaptation = Adaptation(state, self.placement, self.note, clock, now)
        self._program_results, self.log = ProgramResults(state, local, self.owned), JobLog()
        self.plan = LivePlan(state, name, self._latency_of, self._change_plan, self.note, now)
        self.latency.on_measured = self.plan.take

    # Requests of agents.

    def enrol(self, sender: Peer, message: Enrol, now: float) -> bool:
        """Answers an agent that takes part in the job; False if the roster is full."""
        works, before, resumes = message.works, message.number, message.resumes
        self.state.roster.meet(sender)
        self.placement.names[sender.node_id] = message.agent
        enrolled = self.state.enrol(sender.node_id, message.agent, works=works, before=before, resumes=resumes)
        if enrolled is None:
            return False
        self.state.roster.back |= 0 if enrolled.number is None else 1 << enrolled.number
        if enrolled.number is not None and sender.node_id != self._node.peer.node_id:
            self._leaps.note(enrolled.number, message.wall_ms, now)
        if enrolled.number is not None and resumes:
            # What it has read again of panes that are not published is worth the holdback.
            self._holdback.returned(1 << enrolled.number, now)
            self.state.written_off = self._holdback.written_off
        self.enrolments, self._enrolled_at = self.enrolments + 1, now
        self._sender.send(sender, msgspec.structs.replace(enrolled, versions=self.rollout.begun()), now)
        self.subscribers.acknowledge(now)
        return True

    def acknowledge(self, sender: Peer, message: Ready, now: float) -> bool:
        """Notes that an agent runs the job."""
        if not self.state.knows(sender.node_id, message.number):
            return False
        self.state.acknowledge(sender.node_id, message)
        self.rollout.tick(now)
        self.subscribers.acknowledge(now)
        return True

    def update(self, sender: Peer, message: Update, now: float) -> None:
        """Starts an update of the job, and answers the requester once it is settled."""
        self._wake()
        if self.ended is not None:
            self._sender.send(sender, NoJob(self._app_id), now)
        else:
            self.rollout.update(sender, message, now)

    def prepared(self, sender: Peer, message: VersionPrepared, now: float) -> bool:
        """Notes that an agent is ready for the version that is being prepared."""
        if not self.state.knows(sender.node_id, message.number):
            return False
        self.rollout.prepared(message, now)
        return True

    # Messages of the job's code.

    def add_log_lines(self, sender: Peer, message: LogLines) -> bool:
        """Adds lines to the job's log."""
        if not self._runs_code(sender):
            return False
        self._add_lines(message.lines)
        return True

    def _runs_code(self, sender: Peer) -> bool:
        """Whether the job's code can run on that agent: a worker, or this one."""
        return sender.node_id == self._node.peer.node_id or bool(self.state.roster.numbers_of(sender.node_id))

    def cannot_run(self, sender: Peer, message: CannotRun) -> bool:
        """Notes that an agent cannot run the job's code: it stays expected, and is missing."""
        if not self.state.knows(sender.node_id, message.number):
            return False
        agent = 1 << message.number
        if not self.state.written_off & agent:
            self._note(message.agent, f"this agent cannot run the job: {message.reason}")
        self.state.roster.begin(message.number, message.first_pane)
        self.state.roster.back &= ~agent
        self._holdback.write_off(agent)
        self.state.written_off = self._holdback.written_off
        return True

    def code_failed(self, sender: Peer, message: ProgramFailed, now: float) -> bool:
        """Ends the job, whose code has failed on an agent, or which has taken too long there."""
        if not self._runs_code(sender):
            return False
        what = "its code has failed" if self.state.versions.newest.version.bundle is not None else "it has failed"
        failure = f"{what} on {message.agent}: {message.reason}"
        self._fail(message.agent, failure, (*message.text.splitlines(), f"this ends the job: {message.reason}"), now)
        return True

    def fail(self, reason: str, now: float) -> None:
        """Ends the job, on whose data this master has failed."""
        failure = f"its master {self._name} cannot go on: {reason}"[:TEXT_CHARACTERS_MAX]
        self._fail(self._name, failure, [f"this ends the job: {failure}"], now)

    def _fail(self, agent: str, failure: str, lines: Iterable[str], now: float) -> None:
        """Ends the job once, after these lines of an agent in its log."""
        if self.ended is None:
            for line in lines:
                self._note(agent, line)
            self.state.failure = failure
            self.stop(now, "failed")

    def note(self, text: str) -> None:
        """Adds a line of this master to the job's log."""
        self._note(self._name, text)

    def _note(self, agent: str, text: str) -> None:
        self._add_lines([Line(self._programs.wall_ms, agent, text)])

    def _add_lines(self, lines: list[Line]) -> None:
        self.log.add(lines)
        self._recorder.keep_lines(self._app_id, lines)

    def _replicate(self, now: float) -> int:
        return self._replication.publish((), now)

    def leave(self, sender: Peer, message: Leave, now: float) -> bool:
        """Notes that an agent leaves, and confirms it unless this one leaves itself: the next master is to know it."""
        is_known = self.state.knows(sender.node_id, message.number)
        if is_known:
            self.placement.forget(sender.node_id)
            self.state.leave(message.number, max(message.last_pane, self.lacking.given_upto(self._programs.wall_ms)))
            self.subscribers.acknowledge(now)
        if not self._resigns:
            self._sender.send(sender, LeaveAck(self._app_id, self.state.epoch, message.number), now)
        return is_known

    def follow(self, sender: Peer, message: Follow, now: float) -> None:
        """Sends results to an agent from now on."""
        self._followed_at = now
        self.subscribers.follow(sender, message, now)
        if self.ended is not None:
            self.subscribers.finish(self.ended, now)

    def latency_view(self) -> LatencyView:
        """Tells how long its results take, as far as is known."""
        return msgspec.structs.replace(self._latency_of(None), plan=self.plan.view())

    def _latency_of(self, results: LatencyGeneration | None) -> LatencyView:
        return self.latency.view(self.local.nodes.parts.statistics(), self.subscribers.ways_s(), results)

    def _change_plan(self, plan: Plan, now: float) -> None:
        """Has another setting in force from a window on, if all agents can."""
        text = self.state.versions.newest.version.text
        update = Update(self._app_id, plan.to_wire(), text, False, self._programs.wall_ms)
        self.rollout.update(self._node.peer, update, now, for_all=True)

    def unfollow(self, sender: Peer, message: Unfollow, now: float) -> None:
        """Sends an agent's reader no more results."""
        self._followed_at = now
        self._wake()
        self.subscribers.unfollow(sender, message.reader)

    def answer(self, message: Ask) -> Answer:
        """The last published results."""
        job, log = self.state.job, self.subscribers.log
        results = [
            (pane, json if len(json) <= message.bytes_max else b"") for pane, json in log.last_results(message.windows)
        ]
        return Answer(job.app_id, job.name, self.state.text, self.state.columns, results)

    def stop(self, now: float, reason: Reason = "stopped", seal: Signature | None = None) -> None:
        """Ends the job everywhere; `seal` is the creator's signature of it, if there is one."""
        if self.ended is None:
            self.ended, self._ended_at = reason, now
            self._wake()
            self.subscribers.finish(reason, now)
            self._replication.pack(self.subscribers.log.pack())
            self._sender.multicast(FLEET_GROUP, Stopped(self._app_id, self.state.epoch, reason, seal), now)

    def replicated(self, sender: Peer, message: Replicated, now: float) -> None:
        """Notes that an agent holds a revision of the descriptor."""
        self._replication.confirmed(sender, message)
        if message.declined and self._appointed.get(message.declined) == sender.node_id:
            del self._appointed[message.declined]
            if message.declined == self._attempts:
                self._silent_until = now
        self._stored(now)

    def _stored(self, now: float) -> None:
        """Goes on with what a replica or the disk has confirmed."""
        self._release(now)
        self.rollout.tick(now)
        if self.has_more:
            self.on_complete(now)

    # Time.

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent."""
        self._followed_at += seconds
        self.deadlines.extend(seconds)
        self.subscribers.extend_leases(seconds)

    def tick(self, now: float) -> None:
        """Does what is due; to be called a few times a second, but not before `next_look` if nothing happens."""
        self._do_what_is_due(now)
        self.announcing.look()

    def next_look(self, now: float) -> float:
        """The time at which anything is due next unless something happens, which `wake` reports; ANY_TIME where
        something is under way."""
        publishes = bool(self._complete) or len(self.outlet) > 0
        is_under_way = publishes or self.rollout.is_under_way or self.state.healing.is_due
        if self.ended is not None or self._resigns or is_under_way or not self.local.nodes.is_at_rest:
            return ANY_TIME
        ends = [now + LOOK_AGAIN_S if self.is_closest else max(now, self._hand_over_at)]
        if (expires_at := self.subscribers.expires_at) is not None:
            ends.append(expires_at)
        elif self.state.job.attached:
            ends.append(self._followed_at + UNFOLLOWED_S)
        if self.state.job.bounded and not len(self.state.roster):
            ends.append(self._began_at + NOBODY_S)
        return min(ends)

    def _do_what_is_due(self, now: float) -> None:
        is_followed = len(self.subscribers) > 0
        self.subscribers.expire(now)
        if self.ended is not None:
            return
        if is_followed:
            self._followed_at = now
        elif self.state.job.attached and now - self._followed_at > UNFOLLOWED_S:
            self.stop(now)
            return
        if self.state.job.bounded and not len(self.state.roster) and now - self._began_at > NOBODY_S:
            self.stop(now, "nobody")
            return
        self.owned.tick(now)
        self.adaptation.tick(now)
        self.on_complete(now)
        self.rollout.tick(now)
        self.plan.tick(now)
        self._replication.refresh(now)
        if now >= self._hand_over_at and self._node.is_active:
            self._hand_over(now)

    @property
    def needs_owners(self) -> bool:
        """Whether an owner is gone with panes that windows need, or one more is to be there."""
        return self.owned.is_lost or self.placement.added is not None

    def heals(self, now: float) -> bool:
        """Whether to begin anew now, as agents are back that windows lack which may be corrected, or an owner is gone
        with panes that windows need."""
        if self.ended is None and self.needs_owners:
            return True
        if not self.state.healing.is_due or self.ended is not None:
            self._heals_at = None
        elif self._heals_at is None:
            self._heals_at = now + HEAL_DELAY_S
        return self._heals_at is not None and now >= self._heals_at

    def resign(self, now: float) -> None:
        """Looks for a successor, because this agent leaves."""
        self._resigns, self._hand_over_at = True, now
        self.tick(now)

    def _hand_over(self, now: float) -> None:
        """Hands over to the agent that is closest to the appId or, if this one leaves, to one of the nearest."""
        self._hand_over_at = now + HAND_OVER_S
        successor = self._replication.successor() if self._resigns else self._node.closest(self._app_id)
        self.is_closest = successor is not None and successor.node_id == self._node.peer.node_id
        if successor is not None and successor.node_id != self._node.peer.node_id:
            self._attempts += 1
            self._appointed[self._attempts] = successor.node_id
            self._silent_until = now + SUCCESSOR_S
            self._replication.hand_over(successor, self._attempts, now, leaving=self._resigns)

    def has_appointed(self, epoch: JobEpoch) -> bool:
        """Whether an epoch is that of an agent to which this master has handed over."""
        mine = self.state.epoch
        return epoch > mine and epoch.is_same_job(mine) and epoch.master in self._appointed.values()

    def has_lingered(self, now: float) -> bool:
        """Whether the job ended longer than LINGER_S ago."""
        return self.ended is not None and now - self._ended_at > LINGER_S

    # Results.

    def heard_of_root(self, tree: int, sender: Peer) -> None:
        """Notes an agent that has sent something as the root of a tree."""
        self.owned.reports(sender)
        self.placement.roots[tree] = sender

    def move_groups(self, message: PlaceRequest, now: float) -> str | None:
        """Moves key groups to an agent; returns why that is not possible. Raises NotYetError where that takes another
        epoch, and the master is to be asked again."""
        if self.ended is not None:
            return OVER
        refusal = self.placement.move_to(message.groups, message.to, message.mode, now)
        if refusal is None:
            self._replicate(now)
        return refusal

    def take_windows(self, message: Snapshot, sender: Peer, now: float) -> bool:
        """Takes windows that the owner of a tree has made; False if they are of no use."""
        if message.epoch != self.state.epoch or not self.owned.take(message, sender, now):
            return False
        self._wake()
        return True

    def owner_lost(self, message: OwnerLost, sender: Peer, now: float) -> None:
        """Begins anew, as the owner of a tree does not have the panes that windows need; or ends the job."""
        if self.owned.is_asked(message.tree, sender):
            self.owned.is_lost = True
            if message.failure:
                self.fail(message.failure, now)
        self._wake()

    def agent_died(self, node_id: int, now: float) -> None:
        """Waits for an agent that is dead no longer than the job says."""
        self.owned.died(node_id)
        agents = self.state.roster.numbers_of(node_id)
        if agents and self.ended is None:
            self._holdback.died(agents, now, again=bool(agents & self.state.roster.back))
            self.state.roster.back &= ~agents
            self.state.runs(agents, no_longer=True)
            self.subscribers.acknowledge(now)
            self.on_complete(now)

    def returned(self, node_id: int) -> None:
        """An agent that was taken for dead works on, and has told so by itself."""
        self._holdback.heard(numbers := self.state.roster.numbers_of(node_id))
        self.state.roster.back |= numbers

    def told_of_death(self, sender: Peer, message: AgentFailed, now: float) -> bool:
        """Takes an agent's word for it that a child of its is dead, until that agent contributes again."""
        if not self.state.roster.numbers_of(sender.node_id) or message.node_id == self._node.peer.node_id:
            return False
        self.agent_died(message.node_id, now)
        return True

    @property
    def reads_app(self) -> bool:
        """Whether the job reads another job's results, which only the master's agent does."""
        return self.state.app is not None

    def known(self) -> int:
        """Bitmap of the agents on the roster."""
        return self.state.roster.known()

    def on_complete(self, now: float) -> None:
        """Publishes the runs that every source has reached, unless they are held back for missing agents."""
        self._wake()
        if self._makes_more():
            if not self._complete:
                self._take_complete(now)
            if self._complete and self._program_results.are_made(self._complete[0]):
                self._publish(self._complete.popleft(), now)
                self.subscribers.acknowledge(now)
        self._release(now)

    @property
    def has_more(self) -> bool:
        """Whether `on_complete` would publish more at once."""
        return bool(self._complete) and self._makes_more() and self._program_results.are_made(self._complete[0])

    def _makes_more(self) -> bool:
        """Whether the job goes on, and its replicas keep up."""
        if self.ended is not None or self.state.failure is not None:
            return False
        return self.outlet.waiting_bytes < UNCONFIRMED_BYTES

    def _take_complete(self, now: float) -> None:
        """Takes what is to be published now."""
        spans, written_off = self.local.nodes.complete_spans(), self._holdback.written_off
        self._holdback.begun(has_parts=bool(spans or self.local.nodes.waiting_runs), now=now)
        if self._settles(now):
            spans = []
        if spans := self._waits.publishable(spans, now):
            runs = self.deadlines.with_leaped(self.local.nodes.complete_runs(spans[-1].upto), self._holdback.dead)
            for piece in in_pieces(runs, self._piece_bytes):
                self._complete += self._program_results.pieces(self.owned.decide(piece, now))
            self.state.runs(self._holdback.written_off & ~written_off, no_longer=True)
            alive = self.lacking.copies.published(spans[-1].upto, spans[-1].whole)
            self._holdback.contributed(alive)
            if self.state.versions.at(spans[-1].upto) is self.state.versions.newest:
                self.state.runs(spans[-1].contributors & ~(spans[-1].whole & ~alive))

    def note_read(self, opened: Iterable[Run], read_upto: int, now: float) -> None:
        """Has the next master know the open panes, as of the result of a pane of the job that this one reads."""
        if self.ended is None and not self.state.job.bounded and self.read.note_opened(self.local, opened, read_upto):
            self._replicate(now)

    def members(self, before: Collection[Peer], now: float) -> tuple[Peer, ...]:
        """The agents that take part; none while that is not known. `before`: those who did under the master before.

        Those that are dead, or that no pane waits for, take no part until they enrol. With a new master all enrol
        within a moment: until then, those who took part before do still, unless they are dead.
        """
        roster, dead = self.state.roster, self._holdback.dead
        awaited = self._holdback.died_within(self._waits.recover_s, now) if self.lacking.has_late_events else 0
        enrolled, are_all = self._enrolled((self._gone | self._holdback.unheard) & ~awaited, now)
        if now - self._began_at < NEW_EPOCH_S and before:
            awaited = roster.present() & ~(dead & ~roster.back)
            is_awaited = (not roster.has_met(one) and roster.numbers_of(one.node_id) & awaited for one in before)
            return (*enrolled, *compress(before, is_awaited))
        return enrolled if are_all and not self.may_grow(now) else ()

    def _enrolled(self, gone: int, now: float) -> tuple[tuple[Peer, ...], bool]:
        """The agents of the roster that are not gone, as far as they have enrolled with this master, and whether these
        are all: those that have not come as long as the dead are waited for may have died before it began."""
        found = self.state.roster.peers(self.state.roster.present() & ~gone)
        enrolled = tuple(peer for peer in found if peer is not None)
        is_settled = now >= self._began_at + max(TAKE_OVER_HOLDBACK_S, self._waits.recover_s)
        return enrolled, is_settled or len(enrolled) == len(found)

    def may_grow(self, now: float) -> bool:
        """Whether agents may still enrol that were there when the job began."""
        return now - self._began_at < SETTLE_S

    def _settles(self, now: float) -> bool:
        """Whether agents may still enrol that have some of the past."""
        if self.state.frontier != FIRST_PANE:
            return False
        if self.state.job.bounded:
            return now - self._began_at < SETTLE_S
        settled_at = max(self._began_at + PAST_S, self._enrolled_at + PAST_ENROL_S)
        is_settled = now >= min(settled_at, self._began_at + PAST_MOST_S)
        return not is_settled and bool(self.state.roster.expected(FIRST_PANE))

    def recover(self, owner: Id, runs: Iterable[Snapshot], now: float) -> bool:
        """Takes copies of an agent's runs from one that holds them; False if they were not asked for."""
        is_of_use = self.lacking.recover(owner, runs)
        if is_of_use:
            self.on_complete(now)
        return is_of_use

    def take_given(self, message: GivenResponse, sender: Peer, has_waited_for: HasWaitedFor, now: float) -> None:
        """Takes a host's word on what an agent that panes lack was given; with the last one, that agent's part."""
        enrolled, are_all = self._enrolled(self._gone, now)
        if are_all and self.lacking.take_given(message, sender, enrolled, has_waited_for):
            self.on_complete(now)

    @property
    def _gone(self) -> int:
        """The agents that are dead, or written off, and have not enrolled since."""
        return (self._holdback.written_off | self._holdback.dead) & ~self.state.roster.back

    def lagging(self, message: Lagging, now: float) -> None:
        """Decides for all trees whether to leap over stragglers, of which an agent has reported."""
        if self.ended is not None or self.state.job.bounded:
            return
        time_ms = self._leaps.agreed_ms(self.state.roster.present(), self._programs.wall_ms, now)
        most, runs = message.most, RUNS_MAX if message.is_full else 0
        if self._leaps.decide(self.state.versions, self.state.frontier, most, runs, time_ms, now):
            self._sender.multicast(self._app_id, Leap(self._app_id, self.state.epoch, self._leaps.upto), now)

    def at_deadline(self, now: float) -> None:
        """Publishes what is there of windows that are to be out now, and has all go on."""
        if self.ended is None and (upto := self.deadlines.reached(now)) is not None:
            self._leaps.leap(upto, now)
            self._sender.multicast(self._app_id, Leap(self._app_id, self.state.epoch, upto), now)
            self.local.nodes.combiner().go_on(upto)
            self.on_complete(now)

    def _are_all_here(self) -> bool:
        return None not in self.state.roster.peers(self.state.roster.present() & ~self._gone)

    def _agreed_ms(self, clock: StepClock) -> float:
        return self._leaps.agreed_ms(self.state.roster.present(), round(clock.wall_ms), clock.now)

    def stands_still_for(self, node_id: Id, now: float) -> bool:
        """Whether panes wait for STANDSTILL_S, perhaps for this agent of the roster. In a new epoch all are awaited."""
        if now - self._began_at < NEW_EPOCH_S:
            return False
        is_expected = self.state.roster.numbers_of(node_id) & self.state.roster.present()
        return bool(is_expected) and self._holdback.waited_s(now) >= STANDSTILL_S

    @property
    def leaped_upto(self) -> int:
        """The pane up to which nobody is waited for."""
        return self._leaps.upto

    def _publish(self, runs: Iterable[Run], now: float) -> None:
        results: list[tuple[int, WindowResult]] = []
        membership: dict[int, WindowMembership] = {}
        paths: dict[int, CriticalPath] = {}
        begun_s = self._clock()
        for run in runs:
            self.latency.note_groups(run)
            made = self._program_results.publish(run)
            results += made.items()
            paths |= paths_of(run.path, run.upto, self.state.versions.at(run.upto).function.pane_ms, made)
            membership |= self.state.membership or {}
            if left_out := self.state.healing.take_left_out():
                self.note(f"{left_out:,} more windows have gained agents, and are not shown again: {CORRECTED_MAX} are")
            if self.state.failure is not None:
                break
        self.placement.loads.add_seconds(self._node.peer.node_id, self._clock() - begun_s, 0.0)
        json = self.outlet.encoded(results)
        if self.reads_app and not self.state.job.bounded:
            self.read.note_sealed(self.local, self.state.versions.retention_pane(self.state.published_upto))
        revision = self._replication.publish(json, now)
        self.outlet.add(results, json, membership, revision, now + REPLICATION_S, paths)

    def _release(self, now: float) -> None:
        """Publishes the results whose revision the replicas hold."""
        for frontier in self.outlet.release(self._replication.is_held, now) if now >= self._silent_until else ():
            incomplete = self.state.told_incomplete(frontier)
            self._sender.multicast(self._app_id, Commit(self._app_id, self.state.epoch, frontier, incomplete), now)
            if frontier == END:
                self.stop(now, "finished")
        if self.state.failure is not None and not len(self.outlet):
            self.stop(now, "failed")

    def depose(self, announce: Announce | None, now: float) -> None:
        """Makes way for the new master, which has taken over the results that wait here as published.

        One that is behind, as it comes from a disk, is told what this one has.
        """
        is_same = announce is not None and self.state.epoch.is_same_job(announce.epoch)
        if announce is not None and is_same and announce.frontier < self.state.published_upto:
            self._replication.offer(announce.master, now)
        self.outlet.release_all(now)
