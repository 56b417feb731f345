"""The jobs an agent's clients follow: asks their masters for results, and passes each window on once.

A request to follow is repeated every 3 s, which keeps the master sending and finds the next master. Windows count only
once the master has answered the request that is in force: until then they may belong to an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import (
    Acknowledgement,
    Follow,
    Followed,
    JobEnded,
    NoJob,
    Reader,
    Unfollow,
    WindowMessage,
)
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.requests.notices import Accepted, Acknowledged, CoreEvent, Ended, Published
from overlay import Id

FOLLOWED_MAX = 256
REPEAT_S = 3.0
ANSWER_S = 1.0
"""An unanswered request is repeated sooner."""
LOST_S = 30.0
"""So long without a word from any master, a job is lost."""
NEWS_S = 10.0
"""A job that was announced so recently is there, whatever the node says that happens to be asked."""


@dataclass(slots=True)
class _Following:
    """`oldest` and `request`: the first and the last request whose answer counts.

    `closed_ms`: every window up to this instant has come; None: not yet told. `gap`: the first and the last instant of
    windows that cannot be had any more.
    """

    after: int | None
    oldest: int
    request: int
    asked_at: float
    heard_at: float
    settled: bool = False
    accepted: bool = False
    epoch: JobEpoch | None = None
    acknowledged: Acknowledged | None = None
    closed_ms: int | None = None
    gap: tuple[int, int] | None = None


class JobSubscriptions:
    """`notices` is where what comes of it goes. `reader`: the job that follows, if it is not this agent's clients."""

    def __init__(
        self, post: MessageSender, announcements: JobDirectory, notices: list[CoreEvent], reader: Reader = None
    ) -> None:
        self.refused = 0
        self._reader = reader
        self._post = post
        self._announcements = announcements
        self._notices = notices
        self._followed: dict[Id, _Following] = {}
        self._requests = 0

    @property
    def jobs(self) -> tuple[Id, ...]:
        return tuple(self._followed)

    def follow(self, app_id: Id, after: int | None, now: float, *, submitting: bool = False) -> None:
        """Follows a job from after a pane, also where it is followed already from later on.

        `submitting`: it is just being started; `ask_now` says when it can be asked for.
        """
        if app_id not in self._followed and len(self._followed) >= FOLLOWED_MAX:
            self._notices.append(Ended(app_id, "lost"))
            return
        self._requests += 1
        self._followed[app_id] = following = _Following(after, self._requests, self._requests, now, now)
        following.accepted = submitting
        if not submitting:
            self._ask(app_id, following, now)

    def unfollow(self, app_id: Id, now: float) -> None:
        """Follows a job no longer."""
        if self._followed.pop(app_id, None) is not None and (known := self._announcements.get(app_id)):
            self._post.send(known.master, Unfollow(app_id, self._reader), now)

    def tick(self, now: float) -> None:
        """Repeats requests; gives up what is lost."""
        for app_id, following in list(self._followed.items()):
            if now - following.heard_at > LOST_S:
                self._end(app_id, Ended(app_id, "lost" if following.accepted else "unknown"))
            elif following.settled and now - following.asked_at >= REPEAT_S:
                self._ask(app_id, following, now)
            elif not following.settled and now - following.asked_at >= ANSWER_S:
                self._requests += 1
                following.request = self._requests
                self._ask(app_id, following, now)

    def extend_deadlines(self, seconds: float) -> None:
        """This agent stood still for so long: masters may have spoken meanwhile."""
        for following in self._followed.values():
            following.heard_at += seconds

    def announced(self, app_id: Id, epoch: JobEpoch, now: float) -> None:
        """A master has announced a job: if it is a new one, it has to be asked at once."""
        following = self._followed.get(app_id)
        if following is not None and following.epoch is not None and epoch > following.epoch:
            if not epoch.is_same_job(following.epoch):
                self._end(app_id, Ended(app_id, "stopped"))
                return
            following.epoch = epoch
            self._ask_anew(app_id, following, now)

    def ask_now(self, app_id: Id, now: float) -> None:
        """Asks for a job that was just started."""
        if (following := self._followed.get(app_id)) is not None:
            self._ask(app_id, following, now)

    def drop_new(self, app_id: Id) -> None:
        """Forgets a job that was to be followed from its start and never started."""
        following = self._followed.get(app_id)
        if following is not None and following.epoch is None:
            del self._followed[app_id]

    def _ask_anew(self, app_id: Id, following: _Following, now: float) -> None:
        """From the last window that came; what comes before the answer does not count."""
        self._requests += 1
        following.oldest = following.request = self._requests
        following.settled = False
        self._ask(app_id, following, now)

    def _ask(self, app_id: Id, following: _Following, now: float) -> None:
        following.asked_at = now
        message = Follow(app_id, following.request, following.after, self._reader)
        known = self._announcements.get(app_id)
        if known is not None and now - (self._announcements.heard_at(app_id) or 0.0) < NEWS_S:
            self._post.send(known.master, message, now)
        else:
            self._post.route(message, now)

    def closed_ms(self, app_id: Id) -> int | None:
        """Up to which instant every window has come, as far as the master has told; None: not yet."""
        following = self._followed.get(app_id)
        return following.closed_ms if following is not None else None

    def take_gap(self, app_id: Id) -> tuple[int, int] | None:
        """The first and the last instant of windows that cannot be had any more, if there are any; once."""
        following = self._followed.get(app_id)
        if following is None:
            return None
        gap, following.gap = following.gap, None
        return gap

    # What masters answer.

    def followed(self, message: Followed, now: float) -> None:
        """A master answers a request: from here on its windows count."""
        following = self._followed.get(message.app_id)
        if following is None or not self._answers(message, following):
            self.refused += 1
            return
        following.heard_at, following.epoch, following.settled = now, message.epoch, True
        if following.after is None:
            following.after = message.after
        elif message.lost > following.after:
            following.gap = (following.after + 1, message.lost)
        if not following.accepted:
            following.accepted = True
            columns = tuple(message.columns)
            self._notices.append(
                Accepted(
                    message.app_id,
                    message.name,
                    message.text,
                    message.stream,
                    columns,
                    message.bounded,
                    message.version,
                )
            )

    def acknowledged(self, message: Acknowledgement, now: float) -> None:
        """A master says how many agents run the job."""
        following = self._settled(message.app_id, message.epoch, now)
        if following is not None and self._is_complete(message.app_id, following, message.sent, now):
            following.closed_ms = message.closed_ms
            told = Acknowledged(
                message.app_id,
                message.agents,
                message.expected,
                message.version,
                message.epoch.counter,
                message.master_name,
            )
            if told != following.acknowledged:
                following.acknowledged = told
                self._notices.append(told)

    def window(self, message: WindowMessage, now: float) -> None:
        """A result comes; only newer ones than the last one are passed on."""
        following = self._settled(message.app_id, message.epoch, now)
        if following is None or not self._is_complete(message.app_id, following, message.previous, now):
            return
        if following.after is None or message.pane > following.after:
            following.after = message.pane
            self._notices.append(Published(message.app_id, message.pane, message.json))

    def finished(self, message: JobEnded, now: float) -> None:
        """A master says that there will be no further window."""
        following = self._settled(message.app_id, message.epoch, now)
        if following is not None and self._is_complete(message.app_id, following, message.sent, now):
            self._end(message.app_id, Ended(message.app_id, message.reason, message.failure))

    def no_job(self, message: NoJob, now: float) -> None:
        """The node that is closest to the appId has never heard of the job."""
        following = self._followed.get(message.app_id)
        if following is None or following.accepted:
            return
        heard_at = self._announcements.heard_at(message.app_id)
        if heard_at is None or now - heard_at > NEWS_S:
            self._end(message.app_id, Ended(message.app_id, "unknown"))

    def _settled(self, app_id: Id, epoch: JobEpoch, now: float) -> _Following | None:
        following = self._followed.get(app_id)
        if following is None or not following.settled or epoch != following.epoch:
            self.refused += 1
            return None
        following.heard_at = now
        return following

    def _is_complete(self, app_id: Id, following: _Following, upto: int, now: float) -> bool:
        """Whether all windows up to a pane have come; if one was lost on the way, it is asked for."""
        if following.after is None or upto <= following.after:
            return True
        self._ask_anew(app_id, following, now)
        return False

    def _answers(self, message: Followed, following: _Following) -> bool:
        is_old = following.epoch is not None and message.epoch < following.epoch
        return not is_old and following.oldest <= message.request <= following.request

    def _end(self, app_id: Id, ended: Ended) -> None:
        del self._followed[app_id]
        self._notices.append(ended)
