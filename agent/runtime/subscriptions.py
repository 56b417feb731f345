"""Jobs whose code gets the windows of other jobs too: `subscribe`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.programs.calls import Published as PublishedCall
from agent.runtime.announcements import Announcements
from agent.runtime.app_names import AmbiguousNameError, app_of
from agent.runtime.following import Followings
from agent.runtime.notices import Accepted, Ended, Notice, Published
from agent.runtime.programs import Program, Programs
from overlay import Id

SUBSCRIPTIONS_MAX = 256


@dataclass(slots=True)
class _Subscription:
    app: str
    programs: set[int] = field(default_factory=set)
    last_pane: int | None = None


class Subscriptions:
    """Of all programs of one agent, as followers of jobs among its clients."""

    def __init__(self, followings: Followings, announcements: Announcements, programs: Programs) -> None:
        self._followings = followings
        self._announcements = announcements
        self._programs = programs
        self._subscriptions: dict[Id, _Subscription] = {}

    def __contains__(self, app_id: Id) -> bool:
        return app_id in self._subscriptions

    def subscribe(self, program: Program, app: str, now: float) -> str | None:
        """Gives a program the windows of a job from now on; what is wrong with that, if anything."""
        try:
            app_id = app_of(app, self._announcements.all())
        except AmbiguousNameError as error:
            return f"subscribe: {error}"
        if app_id not in self._subscriptions and len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            return f"subscribe: this agent's programs follow {SUBSCRIPTIONS_MAX} jobs already"
        is_new = app_id not in self._subscriptions
        self._subscriptions.setdefault(app_id, _Subscription(app)).programs.add(program.key)
        if is_new and app_id not in self._followings.jobs:
            self._followings.follow(app_id, None, now, submitting=False)
        return None

    def hear(self, notices: Iterable[Notice], now: float) -> None:
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
        for key in subscription.programs:
            program = self._programs.get(key)
            if program is not None:
                self._programs.call(program, PublishedCall(self._programs.place(program), subscription.app, json))

    def _let_go(self, now: float) -> None:
        """Follows nothing for programs that are over, or not at a root any more."""
        for app_id, subscription in list(self._subscriptions.items()):
            alive = {key for key in subscription.programs if (one := self._programs.get(key)) and one.is_root}
            subscription.programs = alive
            if not alive:
                del self._subscriptions[app_id]
                self._followings.unfollow(app_id, now)
