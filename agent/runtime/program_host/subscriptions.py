"""Follows other jobs for programs that get their windows: jobs to which a program subscribes, and its own stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from agent.programs.calls import WindowPublished
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import AmbiguousNameError, app_of, stage_app
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Program, Programs
from agent.runtime.messages.client_events import Ended, JobEvent, PublishedWindow
from agent.runtime.model.containment import JobContainment
from agent.runtime.requests.following import EventSink, JobSubscriptions
from overlay import Id

SUBSCRIPTIONS_MAX = 256
TOO_MANY = f"this agent's programs follow {SUBSCRIPTIONS_MAX} jobs already"


@dataclass(slots=True)
class _Subscription:
    """One followed job. `programs`: the keys of the programs that get its windows, each with the name of the job as a
    stage of the program's own job, "" if it is none. `sink` gets the job's events.
    """

    app: str
    sink: EventSink
    programs: dict[int, str] = field(default_factory=dict)
    last_pane: int | None = None


class ProgramSubscriptions:
    """The subscriptions of all programs of one agent."""

    name = "program_subscriptions"

    def __init__(
        self,
        following: JobSubscriptions,
        directory: JobDirectory,
        programs: Programs,
        jobs: LocalJobs,
        containment: JobContainment,
    ) -> None:
        self._containment = containment
        self._following = following
        self._directory = directory
        self._programs = programs
        self._jobs = jobs
        self._subscriptions: dict[Id, _Subscription] = {}
        self._events: list[tuple[Id, JobEvent]] = []

    def subscribe(self, program: Program, app: str, now: float) -> str | None:
        """Gives a program the windows of a job from now on; returns the reason if this is impossible."""
        try:
            app_id = app_of(app, self._directory.all())
        except AmbiguousNameError as error:
            return f"subscribe: {error}"
        subscription = self._subscription(app_id, app, now)
        if subscription is None:
            return f"subscribe: {TOO_MANY}"
        subscription.programs.setdefault(program.key, "")
        return None

    def follow_stage(self, program: Program, stage: str, app_id: Id, now: float) -> str | None:
        """Gives a program the windows of a stage of its job, under the stage's name; may be repeated."""
        subscription = self._subscription(app_id, stage_app(program.app, stage), now)
        if subscription is None:
            return TOO_MANY
        subscription.programs[program.key] = stage
        return None

    def _subscription(self, app_id: Id, app: str, now: float) -> _Subscription | None:
        """The subscription to a job; None if there are too many."""
        if app_id in self._subscriptions:
            return self._subscriptions[app_id]
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            return None
        subscription = self._subscriptions[app_id] = _Subscription(app, partial(self._queue, app_id))
        self._following.join(app_id, subscription.sink, now)
        return subscription

    def _queue(self, app_id: Id, event: JobEvent) -> None:
        self._events.append((app_id, event))

    def deliver(self, now: float) -> None:
        """Gives programs the windows that have arrived, and unfollows jobs for programs that have ended."""
        events, self._events = self._events, []
        for app_id, event in events:
            subscription = self._subscriptions.get(app_id)
            if subscription is None:
                continue
            match event:
                case PublishedWindow(pane=pane, result=result):
                    if subscription.last_pane is None or pane > subscription.last_pane:
                        subscription.last_pane = pane
                        self._publish(subscription, bytes(result), now)
                case Ended():
                    del self._subscriptions[app_id]
        self._let_go(now)

    def _publish(self, subscription: _Subscription, json: bytes, now: float) -> None:
        for key, stage in subscription.programs.items():
            program = self._programs.get(key)
            if program is not None and self._may_get(program, stage):
                with self._containment.around(program.app_id, now):
                    place = self._programs.place(program)
                    self._programs.call(program, WindowPublished(place, subscription.app, json, stage))

    def _may_get(self, program: Program, stage: str) -> bool:
        """Whether a program is at a root; a stage's windows only go to the code of the newest version."""
        job = self._jobs.get(program.app_id)
        return program.is_root and (not stage or (job is not None and job.program is program))

    def _let_go(self, now: float) -> None:
        """Unfollows jobs for programs that have ended, or are no longer at a root."""
        for app_id, subscription in list(self._subscriptions.items()):
            subscription.programs = {
                key: stage
                for key, stage in subscription.programs.items()
                if (program := self._programs.get(key)) is not None and self._may_get(program, stage)
            }
            if not subscription.programs:
                del self._subscriptions[app_id]
                self._following.unfollow(app_id, subscription.sink, now)

    def statistics(self) -> Mapping[str, int]:
        return {"followed": len(self._subscriptions)}
