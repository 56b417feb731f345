"""Deploys a job's function on this agent: enrolment, version rollout, code loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

import query
from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.ingest.feed import Feed, clauses_of, feeds_of_types, feeds_of_worker
from agent.runtime.ingest.pipelines import columns_read
from agent.runtime.job.code import CannotRunError, CodeRegistry
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Program, Programs
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Enrolled
from agent.runtime.messages.programs import CannotRun
from agent.runtime.messages.sender import MessageSender
from agent.runtime.messages.versions import AbortVersion, ActivateVersion, PrepareVersion, Version, VersionPrepared
from agent.runtime.model.panes import FIRST_PANE
from overlay import Peer

TOO_MANY_REGEXES = "the regular expressions and LIKE patterns of its other queries leave no room for those of this one"


class Deployments:
    """Deploys the functions of all local jobs of the agent `agent_name`."""

    name = "deployments"

    def __init__(
        self,
        agent_name: str,
        sender: MessageSender,
        jobs: LocalJobs,
        directory: JobDirectory,
        programs: Programs,
        code: CodeRegistry,
    ) -> None:
        self.refused = 0
        self._name = agent_name
        self._sender = sender
        self._jobs = jobs
        self._directory = directory
        self._programs = programs
        self._code = code

    def handlers(self) -> Handlers:
        return {
            Enrolled: Handler(Via.DIRECT, self._enrolled),
            PrepareVersion: Handler(Via.JOB, self.change),
            ActivateVersion: Handler(Via.JOB, self.change),
            AbortVersion: Handler(Via.JOB, self.change),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused}

    def _enrolled(self, message: Enrolled, sender: Peer, now: float) -> bool:
        return self.install(message, sender, now, self._programs.wall_ms)

    def install(self, message: Enrolled, sender: Peer, now: float, wall_ms: int) -> bool:
        """Takes the function from the master, once its code is loaded; False if the sender is not the job's master, or
        the job's creator has not signed the function."""
        job = self._jobs.get(message.app_id)
        if job is None or not job.is_needed or message.epoch != job.epoch or sender.node_id != job.epoch.master:
            return False
        try:
            self._code.authorize(job.app_id, message.job.name, (one.bundle for one in message.versions))
            self._check_regexes(job, message)
            is_there = all(self._code.is_there(job, message.job.name, one.bundle) for one in message.versions)
        except (NotAuthorizedError, CannotRunError) as error:
            return self._install_without_working(job, message, sender, str(error), now, wall_ms)
        if not is_there:
            job.await_code(message, sender)
            return True
        job.pending = None
        self._code.keep(job, message.versions, job.versions.proposed_code if job.versions is not None else None)
        return self._install(job, message, sender, now, wall_ms)

    def _check_regexes(self, job: LocalJob, message: Enrolled) -> None:
        """Raises CannotRunError if there is no room for the regular expressions of a new worker."""
        is_new = message.number is not None and job.number is None
        size = max(query.regex_size(one.plan) for one in message.versions)
        if is_new and not self._jobs.has_regex_room(size):
            raise CannotRunError(TOO_MANY_REGEXES)

    def _install_without_working(
        self, job: LocalJob, message: Enrolled, sender: Peer, reason: str, now: float, wall_ms: int
    ) -> bool:
        """Still combines the children's runs: plans do no harm, and there may be no other way to the root."""
        self._report_unable(job, message, reason, now, wall_ms)
        self._jobs.work_no_more(job, now)
        if not job.is_needed or job.root is not None:
            return True
        return self._install(job, msgspec.structs.replace(message, number=None), sender, now, wall_ms)

    def _install(self, job: LocalJob, message: Enrolled, sender: Peer, now: float, wall_ms: int) -> bool:
        if not job.is_installed:
            try:
                job.install(message)
            except query.PlanError as error:  # of a later release, say
                self._report_unable(job, message, str(error), now, wall_ms)
                self._jobs.work_no_more(job, now)
                self.refused += 1
                return True
            # Not earlier: parents would wait for an agent that sends nothing yet.
            self._jobs.join_trees(job, now)
        else:
            self._begin(job, message.versions, now)
        if message.number is not None and job.works and job.number is None:
            # If the job reads another job's results, that job and not the clock sets the first complete pane.
            begun_ms = FIRST_PANE if job.reads_app else wall_ms
            self._sender.send(sender, job.start_working(message, self._feeds_of(job, message), begun_ms), now)
            self._jobs.await_feeds(job)
            self._jobs.on_working(job, message.job, now)
        elif message.number is not None and job.has_departed and message.number != job.number:
            self._sender.send(sender, job.renumber(message.number), now)
        if job.program is not None:
            job.program.version = message.versions[-1].number
        self._jobs.advance(job, now)
        return True

    def _feeds_of(self, job: LocalJob, message: Enrolled) -> list[Feed]:
        """The feeds of a new worker."""
        assert job.versions is not None
        about = job.program.about if job.program is not None else None
        columns, app = partial(columns_read, job.versions, about), job.versions.newest.function.plan.app
        plan = job.versions.newest.function.plan
        if plan.reads_types:
            names = plan.types or [one["name"] for one in (plan.elements or {})["types"]]
            types = [name for name in names if query.selects(plan.stream, name)]
            return feeds_of_types(job.app_id, columns, types, bounded=message.job.bounded)
        streams = self._jobs.streams_of(message.job.stream)
        ingest, paced = self._jobs.ingest, job.versions.newest.function.self_paced
        # What a job's code makes of events may match where they do not.
        clauses = () if paced or job.program is not None else clauses_of(job.versions.newest.function.plan)
        memory = None if paced else ingest.memory
        return feeds_of_worker(message, app, columns, streams, ingest.demand.all(), memory, clauses)

    def change(self, message: PrepareVersion | ActivateVersion | AbortVersion, now: float) -> bool:
        """Prepares, activates or withdraws a further version of a job's function."""
        job = self._jobs.get(message.app_id)
        if job is None or message.epoch != job.epoch or not job.is_installed:
            return job is None or message.epoch == job.epoch
        match message:
            case PrepareVersion():
                self._prepare(job, message, now)
            case ActivateVersion():
                return self._activate(job, message, now)
            case AbortVersion():
                job.withdraw(message.version)
        return True

    def _prepare(self, job: LocalJob, message: PrepareVersion, now: float) -> None:
        try:
            name = self._name_of(job)
            before = job.versions.newest.version.bundle if job.versions is not None else None
            self._code.authorize_update(job.app_id, name, before, message.bundle)
            job.prepare(message)
            self._code.is_there(job, name, message.bundle)
        except (query.PlanError, NotAuthorizedError, CannotRunError) as error:
            if job.is_on_roster and job.number is not None and job.epoch is not None:
                refusal = VersionPrepared(job.app_id, job.epoch, job.number, message.version, FIRST_PANE, str(error))
                self._jobs.send_to_master(job, refusal, now)
        else:
            self._jobs.await_feeds(job)
            self._jobs.send_prepared(job, now)

    def _activate(self, job: LocalJob, message: ActivateVersion, now: float) -> bool:
        """Puts versions in force; False if the job's creator has not signed them. An agent that has not loaded the code
        of one, as it has just come, enrols again: it gets them once their code is loaded."""
        name, new = self._name_of(job), [one.bundle for one in message.versions if one.number > job.version]
        try:
            self._code.authorize(job.app_id, name, (one.bundle for one in message.versions))
            is_there = all(self._code.is_there(job, name, bundle) for bundle in new)
        except NotAuthorizedError:
            return False
        except CannotRunError:
            is_there = False
        if not is_there:
            self._jobs.enrol_again(job, now)
        elif not self._begin(job, message.versions, now) and job.is_on_roster:
            self._jobs.send_to_master(job, job.ready_message(), now)
        return True

    def _begin(self, job: LocalJob, versions: Sequence[Version], now: float) -> bool:
        """Puts versions in force; reports to the master if any is new here."""
        try:
            is_new = job.begin(versions)
        except query.PlanError:
            self.refused += 1
            return False
        if is_new:
            if job.versions is not None:
                self._code.keep(job, job.versions.all())
            if job.program is not None:
                job.program.version = job.version
            if job.is_on_roster:
                self._jobs.send_to_master(job, job.ready_message(), now)
            self._jobs.advance(job, now)
        return is_new

    def _name_of(self, job: LocalJob) -> str:
        if job.program is not None:
            return job.program.app
        known = self._directory.get(job.app_id)
        return known.name if known is not None else ""

    # Code.

    def code_loaded(self, job: LocalJob, now: float, wall_ms: int) -> None:
        """Installs the function, or reports the version as prepared, that waited for this code."""
        if job.pending is not None:
            message, sender = job.pending
            self.install(message, sender, now, wall_ms)
        self._jobs.send_prepared(job, now)

    def code_refused(self, job: LocalJob, program: Program, now: float) -> bool:
        """Reports to the master that code cannot be loaded here; False if the job cannot continue without it."""
        assert job.epoch is not None
        if job.versions is not None and job.versions.proposed_code == program.digest and job.number is not None:
            refusal = program.failure or ""
            proposed = job.versions.proposed or 0
            message = VersionPrepared(job.app_id, job.epoch, job.number, proposed, FIRST_PANE, refusal)
            self._jobs.send_to_master(job, message, now)
            return True
        if job.pending is not None and job.root is None:
            enrolled, master = job.pending
            reason = program.failure or ""
            self._install_without_working(job, enrolled, master, reason, now, self._programs.wall_ms)
            return True
        return False

    def _report_unable(self, job: LocalJob, message: Enrolled, reason: str, now: float, wall_ms: int) -> None:
        job.pending = None
        if message.number is None or job.epoch is None:
            return
        plan_ms = message.versions[-1].plan.get("window_ms")
        pane_ms = plan_ms if isinstance(plan_ms, int) and plan_ms > 0 else 1
        first_pane = FIRST_PANE if message.job.bounded else (wall_ms // pane_ms + 1) * pane_ms
        unable = CannotRun(job.app_id, job.epoch, self._name, message.number, first_pane, reason[:TEXT_CHARACTERS_MAX])
        self._jobs.send_to_master(job, unable, now)
