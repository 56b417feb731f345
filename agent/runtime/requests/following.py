"""Subscribes to jobs: asks their masters for results, and passes each event once to every follower on this agent.

Each subscription belongs to a job and a reader: clients and programs of this agent share one, and each job that reads
another job's results has its own. The request is repeated every 3 s, which keeps the master sending and finds the next
master. Windows are ignored until the master has answered the current request: they may belong to an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.client_events import Accepted, Acknowledged, Ended, JobEvent, PublishedWindow, WindowsLost
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
from agent.runtime.model.latency.critical_path import micros_of
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Peer

FOLLOWED_MAX = 256
"""Upper bound on jobs that clients and programs of this agent follow."""
REPEAT_S = 3.0
ANSWER_S = 1.0
"""Delay before an unanswered request is repeated."""
LOST_S = 30.0
"""Time without a message from any master of a job after which the job is lost, unless this agent still knows it: the
fleet may be long in finding the next master.
"""
RECENT_S = 10.0
"""Age of an announcement up to which its job exists, even if the node closest to its appId denies it."""

EventSink = Callable[[JobEvent], None]
_Key = tuple[Id, Reader]


@dataclass(slots=True)
class _Subscription:
    """`oldest` and `request`: the first and the last request whose answer counts.

    `closed_ms`: every window up to this instant has arrived; None: not yet known. `gap`: the first and the last instant
    of lost windows; `told_lost`: the pane up to which followers have been told of such. `sent_at`: when a request
    that is not answered yet went to the master itself. `way_us`: half the time that the last such one took to be
    answered.
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
    told_lost: int = FIRST_PANE
    sent_at: float | None = None
    way_us: int | None = None

    def emit(self, event: JobEvent) -> None:
        for sink in self.sinks:
            sink(event)


class JobSubscriptions:
    """All subscriptions of one agent. Every follower passes a sink, which gets the job's events in order."""

    name = "following"

    def __init__(self, sender: MessageSender, directory: JobDirectory) -> None:
        self.refused = 0
        self._sender = sender
        self._directory = directory
        self._subscriptions: dict[_Key, _Subscription] = {}
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
        return tuple(app_id for app_id, reader in self._subscriptions if reader is None)

    # Jobs that are being started here.

    def expect(self, app_id: Id) -> None:
        """Notes that a job is being started: its followers get all of its windows, once `started` is called."""
        self._starting.add(app_id)

    def started(self, app_id: Id, now: float) -> None:
        """Asks the master of a job that has been accepted for results."""
        self._starting.discard(app_id)
        if (subscription := self._subscriptions.get((app_id, None))) is not None:
            self._ask((app_id, None), subscription, now)

    def drop_new(self, app_id: Id) -> None:
        """Drops the subscription to a job that was expected and has not started."""
        self._starting.discard(app_id)
        subscription = self._subscriptions.get((app_id, None))
        if subscription is not None and subscription.epoch is None:
            del self._subscriptions[app_id, None]

    # Followers.

    def follow(self, app_id: Id, after: int | None, sink: EventSink, now: float, *, reader: Reader = None) -> None:
        """Sends a job's events to a sink, with the results after a pane; None: from now on.

        If the job is followed already, its master is asked again, and all sinks get these results. `Accepted` comes
        first, unless the job is just being started here: then all of its results come.
        """
        key = (app_id, reader)
        known = self._subscriptions.get(key)
        if known is None and reader is None and len(self.jobs) >= FOLLOWED_MAX:
            sink(Ended("lost"))
            return
        starting = reader is None and app_id in self._starting
        after = FIRST_PANE if starting and after is None else after
        sinks = known.sinks if known is not None else ()
        self._requests += 1
        subscription = _Subscription(
            sinks if sink in sinks else (*sinks, sink), after, self._requests, self._requests, now, now
        )
        self._subscriptions[key] = subscription
        subscription.accepted = starting
        if not starting:
            self._ask(key, subscription, now)

    def join(self, app_id: Id, sink: EventSink, now: float) -> None:
        """Sends a job's events to a sink from now on; asks its master only if the job is not followed yet."""
        subscription = self._subscriptions.get((app_id, None))
        if subscription is None:
            self.follow(app_id, None, sink, now)
        elif sink not in subscription.sinks:
            subscription.sinks = (*subscription.sinks, sink)

    def unfollow(self, app_id: Id, sink: EventSink, now: float, *, reader: Reader = None) -> None:
        """Stops sending a job's events to a sink."""
        subscription = self._subscriptions.get((app_id, reader))
        if subscription is None or sink not in subscription.sinks:
            return
        subscription.sinks = tuple(one for one in subscription.sinks if one != sink)
        if not subscription.sinks:
            del self._subscriptions[app_id, reader]
            if (known := self._directory.get(app_id)) is not None:
                self._sender.send(known.master, Unfollow(app_id, reader), now)

    def closed_ms(self, app_id: Id, reader: Reader) -> int | None:
        """The instant up to which every window has arrived, by the master's count; None: not yet known."""
        subscription = self._subscriptions.get((app_id, reader))
        return subscription.closed_ms if subscription is not None else None

    def take_gap(self, app_id: Id, reader: Reader) -> tuple[int, int] | None:
        """The first and the last instant of lost windows, if there are any; returned once."""
        subscription = self._subscriptions.get((app_id, reader))
        if subscription is None:
            return None
        gap, subscription.gap = subscription.gap, None
        return gap

    # Time and masters.

    def tick(self, now: float) -> None:
        """Repeats requests, and ends the subscriptions to lost jobs."""
        for key, subscription in list(self._subscriptions.items()):
            if now - subscription.heard_at > LOST_S and not (subscription.accepted and self._directory.get(key[0])):
                self._end(key, Ended("lost" if subscription.accepted else "unknown"))
            elif subscription.settled and now - subscription.asked_at >= REPEAT_S:
                self._ask(key, subscription, now)
            elif not subscription.settled and now - subscription.asked_at >= ANSWER_S:
                self._requests += 1
                subscription.request = self._requests
                self._ask(key, subscription, now)

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: masters may have sent messages meanwhile."""
        for subscription in self._subscriptions.values():
            subscription.heard_at += seconds

    def announced(self, announce: Announce, now: float) -> None:
        """Asks a new master of a followed job at once; ends the subscription if another job has taken the name."""
        for key, subscription in self._of_job(announce.app_id):
            if subscription.epoch is None or announce.epoch <= subscription.epoch:
                continue
            if not announce.epoch.is_same_job(subscription.epoch):
                self._end(key, Ended("stopped"))
                continue
            subscription.epoch, subscription.way_us = announce.epoch, None
            self._ask_anew(key, subscription, now)

    def _of_job(self, app_id: Id) -> list[tuple[_Key, _Subscription]]:
        return [(key, subscription) for key, subscription in self._subscriptions.items() if key[0] == app_id]

    def _ask_anew(self, key: _Key, subscription: _Subscription, now: float) -> None:
        """Asks for everything after the last window that has arrived; windows before the answer are ignored."""
        self._requests += 1
        subscription.oldest = subscription.request = self._requests
        subscription.settled = False
        self._ask(key, subscription, now)

    def _ask(self, key: _Key, subscription: _Subscription, now: float) -> None:
        app_id, reader = key
        subscription.asked_at, subscription.sent_at = now, None
        message = Follow(app_id, subscription.request, subscription.after, reader, subscription.way_us)
        known = self._directory.get(app_id)
        if known is not None and now - (self._directory.announced_at(app_id) or 0.0) < RECENT_S:
            subscription.sent_at = now
            self._sender.send(known.master, message, now)
        else:
            self._sender.route(message, now)

    # What masters answer.

    def _answered(self, message: Followed, sender: Peer, now: float) -> None:
        """Takes a master's answer to a request: from here on its windows count."""
        subscription = self._subscriptions.get((message.app_id, message.reader))
        known = self._directory.get(message.app_id)
        is_of_master = sender.node_id == message.epoch.master and (known is None or known.epoch == message.epoch)
        if subscription is None or not _answers(message, subscription) or not is_of_master:
            self.refused += 1
            return
        subscription.heard_at, subscription.epoch, subscription.settled = now, message.epoch, True
        if subscription.after is None:
            subscription.after = message.after
        if not subscription.accepted:
            subscription.accepted = True
            columns = list(message.columns)
            subscription.emit(Accepted(message.name, message.text, columns, message.bounded, message.version))
        if message.lost > subscription.after:
            subscription.gap = (subscription.after + 1, message.lost)
            if message.reader is None and message.lost > subscription.told_lost:
                subscription.told_lost = message.lost
                before = None if subscription.after == FIRST_PANE else subscription.after
                subscription.emit(WindowsLost(before, message.lost))

    def _acknowledged(self, message: Acknowledgement, sender: Peer, now: float) -> None:
        """Takes the number of agents that run the job."""
        subscription = self._settled(message, sender, now)
        if subscription is not None and self._is_complete(message, subscription, message.sent, now):
            subscription.closed_ms = message.closed_ms
            event = Acknowledged(
                message.agents, message.expected, message.version, message.epoch.counter, message.master_name
            )
            if event != subscription.acknowledged:
                subscription.acknowledged = event
                subscription.emit(event)
            elif subscription.sent_at is not None:  # it says nothing new, so it is the answer to a request
                subscription.way_us = micros_of((now - subscription.sent_at) / 2)
                subscription.sent_at = None

    def _window(self, message: WindowMessage, sender: Peer, now: float) -> None:
        """Passes a result on, unless it is no newer than the last one."""
        subscription = self._settled(message, sender, now)
        if subscription is None or not self._is_complete(message, subscription, message.previous, now):
            return
        if subscription.after is None or message.pane > subscription.after:
            subscription.after = message.pane
            subscription.emit(PublishedWindow(message.pane, msgspec.Raw(message.json)))

    def _ended(self, message: JobEnded, sender: Peer, now: float) -> None:
        """Ends the subscription, once all windows before the job's end have arrived."""
        subscription = self._settled(message, sender, now)
        if subscription is not None and self._is_complete(message, subscription, message.sent, now):
            self._end((message.app_id, message.reader), Ended(message.reason, message.failure))

    def _no_job(self, message: NoJob, _sender: object, now: float) -> bool:
        """Takes the answer that the node closest to the appId does not know the job; others may wait for it too."""
        announced_at = self._directory.announced_at(message.app_id)
        if announced_at is None or now - announced_at > RECENT_S:
            for key, subscription in self._of_job(message.app_id):
                if not subscription.accepted:
                    self._end(key, Ended("unknown"))
        return False

    def _settled(
        self, message: Acknowledgement | WindowMessage | JobEnded, sender: Peer, now: float
    ) -> _Subscription | None:
        """The subscription that a message of its master belongs to."""
        subscription = self._subscriptions.get((message.app_id, message.reader))
        is_of_master = subscription is not None and sender.node_id == message.epoch.master
        if subscription is None or not (is_of_master and subscription.settled and message.epoch == subscription.epoch):
            self.refused += 1
            return None
        subscription.heard_at = now
        return subscription

    def _is_complete(
        self, message: Acknowledgement | WindowMessage | JobEnded, subscription: _Subscription, upto: int, now: float
    ) -> bool:
        """Whether all windows up to a pane have arrived; asks again for one that was lost on the way."""
        if subscription.after is None or upto <= subscription.after:
            return True
        self._ask_anew((message.app_id, message.reader), subscription, now)
        return False

    def _end(self, key: _Key, ended: Ended) -> None:
        self._subscriptions.pop(key).emit(ended)

    def statistics(self) -> Mapping[str, int]:
        return {"refused": self.refused, "followed": len(self._subscriptions)}


def _answers(message: Followed, subscription: _Subscription) -> bool:
    is_old = subscription.epoch is not None and message.epoch < subscription.epoch
    return not is_old and subscription.oldest <= message.request <= subscription.request
