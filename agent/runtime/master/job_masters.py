"""Keeps the masters on one agent: creates and deposes them, passes messages to them, and announces their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import msgspec

import query
from agent.runtime.durable.restoring import InheritedPast
from agent.runtime.fleet.authorization import NotAuthorizedError, check_owner
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_inquiry import in_batches
from agent.runtime.function.result import WindowResult
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Programs
from agent.runtime.master.failover import Takeover, descriptor_of
from agent.runtime.master.healing import HEAL_AGAIN_S
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.job_recorder import JobRecorder
from agent.runtime.master.owners.key_placement import NotYetError
from agent.runtime.master.results.job_log import JobLog
from agent.runtime.master.results.reader_runs import ReaderRuns, decoded_runs
from agent.runtime.master.results.result_archive import ResultRecord
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import (
    AgentFailed,
    Announce,
    AnnouncementBatch,
    Ask,
    Enrol,
    Follow,
    Lagging,
    Leave,
    NoJob,
    OverAnswer,
    OverRequest,
    Ready,
    Replica,
    Replicated,
    Stop,
    StopAnswer,
    Stopped,
    Submit,
    Submitted,
    Unfollow,
    Update,
    Updated,
)
from agent.runtime.messages.plans import PlanAnswer, PlanQuestion
from agent.runtime.messages.programs import CannotRun, Line, LogLines, LogRequest, ProgramFailed
from agent.runtime.messages.reading import NO_RUNS, GivenRuns
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.versions import VersionPrepared
from agent.runtime.messages.views.latency import LatencyRequest
from agent.runtime.messages.views.placement import PlaceRequest
from agent.runtime.model.containment import JobContainment, reason_of
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.placement import KeyMoves
from agent.runtime.model.schedule import ANY_TIME, Schedule
from overlay import Id, Node, Peer, Requested

PIECE_BYTES = 1 << 20
"""Memory of runs that are published at a stroke, or a single pane's. Peers would miss a sign of life meanwhile."""
TOGETHER_S, TOGETHER_MAX = 1.5, 64
"""Announcements due within this time join the ones being sent, up to so many: a message costs more than its payload."""
RUNNING = "a job named {name} is running already: follow it, stop it, or give this one another name"
LOGS_MAX = 64
"""Upper bound on logs of jobs that are over; past it the oldest are dropped."""
TOO_MANY_REGEXES = (
    "the queries that run have too many regular expressions and LIKE patterns for one more with such ones: stop one of"
    " them, or use fewer"
)
RESTORED_S = 3600.0
"""Time for which the master of a job from a disk hears from other agents what their disks have of it."""
HANDED_OVER_S = 60.0
"""Time for which a master hears from the one that has handed over to it, or was taken for dead, what that one had."""
OWNER_LOST_AGAIN_S = 3.0
"""Interval in which a master begins an epoch as owners of trees are gone."""
FULL = "this agent cannot be master of another job: it has a part in too many"


@dataclass(frozen=True, slots=True)
class _Base:
    """The descriptor with which a master has begun. `restored`: it comes from a disk."""

    revision: tuple[JobEpoch, int]
    since: float
    restored: bool

    def is_bettered_by(self, replica: Replica, sender: Peer, now: float) -> bool:
        """Whether an agent may tell of a newer one: what it was may have been on its way for long."""
        is_last_master = replica.epoch == self.revision[0] and sender.node_id == replica.epoch.master
        until = self.since + (RESTORED_S if self.restored else HANDED_OVER_S if is_last_master else 0.0)
        return now < until and (replica.epoch, replica.revision) > self.revision


class JobMasters:
    """All masters on one agent. `on_result` and `record` are given to each; `replicas` agents hold its descriptor."""

    name = "masters"

    def __init__(
        self,
        agent_name: str,
        node: Node,
        sender: MessageSender,
        jobs: LocalJobs,
        directory: JobDirectory,
        programs: Programs,
        code: CodeRegistry,
        containment: JobContainment,
        recorder: JobRecorder,
        replicas: int,
    ) -> None:
        self._containment = containment
        self.on_result: Callable[[WindowResult], None] | None = None
        self.record: Callable[[ResultRecord], None] | None = None
        self.on_plan_asked: Callable[[PlanQuestion], None] | None = None
        """Takes questions for plans of jobs whose masters are here; `planned` takes the answers."""
        self.piece_bytes = PIECE_BYTES
        self.refused = 0
        self._name = agent_name
        self._node = node
        self._sender = sender
        self._jobs = jobs
        self._directory = directory
        self._programs = programs
        self._code = code
        self._logs: dict[Id, tuple[str, JobLog]] = {}
        self._recorder = recorder
        self._replicas = replicas
        self._masters: dict[Id, JobMaster] = {}
        self._beginning: dict[Id, JobState] = {}
        self._bases: dict[Id, _Base] = {}
        self._healed_at: dict[Id, float] = {}
        self._around: tuple[object, ...] = ()
        """The agents near this one at the last tick: where they change, masters replicate and hand over."""
        self._looks: Schedule[Id] = Schedule()
        self._timed: set[Id] = set()
        """Jobs whose windows come at deadlines with what is there."""
        self._announcements: Schedule[Id] = Schedule()

    def handlers(self) -> Handlers:
        anyhow = Via.ROUTED | Via.DIRECT
        return {
            Submit: Handler(Via.ROUTED, self.submit),
            Follow: Handler(anyhow, self.follow),
            Unfollow: Handler(anyhow, self.unfollow),
            Stop: Handler(anyhow, self.stop),
            Update: Handler(anyhow, self.update),
            Updated: Handler(Via.DIRECT, self.updated),
            Ask: Handler(Via.REQUEST, self.answer),
            LogRequest: Handler(Via.REQUEST, self.send_log),
            PlaceRequest: Handler(Via.REQUEST, self.place),
            LatencyRequest: Handler(Via.REQUEST, self.tell_latency),
            OverRequest: Handler(Via.REQUEST, self.confirm_end),
            **dict.fromkeys(
                (Enrol, Ready, VersionPrepared, Leave, Lagging, AgentFailed, Replicated),
                Handler(Via.DIRECT, self.receive),
            ),
            **dict.fromkeys((LogLines, CannotRun, ProgramFailed), Handler(Via.DIRECT, self.receive_from_code)),
        }

    def statistics(self) -> Mapping[str, int]:
        made = [master.state.windows_made for master in self._masters.values()]
        return {
            "refused": self.refused,
            "masters": len(self._masters),
            "window_panes": sum(one.panes for one in made),
            "window_inputs": sum(one.inputs for one in made),
        }

    @property
    def held(self) -> dict[Id, JobMaster]:
        """The masters of running jobs, and of jobs that have just ended."""
        return self._masters

    def leads(self, app_id: Id) -> bool:
        """Whether the job's master is here, or is about to be."""
        return app_id in self._masters or app_id in self._beginning

    def stands_still_for(self, app_id: Id, node_id: Id, now: float) -> bool:
        """Whether the job's master here waits for parts, perhaps for those of an agent that follows another one."""
        master = self._masters.get(app_id)
        return master is not None and master.stands_still_for(node_id, now)

    def get(self, app_id: Id) -> JobMaster | None:
        return self._masters.get(app_id)

    def state(self, app_id: Id) -> JobState | None:
        """The state of a job whose master is here."""
        master = self._masters.get(app_id)
        return master.state if master is not None else None

    def submit(self, job: Submit, submitter: Peer, now: float) -> None:
        """Makes this agent the job's master, unless the job exists already. An agent that leaves does not answer."""
        if not self._jobs.takes_work:
            return
        refusal = self._refusal(job, submitter)
        answer = partial(self._sender.send, submitter)
        if refusal is None and not self._is_running(job, submitter):
            born_ms = max(job.submitted_ms, self._directory.born_after(job.app_id) + 1)
            epoch = JobEpoch(born_ms, 1, self._node.peer.node_id)
            try:
                state = JobState(job, epoch, submitter.node_id, functions=self._jobs.functions)
                state.heal_ms = self._jobs.ingest.heal_ms
                state.creator = self._code.authorize(job.app_id, job.name, (job.bundle,))
            except (query.PlanError, NotAuthorizedError) as error:
                refusal = str(error)
            else:
                log, begun = ResultLog(is_of_stage=bool(state.part_of)), Submitted(job.app_id, job.submitted_ms, None)
                self._prepare(state, log, now, partial(answer, begun))
                return
        if refusal is not None or job.app_id not in self._beginning:
            answer(Submitted(job.app_id, job.submitted_ms, refusal), now)

    def _is_running(self, job: Submit, submitter: Peer) -> bool:
        """Whether this very submission runs already."""
        state = self._beginning.get(job.app_id) or self.state(job.app_id)
        if state is None:
            return False
        return (state.submitter, state.job.submitted_ms) == (submitter.node_id, job.submitted_ms)

    def _refusal(self, job: Submit, submitter: Peer) -> str | None:
        master = self._masters.get(job.app_id)
        elsewhere = self._directory.get(job.app_id) is not None and master is None
        is_here = job.app_id in self._beginning or (master is not None and master.ended is None)
        here = is_here and not self._is_running(job, submitter)
        if here or elsewhere:
            return RUNNING.format(name=job.name)
        if not self._jobs.has_room:
            return FULL
        return None if self._jobs.has_regex_room(query.regex_size(job.plan)) else TOO_MANY_REGEXES

    def take_over(self, takeover: Takeover, now: float) -> None:
        """Takes over from a master that has failed or leaves."""
        try:
            heal_ms = self._jobs.ingest.heal_ms
            state = JobState.from_replica(takeover.replica, takeover.epoch, self._jobs.functions, heal_ms)
            bundles = [version.bundle for version in state.versions.all()]
            state.creator = self._code.authorize(state.job.app_id, state.job.name, bundles)
        except (query.PlanError, NotAuthorizedError):
            self.refused += 1
            return
        if self._jobs.has_room or self._jobs.get(state.job.app_id) is not None:
            revision = (takeover.replica.epoch, takeover.replica.revision)
            self._bases[state.job.app_id] = _Base(revision, now, takeover.restored)
            self._prepare(state, takeover.log, now, lines=takeover.lines, dead=takeover.dead, read=takeover.read)

    def learn(self, replica: Replica, sender: Peer, now: float) -> None:
        """Begins again with what another agent's disk, or the master before, has of a job, if the master here has begun
        with less."""
        app_id = replica.app_id
        master, base = self._masters.get(app_id), self._bases.get(app_id)
        if master is None or base is None or master.ended is not None:
            return
        state, is_possible = master.state, replica.job.bounded or replica.frontier <= self._programs.wall_ms
        if not base.is_bettered_by(replica, sender, now) or not is_possible:
            return
        results = dict(replica.results)
        if replica.epoch.is_same_job(state.epoch):
            results |= dict(master.subscribers.log)
            newer = state.version > replica.versions[-1].number
            replica = msgspec.structs.replace(
                replica,
                frontier=max(replica.frontier, state.published_upto),
                versions=state.versions.all() if newer else replica.versions,
            )
        epoch = max(replica.epoch, state.epoch).next(self._node.peer.node_id)
        log = ResultLog(sorted(results.items()), is_of_stage=bool(state.part_of))
        takeover = Takeover(replica, log, epoch, base.restored, read=replica.read)
        if state.app is not None and (job := self._jobs.get(app_id)) is not None:
            job.close()  # it has read on from an earlier place
        self._begin_again(master, takeover, now)

    def has_appointed(self, app_id: Id, epoch: JobEpoch) -> bool:
        """Whether the job's master is here, and has handed over to the master of an epoch."""
        master = self._masters.get(app_id)
        return master is not None and master.has_appointed(epoch)

    def was_away(self, app_id: Id, node_id: int) -> bool:
        """Whether no pane of a job whose master is here waits for an agent any more."""
        state = self.state(app_id)
        return state is not None and bool(state.written_off & state.roster.numbers_of(node_id))

    def outdo(self, app_id: Id, rival: JobEpoch, now: float) -> None:
        """Begins an epoch of the master here that is above a rival's."""
        master = self._masters.get(app_id)
        if master is None or master.ended is not None:
            return
        epoch = max(rival, master.state.epoch).next(self._node.peer.node_id)
        replica = msgspec.structs.replace(descriptor_of(master.state, 0), moved=_moved_next(master))
        log, read = master.subscribers.log, master.read.given()
        self._begin_again(master, Takeover(replica, log, epoch, self._is_restored(app_id), read=read), now)

    def _begin_again(self, master: JobMaster, takeover: Takeover, now: float) -> None:
        """Goes on here in a further epoch."""
        lines = tuple(master.log.lines)
        self._depose(master, None, now)
        self.take_over(replace(takeover, lines=lines), now)

    def end_restored(self, stopped: Stopped, now: float) -> bool:
        """Ends a job that was brought back from a disk and has ended before; False if no such job's master is here."""
        master = self._masters.get(stopped.app_id)
        if master is None or not self._is_restored(stopped.app_id) or master.state.epoch != stopped.epoch:
            return False
        master.stop(now)
        return True

    def _is_restored(self, app_id: Id) -> bool:
        base = self._bases.get(app_id)
        return base is not None and base.restored

    def _prepare(
        self,
        state: JobState,
        log: ResultLog,
        now: float,
        begun: Callable[[float], None] = lambda _now: None,
        lines: Sequence[Line] = (),
        dead: Iterable[int] = (),
        read: GivenRuns = NO_RUNS,
    ) -> None:
        """Begins an epoch once it is on disk, so that it is never used twice; `begun` is called then."""
        app_id, runs = state.job.app_id, ReaderRuns(read)
        self._beginning[app_id] = state

        def begin(now: float) -> None:
            if self._beginning.get(app_id) is not state:
                return
            del self._beginning[app_id]
            known = self._directory.get(app_id)
            if self._directory.is_over(app_id, state.epoch) or (known and known.epoch > state.epoch):
                self._recorder.drop(app_id, state.epoch, now)
            else:
                self._begin(state, log, lines, runs, now)
                for node_id in dead:
                    self._masters[app_id].agent_died(node_id, now)
                begun(now)

        if not self._recorder.keep(descriptor_of(state, 0), log, runs, now, begin):
            begin(now)

    def _begin(self, state: JobState, log: ResultLog, lines: Sequence[Line], read: ReaderRuns, now: float) -> None:
        job = self._jobs.lead(state.job.app_id, state.epoch, state.trees, state.moved, now)
        if job.pipeline is None and state.app is not None:
            given = read.given()
            sealed, opened = (tuple(decoded_runs(runs, state.versions)) for runs in (given.sealed, given.opened))
            self._jobs.ingest.inherited[state.job.app_id] = InheritedPast(sealed, opened, given.read_upto)
        job.root = master = JobMaster(
            state, job, log, self._sender, self._node, self._name, self._programs, now,
            replicas=self._replicas, recorder=self._recorder, piece_bytes=self.piece_bytes,
            meter=self._jobs.ingest.meter, wake=partial(self._looks.set, state.job.app_id, ANY_TIME),
            clock=self._containment.clock, read=read,
        )  # fmt: skip
        master.log.add(lines)
        master.outlet.on_result, master.plan.ask = self.on_result, self.on_plan_asked
        if self.record is not None:
            master.outlet.record(self.record)
        self._masters[state.job.app_id] = master
        self._looks.set(state.job.app_id, ANY_TIME)
        self._announcements.set(state.job.app_id, ANY_TIME)
        self._logs.pop(state.job.app_id, None)
        announcement = master.announcing.announcement()
        self._directory.add(announcement, now)
        self._jobs.announced(announcement, now)
        self._announce(now)
        master.tick(now)

    def announced(self, announce: Announce, now: float) -> None:
        """Deposes this agent's master of a job if another announces it with a higher epoch."""
        master = self._masters.get(announce.app_id)
        if master is not None and announce.epoch > master.state.epoch:
            self._depose(master, announce, now)
            self._recorder.drop(announce.app_id, master.state.epoch, now)

    def _depose(self, master: JobMaster, announce: Announce | None, now: float) -> None:
        app_id = master.state.job.app_id
        master.depose(announce, now)
        self._remove(app_id)
        self._bases.pop(app_id, None)
        self._jobs.depose(app_id)

    def fail(self, app_id: Id, error: BaseException, now: float) -> bool:
        """Ends a job whose master is here and has raised, or takes too long; False if it is not."""
        master = self._masters.get(app_id)
        if master is None:
            return False
        master.fail(reason_of(error), now)
        return True

    def resign(self, now: float) -> None:
        """Hands every job over to another agent, if there is one."""
        for master in self._masters.values():
            master.resign(now)

    @property
    def not_handed_over(self) -> int:
        """The number of jobs whose master is here and could be with another agent."""
        return sum(not master.ended for master in self._masters.values()) if self._node.neighbours(1) else 0

    def close(self, app_id: Id, now: float) -> None:
        """Takes a master whose job is over from its tree; it lingers to answer subscribers."""
        self._bases.pop(app_id, None)
        self._healed_at.pop(app_id, None)
        if app_id in self._masters:
            self._recorder.end(app_id, now)
        self._jobs.depose(app_id)

    def failed(self, peer: Peer, now: float) -> None:
        """Tells all masters that an agent is dead."""
        for master in self._masters.values():
            master.agent_died(peer.node_id, now)

    def _announce(self, now: float) -> None:
        """Announces to the fleet the jobs whose announcements are due, together with those that are due soon."""
        due = self._to_announce(now)
        if not due:
            return
        jobs: list[Announce] = []
        if len(due) < TOGETHER_MAX:
            soon = (master for master in self._masters.values() if master not in due and master.ended is None)
            due += islice((one for one in soon if one.announcing.is_due(now, TOGETHER_S)), TOGETHER_MAX - len(due))
        for master in due:
            app_id = master.state.job.app_id
            is_unchanged = not self._looks.is_due(app_id, now)
            jobs.append(master.announcing.next(now, len(self._masters), is_unchanged=is_unchanged))
            self._announcements.set(app_id, master.announcing.next_at)
        for batch in in_batches(jobs):
            message = batch[0] if len(batch) == 1 else AnnouncementBatch(FLEET_GROUP, batch)
            self._sender.multicast(FLEET_GROUP, message, now)

    def _to_announce(self, now: float) -> list[JobMaster]:
        """The masters whose announcements are due, or that have a version to announce."""
        found: dict[Id, JobMaster] = {}
        for app_id in (*self._announcements.due(now), *self._looks.due(now)):
            master = self._masters.get(app_id)
            if master is None or master.ended is not None:
                self._announcements.forget(app_id)
            elif now >= master.announcing.next_at or master.announcing.is_due(now):
                found[app_id] = master
        return list(found.values())

    @property
    def is_active(self) -> bool:
        """Whether anything may happen to some master before its next look. O(1)."""
        return self._looks.has_due

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: followers may have repeated their requests meanwhile."""
        for master in self._masters.values():
            master.extend_deadlines(seconds)

    def next_timer(self) -> float | None:
        """The time at which `at_deadlines` wants to be called. O(masters with deadlines)."""
        found = (self._masters[app_id].deadlines.next_at() for app_id in self._timed)
        return min((due for due in found if due is not None), default=None)

    def at_deadlines(self, now: float) -> None:
        """Has windows come that are to be out by now with what is there."""
        for app_id in list(self._timed):
            with self._containment.around(app_id, now):
                self._masters[app_id].at_deadline(now)

    def tick(self, now: float) -> None:
        self._announce(now)
        around = (self._node.is_active, *self._node.leaf_set.members)
        has_moved, self._around = around != self._around, around
        for app_id in list(self._masters) if has_moved else self._looks.due(now):
            if (master := self._masters.get(app_id)) is None:
                self._looks.forget(app_id)
                continue
            master.is_closest &= not has_moved
            with self._containment.around(app_id, now):
                master.tick(now)
                if master.has_more:
                    self._jobs.has_work(master.local)
                (self._timed.add if master.deadlines.are_stated else self._timed.discard)(app_id)
            if master.ended is None:
                self._directory.refresh(app_id, now)
            again_s = HEAL_AGAIN_S if not master.needs_owners else OWNER_LOST_AGAIN_S
            if master.heals(now) and now - self._healed_at.get(app_id, -HEAL_AGAIN_S) >= again_s:
                self._healed_at[app_id] = now
                self.outdo(app_id, master.state.epoch, now)
            if master.has_lingered(now) and self._masters.get(app_id) is master:
                self._keep_log(master)
                self._remove(app_id)
            elif self._masters.get(app_id) is master:
                self._looks.set(app_id, master.next_look(now))

    def _remove(self, app_id: Id) -> None:
        del self._masters[app_id]
        self._timed.discard(app_id)
        self._jobs.ingest.inherited.pop(app_id, None)
        self._looks.forget(app_id)
        self._announcements.forget(app_id)

    def _keep_log(self, master: JobMaster) -> None:
        """Keeps the log of a job that is over, to be read for a while."""
        self._logs[master.state.job.app_id] = (master.state.job.name, master.log)
        while len(self._logs) > LOGS_MAX:
            del self._logs[next(iter(self._logs))]

    # Requests to masters.

    def receive(
        self,
        message: Enrol | Ready | VersionPrepared | Leave | Lagging | AgentFailed | Replicated,
        sender: Peer,
        now: float,
    ) -> bool:
        """Passes a message to the job's master in this epoch; False if it is not here, or refuses the message."""
        master = self._masters.get(message.app_id)
        if master is None or master.state.epoch != message.epoch or master.ended is not None:
            return False
        self._looks.set(message.app_id, ANY_TIME)
        match message:
            case Enrol():
                return master.enrol(sender, message, now)
            case Ready():
                return master.acknowledge(sender, message, now)
            case VersionPrepared():
                return master.prepared(sender, message, now)
            case Leave():
                return master.leave(sender, message, now)
            case Lagging():
                master.lagging(message, now)
                return True
            case AgentFailed():
                return master.told_of_death(sender, message, now)
            case _:
                master.replicated(sender, message, now)
                return True

    def follow(self, message: Follow, sender: Peer, now: float) -> None:
        """Subscribes an agent to a job's results."""
        master = self._masters.get(message.app_id)
        if master is None:
            self._sender.send(sender, NoJob(message.app_id), now)
        else:
            master.follow(sender, message, now)

    def answer(self, message: Ask, requested: Requested, now: float) -> None:
        """Answers a request for a job's last results."""
        master = self._masters.get(message.app_id)
        self._sender.respond(requested, NoJob(message.app_id) if master is None else master.answer(message), now)

    def is_over(self, app_id: Id, epoch: JobEpoch) -> bool:
        """Whether a job whose master is or was here is over."""
        master = self._masters.get(app_id)
        if master is None:
            return self._directory.is_over(app_id, epoch)
        return master.ended is not None and epoch.is_same_job(master.state.epoch)

    def confirm_end(self, message: OverRequest, requested: Requested, now: float) -> None:
        """Answers whether a job is over."""
        over = self.is_over(message.app_id, message.epoch)
        self._sender.respond(requested, OverAnswer(message.app_id, over), now)

    def send_log(self, message: LogRequest, requested: Requested, now: float) -> None:
        """Answers a request for a job's log."""
        master, kept = self._masters.get(message.app_id), self._logs.get(message.app_id)
        if master is not None:
            kept = (master.state.job.name, master.log)
        answer = NoJob(message.app_id) if kept is None else kept[1].answer(message.app_id, kept[0], message.lines)
        self._sender.respond(requested, answer, now)

    def place(self, message: PlaceRequest, requested: Requested, now: float) -> None:
        """Answers where the key groups of a job are, and moves some if the requester is authorized."""
        master = self._masters.get(message.app_id)
        if master is None:
            self._sender.respond(requested, NoJob(message.app_id), now)
            return
        refusal = None
        if message.groups:
            try:
                check_owner(master.state.job.owner, message.by)
            except NotAuthorizedError as error:
                refusal = str(error)
            else:
                try:
                    refusal = master.move_groups(message, now)
                except NotYetError:
                    self._sender.respond(requested, NoJob(message.app_id), now)
                    return
            finally:
                self._looks.set(message.app_id, ANY_TIME)
        self._sender.respond(requested, master.adaptation.view(now, refusal), now)

    def tell_latency(self, message: LatencyRequest, requested: Requested, now: float) -> None:
        """Answers how long the results of a job take."""
        master = self._masters.get(message.app_id)
        view = None if master is None else master.latency_view()
        self._sender.respond(requested, view or NoJob(message.app_id), now)

    def planned(self, answer: PlanAnswer, now: float) -> None:
        """Passes an answer on the plan of a job to its master, if that is still here."""
        master = self._masters.get(answer.app_id)
        if master is not None and master.ended is None:
            master.plan.answered(answer, now)
            self._looks.set(answer.app_id, ANY_TIME)

    def receive_from_code(self, message: LogLines | CannotRun | ProgramFailed, sender: Peer, now: float) -> bool:
        """Passes a message of a job's code, or on its failure, to the master; False if it is not here, or refuses."""
        master = self._masters.get(message.app_id)
        if master is None or master.state.epoch != message.epoch:
            return False
        self._looks.set(message.app_id, ANY_TIME)
        match message:
            case LogLines():
                return master.add_log_lines(sender, message)
            case CannotRun():
                return master.cannot_run(sender, message)
            case ProgramFailed():
                return master.code_failed(sender, message, now)

    def switch_function(self, app_id: Id, name: str, now: float, wall_ms: int, *, reset: bool) -> str | None:
        """Switches a job to another of its functions at the request of its own code; returns the fault, if any."""
        master = self._masters.get(app_id)
        if master is None:
            return None
        bundle = master.state.versions.newest.version.bundle
        function = bundle.contents.function(name) if bundle is not None else None
        if function is None or bundle is None:
            return f"update: the job has no query {name} in its queries"
        update = Update(app_id, function.plan, function.text, reset, wall_ms, bundle)
        master.update(self._node.peer, update, now)
        return None

    def updated(self, message: Updated, _sender: Peer, _now: float) -> None:
        """Logs the refusal of an update that the job's own code has requested."""
        master = self._masters.get(message.app_id)
        if master is not None and message.refusal is not None:
            master.note(f"update: {message.refusal}")

    def unfollow(self, message: Unfollow, sender: Peer, now: float) -> None:
        if (master := self._masters.get(message.app_id)) is not None:
            master.unfollow(sender, message, now)

    def update(self, message: Update, sender: Peer, now: float) -> None:
        """Updates a job, if the requester is authorized."""
        master = self._masters.get(message.app_id)
        if master is None:
            self._sender.send(sender, NoJob(message.app_id), now)
            return
        try:
            before = master.state.versions.newest.version.bundle
            if message.bundle is None and not master.state.creator:
                check_owner(master.state.job.owner, message.by)
            self._code.authorize_update(message.app_id, master.state.job.name, before, message.bundle)
        except NotAuthorizedError as error:
            self._sender.send(sender, Updated(message.app_id, message.updated_ms, str(error)), now)
        else:
            master.update(sender, message, now)

    def stop(self, message: Stop, sender: Peer, now: float) -> None:
        """Ends a job, if the requester is authorized."""
        master = self._masters.get(message.app_id)
        if master is None:
            self._sender.send(sender, StopAnswer(message.app_id, found=False), now)
            return
        refusal = None
        try:
            state = master.state
            if not state.creator:
                check_owner(state.job.owner, message.by)
            self._code.authorize_stop(message.app_id, state.job.name, message.seal, owned=bool(state.creator))
            master.stop(now, seal=message.seal)
        except NotAuthorizedError as error:
            refusal = str(error)
        self._sender.send(sender, StopAnswer(message.app_id, True, refusal), now)


def _moved_next(master: JobMaster) -> KeyMoves:
    """The places of a job's key groups in the next epoch."""
    moved, added = master.state.moved, master.placement.added
    moved = moved if added is None else moved.with_tree(added)
    return moved.with_owners(make_windows=False, gave_up=True) if master.owned.is_useless else moved
