"""Jobs whose code gets the windows of other jobs too: of those that it subscribes to, and of its own stages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.programs.calls import WindowPublished
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import AmbiguousNameError, app_of, stage_app
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Program, Programs
from agent.runtime.requests.following import JobSubscriptions
from agent.runtime.requests.notices import Accepted, CoreEvent, Ended, Published
from overlay import Id

SUBSCRIPTIONS_MAX = 256
TOO_MANY = f"this agent's programs follow {SUBSCRIPTIONS_MAX} jobs already"


@dataclass(slots=True)
class _Subscription:
    """To one job. `programs`: who gets its windows, and as those of which stage; "" for none."""

    app: str
    programs: dict[int, str] = field(default_factory=dict)
    last_pane: int | None = None


class ProgramSubscriptions:
    """Of all programs of one agent, as followers of jobs among its clients."""

    def __init__(
        self, followings: JobSubscriptions, announcements: JobDirectory, programs: Programs, parts: LocalJobs
    ) -> None:
        self._followings = followings
        self._announcements = announcements
        self._programs = programs
        self._parts = parts
        self._subscriptions: dict[Id, _Subscription] = {}

    def __contains__(self, app_id: Id) -> bool:
        return app_id in self._subscriptions

    def subscribe(self, program: Program, app: str, now: float) -> str | None:
        """Gives a program the windows of a job from now on; what is wrong with that, if anything."""
        try:
            app_id = app_of(app, self._announcements.all())
        except AmbiguousNameError as error:
            return f"subscribe: {error}"
        subscription = self._subscription(app_id, app, now)
        if subscription is None:
            return f"subscribe: {TOO_MANY}"
        subscription.programs.setdefault(program.key, "")
        return None

    def follow_stage(self, program: Program, stage: str, app_id: Id, now: float) -> str | None:
        """The same for a stage of the program's job, under the stage's name; may be said again and again."""
        subscription = self._subscription(app_id, stage_app(program.app, stage), now)
        if subscription is None:
            return TOO_MANY
        subscription.programs[program.key] = stage
        return None

    def _subscription(self, app_id: Id, app: str, now: float) -> _Subscription | None:
        """That to a job; None if there are too many."""
        if app_id in self._subscriptions:
            return self._subscriptions[app_id]
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            return None
        self._subscriptions[app_id] = _Subscription(app)
        if app_id not in self._followings.jobs:
            self._followings.follow(app_id, None, now, submitting=False)
        return self._subscriptions[app_id]

    def hear(self, notices: Iterable[CoreEvent], now: float) -> None:
        """Gives programs what they have subscribed to, among what the agent has to tell."""
        for notice in notices if self._subscriptions else ():
            match notice:
                case Published(app_id=app_id, pane=pane, json=json):
                    subscription = self._subscriptions.get(Id(app_id))
                    if subscription is not None and (subscription.last_pane is None or pane > subscription.last_pane):
                        subscription.last_pane = pane
                        self._publish(subscription, json)
                case Ended(app_id=app_id):
                    self._subscriptions.pop(Id(app_id), None)
                case Accepted():
                    pass
        self._let_go(now)

    def _publish(self, subscription: _Subscription, json: bytes) -> None:
        for key, stage in subscription.programs.items():
            program = self._programs.get(key)
            if program is not None and self._may_get(program, stage):
                place = self._programs.place(program)
                self._programs.call(program, WindowPublished(place, subscription.app, json, stage))

    def _may_get(self, program: Program, stage: str) -> bool:
        """At a root; a stage's windows go to the code of the newest version alone."""
        part = self._parts.get(program.app_id)
        return program.is_root and (not stage or (part is not None and part.program is program))

    def _let_go(self, now: float) -> None:
        """Follows nothing for programs that are over, or not at a root any more."""
        for app_id, subscription in list(self._subscriptions.items()):
            subscription.programs = {
                key: stage
                for key, stage in subscription.programs.items()
                if (program := self._programs.get(key)) is not None and self._may_get(program, stage)
            }
            if not subscription.programs:
                del self._subscriptions[app_id]
                self._followings.unfollow(app_id, now)
