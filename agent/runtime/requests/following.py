"""Follows jobs: asks their masters for results, and passes each event on once to every follower on this agent.

A following is of a job and a reader: clients and programs of this agent share one, each job that reads another job's
results has its own. A request to follow is repeated every 3 s, which keeps the master sending and finds the next
master. Windows count only once the master has answered the request that is in force: until then they may belong to an
earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.client_events import Accepted, Acknowledged, Ended, JobEvent, PublishedWindow
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import (
    Acknowledgement,
    Announce,
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
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id

FOLLOWED_MAX = 256
"""Upper bound on jobs that clients and programs of this agent follow."""
REPEAT_S = 3.0
ANSWER_S = 1.0
"""Delay before an unanswered request is repeated."""
LOST_S = 30.0
"""A job is lost after this time without a message from any master of it."""
RECENT_S = 10.0
"""A job announced within this time exists, even where the node closest to its appId denies it."""

EventSink = Callable[[JobEvent], None]
_Key = tuple[Id, Reader]


@dataclass(slots=True)
class _Following:
    """`oldest` and `request`: the first and the last request whose answer counts.

    `closed_ms`: every window up to this instant has come; None: not yet known. `gap`: the first and the last instant of
    windows that are lost.
    """

    sinks: tuple[EventSink, ...]
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

    def emit(self, event: JobEvent) -> None:
        for sink in self.sinks:
            sink(event)


class JobSubscriptions:
    """All followings of one agent. Every follower passes a sink, which gets the job's events in order."""

    name = "following"

    def __init__(self, sender: MessageSender, directory: JobDirectory) -> None:
        self.refused = 0
        self._sender = sender
        self._directory = directory
        self._followed: dict[_Key, _Following] = {}
        self._starting: set[Id] = set()
        self._requests = 0

    def handlers(self) -> Handlers:
        return {
            Followed: Handler(Via.DIRECT, self._answered),
            Acknowledgement: Handler(Via.DIRECT, self._acknowledged),
            WindowMessage: Handler(Via.DIRECT, self._window),
            JobEnded: Handler(Via.DIRECT, self._ended),
            NoJob: Handler(Via.DIRECT, self._no_job),
        }

    @property
    def jobs(self) -> tuple[Id, ...]:
        """The jobs that clients and programs of this agent follow."""
        return tuple(app_id for app_id, reader in self._followed if reader is None)

    # Jobs that are being started here.

    def expect(self, app_id: Id) -> None:
        """A job is being started: its followers get all of it, once `started` says that it can be asked."""
        self._starting.add(app_id)

    def started(self, app_id: Id, now: float) -> None:
        """The job has been accepted: asks its master for results."""
        self._starting.discard(app_id)
        if (following := self._followed.get((app_id, None))) is not None:
            self._ask((app_id, None), following, now)

    def drop_new(self, app_id: Id) -> None:
        """Forgets a job that was to be followed from its start and never started."""
        self._starting.discard(app_id)
        following = self._followed.get((app_id, None))
        if following is not None and following.epoch is None:
            del self._followed[app_id, None]

    # Followers.

    def follow(self, app_id: Id, after: int | None, sink: EventSink, now: float, *, reader: Reader = None) -> None:
        """Sends a job's events to a sink, with the results after a pane; None: from now on.

        Asks anew where the job is followed already: all its sinks get those results. `Accepted` comes first, unless the
        job is just being started here: then all of its results come.
        """
        key = (app_id, reader)
        known = self._followed.get(key)
        if known is None and reader is None and len(self.jobs) >= FOLLOWED_MAX:
            sink(Ended("lost"))
            return
        starting = reader is None and app_id in self._starting
        after = FIRST_PANE if starting and after is None else after
        sinks = known.sinks if known is not None else ()
        self._requests += 1
        following = _Following(
            sinks if sink in sinks else (*sinks, sink), after, self._requests, self._requests, now, now
        )
        self._followed[key] = following
        following.accepted = starting
        if not starting:
            self._ask(key, following, now)

    def join(self, app_id: Id, sink: EventSink, now: float) -> None:
        """Sends a job's events to a sink from now on, without asking again where it is followed already."""
        following = self._followed.get((app_id, None))
        if following is None:
            self.follow(app_id, None, sink, now)
        elif sink not in following.sinks:
            following.sinks = (*following.sinks, sink)

    def unfollow(self, app_id: Id, sink: EventSink, now: float, *, reader: Reader = None) -> None:
        """Sends a sink nothing more of a job."""
        following = self._followed.get((app_id, reader))
        if following is None or sink not in following.sinks:
            return
        following.sinks = tuple(one for one in following.sinks if one != sink)
        if not following.sinks:
            del self._followed[app_id, reader]
            if (known := self._directory.get(app_id)) is not None:
                self._sender.send(known.master, Unfollow(app_id, reader), now)

    def closed_ms(self, app_id: Id, reader: Reader) -> int | None:
        """The instant up to which every window has come, as far as the master has told; None: not yet."""
        following = self._followed.get((app_id, reader))
        return following.closed_ms if following is not None else None

    def take_gap(self, app_id: Id, reader: Reader) -> tuple[int, int] | None:
        """The first and the last instant of windows that are lost, if there are any; returned once."""
        following = self._followed.get((app_id, reader))
        if following is None:
            return None
        gap, following.gap = following.gap, None
        return gap

    # Time and masters.

    def tick(self, now: float) -> None:
        """Repeats requests; gives up what is lost."""
        for key, following in list(self._followed.items()):
            if now - following.heard_at > LOST_S:
                self._end(key, Ended("lost" if following.accepted else "unknown"))
            elif following.settled and now - following.asked_at >= REPEAT_S:
                self._ask(key, following, now)
            elif not following.settled and now - following.asked_at >= ANSWER_S:
                self._requests += 1
                following.request = self._requests
                self._ask(key, following, now)

    def extend_deadlines(self, seconds: float) -> None:
        """This agent stood still: masters may have spoken meanwhile."""
        for following in self._followed.values():
            following.heard_at += seconds

    def announced(self, announce: Announce, now: float) -> None:
        """A master has announced a job: a new master is asked at once."""
        for key, following in self._of_job(announce.app_id):
            if following.epoch is None or announce.epoch <= following.epoch:
                continue
            if not announce.epoch.is_same_job(following.epoch):
                self._end(key, Ended("stopped"))
                continue
            following.epoch = announce.epoch
            self._ask_anew(key, following, now)

    def _of_job(self, app_id: Id) -> list[tuple[_Key, _Following]]:
        return [(key, following) for key, following in self._followed.items() if key[0] == app_id]

    def _ask_anew(self, key: _Key, following: _Following, now: float) -> None:
        """Asks for everything after the last window that came; what comes before the answer does not count."""
        self._requests += 1
        following.oldest = following.request = self._requests
        following.settled = False
        self._ask(key, following, now)

    def _ask(self, key: _Key, following: _Following, now: float) -> None:
        app_id, reader = key
        following.asked_at = now
        message = Follow(app_id, following.request, following.after, reader)
        known = self._directory.get(app_id)
        if known is not None and now - (self._directory.heard_at(app_id) or 0.0) < RECENT_S:
            self._sender.send(known.master, message, now)
        else:
            self._sender.route(message, now)

    # What masters answer.

    def _answered(self, message: Followed, _sender: object, now: float) -> None:
        """A master answers a request: from here on its windows count."""
        following = self._followed.get((message.app_id, message.reader))
        if following is None or not _answers(message, following):
            self.refused += 1
            return
        following.heard_at, following.epoch, following.settled = now, message.epoch, True
        if following.after is None:
            following.after = message.after
        elif message.lost > following.after:
            following.gap = (following.after + 1, message.lost)
        if not following.accepted:
            following.accepted = True
            columns = list(message.columns)
            following.emit(Accepted(message.name, message.text, columns, message.bounded, message.version))

    def _acknowledged(self, message: Acknowledgement, _sender: object, now: float) -> None:
        """A master says how many agents run the job."""
        following = self._settled(message, now)
        if following is not None and self._is_complete(message, following, message.sent, now):
            following.closed_ms = message.closed_ms
            event = Acknowledged(
                message.agents, message.expected, message.version, message.epoch.counter, message.master_name
            )
            if event != following.acknowledged:
                following.acknowledged = event
                following.emit(event)

    def _window(self, message: WindowMessage, _sender: object, now: float) -> None:
        """A result comes; only newer ones than the last one are passed on."""
        following = self._settled(message, now)
        if following is None or not self._is_complete(message, following, message.previous, now):
            return
        if following.after is None or message.pane > following.after:
            following.after = message.pane
            following.emit(PublishedWindow(message.pane, msgspec.Raw(message.json)))

    def _ended(self, message: JobEnded, _sender: object, now: float) -> None:
        """A master says that there will be no further window."""
        following = self._settled(message, now)
        if following is not None and self._is_complete(message, following, message.sent, now):
            self._end((message.app_id, message.reader), Ended(message.reason, message.failure))

    def _no_job(self, message: NoJob, _sender: object, now: float) -> bool:
        """The node that is closest to the appId has never heard of the job. Others may wait for the job too."""
        heard_at = self._directory.heard_at(message.app_id)
        if heard_at is None or now - heard_at > RECENT_S:
            for key, following in self._of_job(message.app_id):
                if not following.accepted:
                    self._end(key, Ended("unknown"))
        return False

    def _settled(self, message: Acknowledgement | WindowMessage | JobEnded, now: float) -> _Following | None:
        following = self._followed.get((message.app_id, message.reader))
        if following is None or not following.settled or message.epoch != following.epoch:
            self.refused += 1
            return None
        following.heard_at = now
        return following

    def _is_complete(
        self, message: Acknowledgement | WindowMessage | JobEnded, following: _Following, upto: int, now: float
    ) -> bool:
        """Whether all windows up to a pane have come; if one was lost on the way, it is asked for."""
        if following.after is None or upto <= following.after:
            return True
        self._ask_anew((message.app_id, message.reader), following, now)
        return False

    def _end(self, key: _Key, ended: Ended) -> None:
        self._followed.pop(key).emit(ended)

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "followed": len(self._followed)}


def _answers(message: Followed, following: _Following) -> bool:
    is_old = following.epoch is not None and message.epoch < following.epoch
    return not is_old and following.oldest <= message.request <= following.request
