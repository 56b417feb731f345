"""What an agent has asked of masters for its clients, and has no answer to yet: to start, change or stop a job."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

import query
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import unreadable
from agent.runtime.messages.jobs import NoJob, Stop, StopAnswer, Submit, Submitted, Update, Updated
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.bundle import Signature
from agent.runtime.requests.notices import (
    Accepted,
    CoreEvent,
    StopAnswered,
    SubmitRefused,
    UpdateAnswered,
    UpdateRefused,
)
from overlay import Id

OPEN_MAX = 256
REPEAT_S = 1.0
PATIENCE_S = 10.0
STOP_PATIENCE_S = 10.0
NO_ANSWER = "no agent answered for the job within 10 s: the fleet may be changing, try again"
UPDATING = "the job is being updated through this agent at this moment: try again"
TOO_MANY = f"this agent waits for the answers to {OPEN_MAX} requests already: try again"


@dataclass(slots=True)
class _Open:
    message: Submit | Update | Stop
    columns: tuple[str, ...]
    asked_at: float
    begun_at: float


class JobCommands:
    """Submissions, updates and stops, repeated until they are answered or have waited for too long."""

    def __init__(self, post: MessageSender, announcements: JobDirectory, notices: list[CoreEvent]) -> None:
        self._post = post
        self._announcements = announcements
        self._notices = notices
        self._submitted: dict[Id, _Open] = {}
        self._updating: dict[Id, _Open] = {}
        self._stopping: dict[Id, _Open] = {}

    def submit(self, job: Submit, now: float, wall_ms: int) -> None:
        """Asks for a job to be started."""
        try:
            plan = query.Plan.from_wire(job.plan)
            self._check_apps(plan, job.name)
        except query.PlanError as error:
            self._notices.append(SubmitRefused(job.app_id, str(error), unavailable=False))
            return
        drives = job.bundle is not None and job.bundle.contents.drives
        bounded = job.bounded or (plan.window_ms is None and not drives)
        # A window of another job that is out is out: nothing of it comes late.
        grace_ms = job.grace_ms if plan.app is None else 0
        job = msgspec.structs.replace(job, bounded=bounded, submitted_ms=max(0, wall_ms), grace_ms=grace_ms)
        columns = tuple(query.output_names(plan))
        if len(self._submitted) >= OPEN_MAX:
            self._notices.append(SubmitRefused(job.app_id, TOO_MANY, unavailable=True))
            return
        self._submitted[job.app_id] = _Open(job, columns, now, now)
        self._post.route(job, now)

    def _check_apps(self, plan: query.Plan, own_name: str | None) -> None:
        if (refusal := unreadable(plan, own_name, self._announcements.all())) is not None:
            raise query.PlanError(refusal)

    def update(self, update: Update, now: float, wall_ms: int) -> None:
        """Asks for a job to compute something else; one such request of a job at a time."""
        update = msgspec.structs.replace(update, updated_ms=max(0, wall_ms))
        known = self._announcements.get(update.app_id)
        try:
            self._check_apps(query.Plan.from_wire(update.plan), known.name if known else None)
        except query.PlanError as error:
            self._notices.append(UpdateRefused(update.app_id, str(error), "usage"))
            return
        if len(self._updating) >= OPEN_MAX or update.app_id in self._updating:
            busy = TOO_MANY if update.app_id not in self._updating else UPDATING
            self._notices.append(UpdateRefused(update.app_id, busy, "unavailable"))
            return
        self._updating[update.app_id] = _Open(update, (), now, now)
        self._send(update, now)

    def stop(self, app_id: Id, seal: Signature | None, now: float) -> None:
        """Asks for a job to be stopped; the seal is its creator's word for that."""
        if len(self._stopping) >= OPEN_MAX:
            self._notices.append(StopAnswered(app_id, found=False))
            return
        self._stopping[app_id] = _Open(Stop(app_id, seal), (), now, now)
        self._send(Stop(app_id, seal), now)

    def is_open(self, app_id: Id) -> bool:
        """Whether a job has been submitted here and not yet accepted."""
        return app_id in self._submitted

    @property
    def is_empty(self) -> bool:
        return not (self._submitted or self._updating or self._stopping)

    def answered(self, message: Submitted) -> bool:
        """A master answers a submission; whether the job runs."""
        request = self._submitted.get(message.app_id)
        if request is None or not isinstance(request.message, Submit):
            return False
        job = request.message
        if job.submitted_ms != message.submitted_ms:
            return False
        del self._submitted[job.app_id]
        if message.refusal is not None:
            self._notices.append(SubmitRefused(job.app_id, message.refusal, unavailable=False))
            return False
        self._notices.append(Accepted(job.app_id, job.name, job.text, job.stream, request.columns, job.bounded))
        return True

    def updated(self, message: Updated) -> bool:
        """A master answers an update; whether it was asked for by a client."""
        request = self._updating.get(message.app_id)
        if request is None or not isinstance(request.message, Update):
            return False
        if request.message.updated_ms != message.updated_ms:
            return False
        del self._updating[message.app_id]
        if message.refusal is not None:
            self._notices.append(UpdateRefused(message.app_id, message.refusal, "usage"))
            return True
        counts = (message.agents, message.expected, tuple(message.laggards))
        self._notices.append(UpdateAnswered(message.app_id, message.version, message.starts, *counts))
        return True

    def no_job(self, message: NoJob) -> None:
        """The node that is closest to the appId has never heard of the job."""
        if self._announcements.get(message.app_id) is None and self._updating.pop(message.app_id, None) is not None:
            self._notices.append(UpdateRefused(message.app_id, "", "unknown"))

    def stopped(self, message: StopAnswer) -> None:
        """A master, or who stands in its place, answers a stop."""
        unknown = self._announcements.get(message.app_id) is None
        if (message.found or unknown) and self._stopping.pop(message.app_id, None) is not None:
            self._notices.append(StopAnswered(message.app_id, message.found, message.refusal))

    def tick(self, now: float) -> list[Id]:
        """Repeats what has no answer; the submissions that are given up."""
        for app_id, request in list(self._stopping.items()):
            if now - request.begun_at > STOP_PATIENCE_S:
                del self._stopping[app_id]
                self._notices.append(StopAnswered(app_id, found=False))
        for app_id in [app_id for app_id, one in self._updating.items() if now - one.begun_at > PATIENCE_S]:
            del self._updating[app_id]
            self._notices.append(UpdateRefused(app_id, NO_ANSWER, "unavailable"))
        given_up = [app_id for app_id, one in self._submitted.items() if now - one.begun_at > PATIENCE_S]
        for app_id in given_up:
            del self._submitted[app_id]
            self._notices.append(SubmitRefused(app_id, NO_ANSWER, unavailable=True))
        for request in (*self._submitted.values(), *self._updating.values(), *self._stopping.values()):
            if now - request.asked_at >= REPEAT_S:
                request.asked_at = now
                self._send(request.message, now)
        return given_up

    def _send(self, message: Submit | Update | Stop, now: float) -> None:
        """To the master where one is known to be in office, else to where one should be."""
        known = self._announcements.get(message.app_id)
        if not isinstance(message, Submit) and known is not None:
            self._post.send(known.master, message, now)
        else:
            self._post.route(message, now)
