"""Requests to masters on behalf of this agent's clients: to start, update or stop a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

import query
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import unreadable
from agent.runtime.function.versions import FunctionCache
from agent.runtime.messages.client_events import Accepted
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import NoJob, Stop, StopAnswer, Submit, Submitted, Update, Updated
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.bundle import Signature
from agent.runtime.requests.events import StopReply, SubmitRefused, SubmitReply, UpdateRefused, UpdateReply
from agent.runtime.requests.following import JobSubscriptions
from overlay import Id

OPEN_MAX = 256
REPEAT_S = 1.0
"""Delay before an unanswered request is sent again."""
TIMEOUT_S = 10.0
NO_ANSWER = "no agent answered for the job within 10 s: the fleet may be changing, try again"
UPDATING = "the job is being updated through this agent at this moment: try again"
TOO_MANY = f"this agent waits for the answers to {OPEN_MAX} requests already: try again"


@dataclass(slots=True)
class _Submission:
    message: Submit
    reply: Callable[[SubmitReply], None]
    columns: tuple[str, ...]
    begun_at: float
    sent_at: float


@dataclass(slots=True)
class _Updating:
    message: Update
    reply: Callable[[UpdateReply], None]
    begun_at: float
    sent_at: float


@dataclass(slots=True)
class _Stopping:
    message: Stop
    replies: list[Callable[[StopReply], None]]
    begun_at: float
    sent_at: float


class JobCommands:
    """Repeats submissions, updates and stops until they are answered or time out; each reply is called once."""

    name = "commands"

    def __init__(
        self, sender: MessageSender, directory: JobDirectory, following: JobSubscriptions, functions: FunctionCache
    ) -> None:
        self._functions = functions
        self._sender = sender
        self._directory = directory
        self._following = following
        self._submissions: dict[Id, _Submission] = {}
        self._updates: dict[Id, _Updating] = {}
        self._stops: dict[Id, _Stopping] = {}

    def handlers(self) -> Handlers:
        return {
            Submitted: Handler(Via.DIRECT, self._submitted),
            Updated: Handler(Via.DIRECT, self._updated),
            StopAnswer: Handler(Via.DIRECT, self._stopped),
            NoJob: Handler(Via.DIRECT, self._no_job),
        }

    def submit(self, job: Submit, reply: Callable[[SubmitReply], None], now: float, wall_ms: int) -> None:
        """Starts a job, on whichever agent its master will be."""
        try:
            plan = self._functions.plan(job.plan)
            self._check_apps(plan, job.name)
        except query.PlanError as error:
            reply(SubmitRefused(job.app_id, str(error), unavailable=False))
            return
        if len(self._submissions) >= OPEN_MAX:
            reply(SubmitRefused(job.app_id, TOO_MANY, unavailable=True))
            return
        self_paced = job.bundle is not None and job.bundle.contents.drives
        bounded = job.bounded or (plan.window_ms is None and not self_paced)
        # Another job's published windows are final: nothing of them comes late.
        grace_ms = job.grace_ms if plan.app is None else 0
        if plan.elements is not None and query.keyed_stream(plan) is None:
            # The elements of its types do not wait, unless the query says so.
            stated = None if plan.windowing is None else plan.windowing.grace_ms
            grace_ms = stated or 0
        job = msgspec.structs.replace(job, bounded=bounded, submitted_ms=max(0, wall_ms), grace_ms=grace_ms)
        self._submissions[job.app_id] = _Submission(job, reply, tuple(query.output_names(plan)), now, now)
        self._following.expect(job.app_id)
        self._sender.route(job, now)

    def _check_apps(self, plan: query.Plan, own_name: str | None) -> None:
        if (refusal := unreadable(plan, own_name, self._directory.all())) is not None:
            raise query.PlanError(refusal)

    def update(self, update: Update, reply: Callable[[UpdateReply], None], now: float, wall_ms: int) -> None:
        """Updates a job's function from a later window on; a job has one such request at a time."""
        update = msgspec.structs.replace(update, updated_ms=max(0, wall_ms))
        known = self._directory.get(update.app_id)
        try:
            self._check_apps(self._functions.plan(update.plan), known.name if known else None)
        except query.PlanError as error:
            reply(UpdateRefused(update.app_id, str(error), "usage"))
            return
        if len(self._updates) >= OPEN_MAX or update.app_id in self._updates:
            busy = TOO_MANY if update.app_id not in self._updates else UPDATING
            reply(UpdateRefused(update.app_id, busy, "unavailable"))
            return
        self._updates[update.app_id] = _Updating(update, reply, now, now)
        self._send(update, now)

    def stop(
        self,
        app_id: Id,
        reply: Callable[[StopReply], None],
        now: float,
        signature: Signature | None = None,
        *,
        by: str = "",
    ) -> None:
        """Ends a job everywhere; `signature` is its creator's signature of the order, if it has a creator.

        `by`: only if it is this owner's.
        """
        if len(self._stops) >= OPEN_MAX:
            reply(StopAnswer(app_id, found=False))
            return
        pending, message = self._stops.get(app_id), Stop(app_id, signature, by)
        if pending is not None and by and not pending.message.by:
            message = pending.message  # of somebody who may stop anybody's jobs
        waiting = pending.replies if pending is not None else []
        self._stops[app_id] = _Stopping(message, [*waiting, reply], now, now)
        self._send(message, now)

    @property
    def is_empty(self) -> bool:
        return not (self._submissions or self._updates or self._stops)

    def _submitted(self, message: Submitted, _sender: object, now: float) -> None:
        """Takes a master's answer to a submission."""
        request = self._submissions.get(message.app_id)
        if request is None or request.message.submitted_ms != message.submitted_ms:
            if message.refusal is not None and request is None:
                self._following.drop_new(message.app_id)
            return
        job = request.message
        del self._submissions[job.app_id]
        if message.refusal is not None:
            self._following.drop_new(job.app_id)
            request.reply(SubmitRefused(job.app_id, message.refusal, unavailable=False))
        else:
            request.reply(Accepted(job.name, job.text, list(request.columns), job.bounded))
            self._following.started(job.app_id, now)

    def _updated(self, message: Updated, _sender: object, _now: float) -> bool:
        """Takes a master's answer to an update; False if no client has requested it."""
        request = self._updates.get(message.app_id)
        if request is None or request.message.updated_ms != message.updated_ms:
            return False
        del self._updates[message.app_id]
        if message.refusal is not None:
            request.reply(UpdateRefused(message.app_id, message.refusal, "usage"))
        else:
            request.reply(message)
        return True

    def _no_job(self, message: NoJob, _sender: object, _now: float) -> None:
        """Takes the answer that the node closest to the appId does not know the job."""
        if self._directory.get(message.app_id) is None and message.app_id in self._updates:
            self._updates.pop(message.app_id).reply(UpdateRefused(message.app_id, "", "unknown"))

    def _stopped(self, message: StopAnswer, _sender: object, _now: float) -> None:
        """Takes the answer to a stop, from the master or from the node in its place."""
        is_unknown = self._directory.get(message.app_id) is None
        if (message.found or is_unknown) and message.app_id in self._stops:
            for reply in self._stops.pop(message.app_id).replies:
                reply(message)

    def tick(self, now: float) -> None:
        """Repeats unanswered requests and gives up old ones."""
        for app_id in _overdue(self._stops, now):
            for reply in self._stops.pop(app_id).replies:
                reply(StopAnswer(app_id, found=False))
        for app_id in _overdue(self._updates, now):
            self._updates.pop(app_id).reply(UpdateRefused(app_id, NO_ANSWER, "unavailable"))
        for app_id in _overdue(self._submissions, now):
            submission = self._submissions.pop(app_id)
            self._following.drop_new(app_id)
            submission.reply(SubmitRefused(app_id, NO_ANSWER, unavailable=True))
        requests: tuple[_Submission | _Updating | _Stopping, ...] = (
            *self._submissions.values(),
            *self._updates.values(),
            *self._stops.values(),
        )
        for request in requests:
            if now - request.sent_at >= REPEAT_S:
                request.sent_at = now
                self._send(request.message, now)

    def _send(self, message: Submit | Update | Stop, now: float) -> None:
        """Sends to the job's master if it is known, else routes to the node that should be its master."""
        known = self._directory.get(message.app_id)
        if not isinstance(message, Submit) and known is not None:
            self._sender.send(known.master, message, now)
        else:
            self._sender.route(message, now)

    def statistics(self) -> Mapping[str, int]:
        return {"submissions": len(self._submissions), "updates": len(self._updates), "stops": len(self._stops)}


def _overdue(requests: Mapping[Id, _Submission | _Updating | _Stopping], now: float) -> list[Id]:
    return [app_id for app_id, request in requests.items() if now - request.begun_at > TIMEOUT_S]
