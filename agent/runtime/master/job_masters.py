"""Keeps the masters on one agent: they come into office, are sent requests, announce their jobs, and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import query
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.function.result import WindowResult
from agent.runtime.job.code import CodeRegistry
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Programs
from agent.runtime.master.failover import Takeover
from agent.runtime.master.job_log import JobLog
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.result_archive import ResultRecord
from agent.runtime.master.result_log import ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import (
    BULLETIN_MAX,
    Announce,
    AnnouncementBatch,
    Ask,
    Enrol,
    Follow,
    Leave,
    NoJob,
    Ready,
    Replicated,
    Stop,
    StopAnswer,
    Submit,
    Submitted,
    Unfollow,
    Update,
    Updated,
)
from agent.runtime.messages.programs import CannotRun, LogLines, LogRequest, ProgramFailed
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.versions import VersionPrepared
from agent.runtime.model.epoch import JobEpoch
from overlay import Id, Node, Peer, Requested

TOGETHER_S = 1.5
"""Announcements due within this time join the one being sent: a message costs more than its payload."""
BATCH_CHARACTERS = 1 << 16
"""Characters of queries past which a batch of announcements takes no further job."""
RUNNING = "a job named {name} is running already: follow it, stop it, or give this one another name"
LOGS_MAX = 64
"""Upper bound on logs of jobs that are over; past it the oldest are dropped."""
FULL = "this agent cannot be master of another job: it has a part in too many"


class JobMasters:
    """All masters on one agent. `on_result` and `record` are given to each; `replicas` agents hold its descriptor."""

    name = "masters"

    def __init__(
        self,
        agent_name: str,
        node: Node,
        post: MessageSender,
        parts: LocalJobs,
        announcements: JobDirectory,
        programs: Programs,
        code: CodeRegistry,
        replicas: int,
    ) -> None:
        self.on_result: Callable[[WindowResult], None] | None = None
        self.record: Callable[[ResultRecord], None] | None = None
        self.refused = 0
        self._name = agent_name
        self._node = node
        self._post = post
        self._parts = parts
        self._announcements = announcements
        self._programs = programs
        self._code = code
        self._logs: dict[Id, tuple[str, JobLog]] = {}
        self._replicas = replicas
        self._offices: dict[Id, JobMaster] = {}

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
            LogRequest: Handler(Via.REQUEST, self.tell_log),
            **dict.fromkeys((Enrol, Ready, VersionPrepared, Leave, Replicated), Handler(Via.DIRECT, self.receive)),
            **dict.fromkeys((LogLines, CannotRun, ProgramFailed), Handler(Via.DIRECT, self.hear_code)),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "masters": len(self._offices)}

    @property
    def held(self) -> dict[Id, JobMaster]:
        """The masters in office, and those whose job has just ended."""
        return self._offices

    def get(self, app_id: Id) -> JobMaster | None:
        return self._offices.get(app_id)

    def state(self, app_id: Id) -> JobState | None:
        """The state of a job whose master is here."""
        office = self._offices.get(app_id)
        return office.master if office is not None else None

    def submit(self, job: Submit, submitter: Peer, now: float) -> None:
        """Makes this agent the job's master, unless there is such a job. An agent that leaves does not answer."""
        if not self._parts.takes_work:
            return
        refusal = self._refusal(job, submitter)
        if refusal is None and not self._is_running(job, submitter):
            born_ms = max(job.submitted_ms, self._announcements.born_after(job.app_id) + 1)
            epoch = JobEpoch(born_ms, 1, self._node.peer.node_id)
            try:
                master = JobState(job, epoch, submitter.node_id, functions=self._parts.functions)
                master.creator = self._code.vet(job.app_id, job.name, (job.bundle,))
                self._begin(master, ResultLog(), now)
            except (query.PlanError, NotAuthorizedError) as error:
                refusal = str(error)
        self._post.send(submitter, Submitted(job.app_id, job.submitted_ms, refusal), now)

    def _is_running(self, job: Submit, submitter: Peer) -> bool:
        """Whether this very submission has come before."""
        office = self._offices.get(job.app_id)
        if office is None:
            return False
        mine = office.master
        return (mine.submitter, mine.job.submitted_ms) == (submitter.node_id, job.submitted_ms)

    def _refusal(self, job: Submit, submitter: Peer) -> str | None:
        office = self._offices.get(job.app_id)
        elsewhere = self._announcements.get(job.app_id) is not None and office is None
        here = office is not None and office.ended is None and not self._is_running(job, submitter)
        if here or elsewhere:
            return RUNNING.format(name=job.name)
        return None if self._parts.has_room else FULL

    def inherit(self, inheritance: Takeover, now: float) -> None:
        """Takes over from a master that is gone, or leaves."""
        try:
            master = JobState.from_replica(inheritance.replica, inheritance.epoch, self._parts.functions)
            bundles = [version.bundle for version in master.versions.all()]
            master.creator = self._code.vet(master.job.app_id, master.job.name, bundles)
        except (query.PlanError, NotAuthorizedError):
            self.refused += 1
            return
        if self._parts.has_room or self._parts.get(master.job.app_id) is not None:
            self._begin(master, inheritance.log, now)

    def _begin(self, master: JobState, log: ResultLog, now: float) -> None:
        part = self._parts.lead(master.job.app_id, master.epoch, master.trees, now)
        part.root = office = JobMaster(
            master, part, log, self._post, self._node, self._name, self._programs, now, replicas=self._replicas
        )
        office.on_result = self.on_result
        if self.record is not None:
            office.record(self.record)
        self._offices[master.job.app_id] = office
        self._logs.pop(master.job.app_id, None)
        announcement = office.announcing.announcement()
        self._announcements.hear(announcement, now)
        self._parts.hear(announcement, now)
        self._announce(now)
        office.tick(now)

    def announced(self, announce: Announce, now: float) -> None:
        """Deposes this agent's master of a job if another announces it with a higher epoch."""
        office = self._offices.get(announce.app_id)
        if office is not None and announce.epoch > office.master.epoch:
            office.depose(now)
            del self._offices[announce.app_id]
            self._parts.depose(announce.app_id)

    def resign(self, now: float) -> None:
        """Hands every job over to another agent, if there is one."""
        for office in self._offices.values():
            office.resign(now)

    @property
    def is_vacant(self) -> bool:
        """Whether no master is left here that another agent could be instead."""
        return not self._node.neighbours(1) or all(office.ended for office in self._offices.values())

    def close(self, app_id: Id, _now: float) -> None:
        """Takes a master whose job is over from its tree; it stays a little to answer subscribers."""
        self._parts.depose(app_id)

    def failed(self, peer: Peer, now: float) -> None:
        """Has all masters wait for an agent no longer: it is dead."""
        for office in self._offices.values():
            office.write_off(peer.node_id, now)

    def _announce(self, now: float) -> None:
        """Announces to the fleet the jobs whose time has come, together with those whose time is near."""
        living = [office for office in self._offices.values() if office.ended is None]
        if not any(office.announcing.is_due(now) for office in living):
            return
        jobs: list[Announce] = []
        for office in living:
            if office.announcing.is_due(now, TOGETHER_S):
                jobs.append(office.announcing.next(now))
                if len(jobs) == BULLETIN_MAX or sum(len(job.text) for job in jobs) > BATCH_CHARACTERS:
                    self._publish(jobs, now)
                    jobs = []
        self._publish(jobs, now)

    def _publish(self, jobs: list[Announce], now: float) -> None:
        if len(jobs) == 1:
            self._post.multicast(FLEET_GROUP, jobs[0], now)
        elif jobs:
            self._post.multicast(FLEET_GROUP, AnnouncementBatch(FLEET_GROUP, jobs), now)

    def tick(self, now: float) -> None:
        self._announce(now)
        for app_id, office in list(self._offices.items()):
            office.tick(now)
            if office.ended is None:
                self._announcements.refresh(app_id, now)
            if office.has_lingered(now):
                self._keep_log(office)
                del self._offices[app_id]

    def _keep_log(self, office: JobMaster) -> None:
        """Keeps the log of a job that is over, to be read for a while."""
        self._logs[office.master.job.app_id] = (office.master.job.name, office.log)
        while len(self._logs) > LOGS_MAX:
            del self._logs[next(iter(self._logs))]

    # Requests to masters.

    def receive(self, message: Enrol | Ready | VersionPrepared | Leave | Replicated, sender: Peer, now: float) -> bool:
        """Gives a message to the master in office; False if it is not here, or does not know the sender."""
        office = self._offices.get(message.app_id)
        if office is None or office.master.epoch != message.epoch or office.ended is not None:
            return False
        match message:
            case Enrol():
                return office.enrol(sender, message, now)
            case Ready():
                return office.acknowledge(sender, message, now)
            case VersionPrepared():
                return office.prepared(sender, message, now)
            case Leave():
                return office.dismiss(sender, message, now)
            case _:
                office.replicated(sender, message, now)
                return True

    def follow(self, message: Follow, sender: Peer, now: float) -> None:
        """Subscribes an agent to a job's results."""
        office = self._offices.get(message.app_id)
        if office is None:
            self._post.send(sender, NoJob(message.app_id), now)
        else:
            office.follow(sender, message, now)

    def answer(self, message: Ask, requested: Requested, now: float) -> None:
        """Answers a request for a job's last results."""
        office = self._offices.get(message.app_id)
        self._post.respond(requested, NoJob(message.app_id) if office is None else office.answer(message), now)

    def tell_log(self, message: LogRequest, requested: Requested, now: float) -> None:
        """Answers a request for a job's log."""
        office, kept = self._offices.get(message.app_id), self._logs.get(message.app_id)
        if office is not None:
            kept = (office.master.job.name, office.log)
        answer = NoJob(message.app_id) if kept is None else kept[1].answer(message.app_id, kept[0], message.lines)
        self._post.respond(requested, answer, now)

    def hear_code(self, message: LogLines | CannotRun | ProgramFailed, sender: Peer, now: float) -> bool:
        """Gives a message of a job's code, or on its failure, to the master; False if it is not here."""
        office = self._offices.get(message.app_id)
        if office is None or office.master.epoch != message.epoch:
            return False
        match message:
            case LogLines():
                return office.told(sender, message)
            case CannotRun():
                return office.unable(sender, message)
            case ProgramFailed():
                return office.broken(sender, message, now)

    def change(self, app_id: Id, name: str, now: float, wall_ms: int, *, reset: bool) -> str | None:
        """Switches a job to another of its functions for its own code; the fault in the request, if any."""
        office = self._offices.get(app_id)
        if office is None:
            return None
        bundle = office.master.versions.newest.version.bundle
        function = bundle.contents.function(name) if bundle is not None else None
        if function is None or bundle is None:
            return f"update: the job has no query {name} in its queries"
        update = Update(app_id, function.plan, function.text, reset, wall_ms, bundle)
        office.update(self._node.peer, update, now)
        return None

    def updated(self, message: Updated, _sender: Peer, _now: float) -> None:
        """Notes the outcome of an update that the job's own code wanted."""
        office = self._offices.get(message.app_id)
        if office is not None and message.refusal is not None:
            office.note(f"update: {message.refusal}")

    def unfollow(self, message: Unfollow, sender: Peer, _now: float) -> None:
        if (office := self._offices.get(message.app_id)) is not None:
            office.followers.unfollow(sender, message.reader)

    def update(self, message: Update, sender: Peer, now: float) -> None:
        """Updates a job, if the requester may."""
        office = self._offices.get(message.app_id)
        if office is None:
            self._post.send(sender, NoJob(message.app_id), now)
            return
        try:
            before = office.master.versions.newest.version.bundle
            self._code.vet_next(message.app_id, office.master.job.name, before, message.bundle)
        except NotAuthorizedError as error:
            self._post.send(sender, Updated(message.app_id, message.updated_ms, str(error)), now)
        else:
            office.update(sender, message, now)

    def stop(self, message: Stop, sender: Peer, now: float) -> None:
        """Ends a job, if the requester may."""
        office = self._offices.get(message.app_id)
        if office is None:
            self._post.send(sender, StopAnswer(message.app_id, found=False), now)
            return
        refusal = None
        try:
            self._code.vet_stop(message.app_id, office.master.job.name, message.seal, owned=bool(office.master.creator))
            office.stop(now)
        except NotAuthorizedError as error:
            refusal = str(error)
        self._post.send(sender, StopAnswer(message.app_id, True, refusal), now)
