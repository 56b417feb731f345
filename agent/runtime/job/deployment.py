"""How parts come by their job's function: what the master says, its versions, and the code that goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

import query
from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.ingest.feed import Feed, feeds_of_worker
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


class Deployments:
    """Of all parts of one agent, whose `agent_name` this is."""

    name = "deployments"

    def __init__(
        self,
        agent_name: str,
        post: MessageSender,
        parts: LocalJobs,
        announcements: JobDirectory,
        programs: Programs,
        code: CodeRegistry,
    ) -> None:
        self.refused = 0
        self._name = agent_name
        self._post = post
        self._parts = parts
        self._announcements = announcements
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
        """Takes the function from the master, as soon as its code is there; False if it is not from the one in office,
        or not what the job's creator has signed."""
        part = self._parts.get(message.app_id)
        if part is None or not part.is_needed or message.epoch != part.epoch or sender.node_id != part.epoch.master:
            return False
        try:
            self._code.vet(part.app_id, message.job.name, (one.bundle for one in message.versions))
            is_there = all(self._code.is_there(part, message.job.name, one.bundle) for one in message.versions)
        except (NotAuthorizedError, CannotRunError) as error:
            return self._install_without_working(part, message, sender, str(error), now, wall_ms)
        part.pending = None if is_there else (message, sender)
        if not is_there:
            return True
        self._code.keep(part, message.versions, part.versions.proposed_code if part.versions is not None else None)
        return self._install(part, message, sender, now, wall_ms)

    def _install_without_working(
        self, part: LocalJob, message: Enrolled, sender: Peer, reason: str, now: float, wall_ms: int
    ) -> bool:
        """What children send is still combined: plans do no harm, and no other way may lead to the root."""
        self._tell_unable(part, message, reason, now, wall_ms)
        self._parts.work_no_more(part, now)
        if not part.is_needed or part.root is not None:
            return True
        return self._install(part, msgspec.structs.replace(message, number=None), sender, now, wall_ms)

    def _install(self, part: LocalJob, message: Enrolled, sender: Peer, now: float, wall_ms: int) -> bool:
        if not part.is_installed:
            try:
                part.install(message)
            except query.PlanError:
                return False
            # Not earlier: in the tree, an agent that has nothing to say would be waited for.
            self._parts.join_trees(part, now)
        else:
            self._begin(part, message.versions, now)
        if message.number is not None and part.works and part.number is None:
            # Where another job's results are read, not the clock, but that job says what it will be able to know.
            begun_ms = FIRST_PANE if part.reads_app else wall_ms
            self._post.send(sender, part.start_working(message, self._feeds_of(part, message), begun_ms), now)
            self._parts.await_feeds(part)
        if part.program is not None:
            part.program.version = message.versions[-1].number
        self._parts.pass_on(part, now)
        return True

    def _feeds_of(self, part: LocalJob, message: Enrolled) -> list[Feed]:
        """What a new worker has to read."""
        assert part.versions is not None
        about = part.program.about if part.program is not None else None
        columns, app = partial(columns_read, part.versions, about), part.versions.newest.function.plan.app
        streams = self._parts.streams_of(message.job.stream)
        return feeds_of_worker(message, app, columns, streams, self._parts.ingest.demand.all())

    def change(self, message: PrepareVersion | ActivateVersion | AbortVersion, now: float) -> bool:
        """A further version of a job's function: one to make ready for, that is in force, or that will not be."""
        part = self._parts.get(message.app_id)
        if part is None or message.epoch != part.epoch or not part.is_installed:
            return part is None or message.epoch == part.epoch
        match message:
            case PrepareVersion():
                self._prepare(part, message, now)
            case ActivateVersion():
                if not self._begin(part, message.versions, now) and part.number is not None:
                    self._parts.tell_master(part, part.ready_message(), now)
            case AbortVersion():
                part.withdraw(message.version)
        return True

    def _prepare(self, part: LocalJob, message: PrepareVersion, now: float) -> None:
        try:
            name = part.program.app if part.program is not None else self._name_of(part)
            before = part.versions.newest.version.bundle if part.versions is not None else None
            self._code.vet_next(part.app_id, name, before, message.bundle)
            part.prepare(message)
            self._code.is_there(part, name, message.bundle)
        except (query.PlanError, NotAuthorizedError, CannotRunError) as error:
            if part.number is not None and part.epoch is not None:
                refusal = VersionPrepared(part.app_id, part.epoch, part.number, message.version, FIRST_PANE, str(error))
                self._parts.tell_master(part, refusal, now)
        else:
            self._parts.await_feeds(part)
            self._parts.tell_prepared(part, now)

    def _begin(self, part: LocalJob, versions: Sequence[Version], now: float) -> bool:
        """Puts versions in force, if that is news, and says so."""
        try:
            is_news = part.begin(versions)
        except query.PlanError:
            self.refused += 1
            return False
        if is_news:
            if part.versions is not None:
                self._code.keep(part, part.versions.all())
            if part.program is not None:
                part.program.version = part.version
            if part.number is not None:
                self._parts.tell_master(part, part.ready_message(), now)
            self._parts.pass_on(part, now)
        return is_news

    def _name_of(self, part: LocalJob) -> str:
        known = self._announcements.get(part.app_id)
        return known.name if known is not None else ""

    # The code that goes with it.

    def code_loaded(self, part: LocalJob, now: float, wall_ms: int) -> None:
        """Code is there that was waited for."""
        if part.pending is not None:
            message, sender = part.pending
            self.install(message, sender, now, wall_ms)
        self._parts.tell_prepared(part, now)

    def code_refused(self, part: LocalJob, program: Program, now: float) -> bool:
        """Code cannot be loaded here; whether that is the end of it: a version that was to come will not."""
        assert part.epoch is not None
        if part.versions is not None and part.versions.proposed_code == program.digest and part.number is not None:
            refusal = program.failure or ""
            proposed = part.versions.proposed or 0
            message = VersionPrepared(part.app_id, part.epoch, part.number, proposed, FIRST_PANE, refusal)
            self._parts.tell_master(part, message, now)
            return True
        if part.pending is not None and part.root is None:
            enrolled, master = part.pending
            reason = program.failure or ""
            self._install_without_working(part, enrolled, master, reason, now, self._programs.wall_ms)
            return True
        return False

    def _tell_unable(self, part: LocalJob, message: Enrolled, reason: str, now: float, wall_ms: int) -> None:
        part.pending = None
        if message.number is None or part.epoch is None:
            return
        plan_ms = message.versions[-1].plan.get("window_ms")
        pane_ms = plan_ms if isinstance(plan_ms, int) and plan_ms > 0 else 1
        first_pane = FIRST_PANE if message.job.bounded else (wall_ms // pane_ms + 1) * pane_ms
        unable = CannotRun(
            part.app_id, part.epoch, self._name, message.number, first_pane, reason[:TEXT_CHARACTERS_MAX]
        )
        self._parts.tell_master(part, unable, now)
