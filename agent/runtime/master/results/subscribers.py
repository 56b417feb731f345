"""Sends a job's results to its subscribers: the agents whose clients follow it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.runtime.master.results.late_json import LateJson, ResultJson, json_of
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Acknowledgement, Follow, Followed, JobEnded, Reader, WindowMessage
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Reason
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from overlay import Id, Peer

SUBSCRIBERS_MAX = 1024
LEASE_S = 10.0
"""Time without a repeated request, which is due every 3 s, after which a subscriber is dropped."""


@dataclass(slots=True)
class _Subscriber:
    peer: Peer
    reader: Reader
    request: int
    heard_at: float
    sent: int
    way_us: int | None


class Subscribers:
    """The subscribers of one job in one epoch. `log` holds the results that can still be sent again."""

    def __init__(self, state: JobState, log: ResultLog, sender: MessageSender, name: str) -> None:
        self.log = log
        self.refused = 0
        self.frontier = FIRST_PANE
        """The last pane whose results are published."""
        self.events = 0
        """The number of events in what is published."""
        self._state = state
        self._sender = sender
        self._name = name
        self._subscribers: dict[tuple[int, Reader], _Subscriber] = {}
        self._acknowledged = (-1, -1, -1)

    def __len__(self) -> int:
        return len(self._subscribers)

    def follow(self, peer: Peer, message: Follow, now: float) -> None:
        """Answers a request to follow, new or repeated."""
        subscriber = self._subscribers.get((peer.node_id, message.reader))
        if subscriber is None and len(self._subscribers) >= SUBSCRIBERS_MAX:
            self.refused += 1
            return
        if subscriber is None or subscriber.request != message.request:
            subscriber = self._begin(peer, message, now)
        else:
            subscriber.heard_at, subscriber.way_us = now, message.way_us
        self._sender.send(peer, self._acknowledgement(subscriber), now)

    def _begin(self, peer: Peer, message: Follow, now: float) -> _Subscriber:
        state, job = self._state, self._state.job
        after = max(self.frontier, self.log.last) if message.after is None else message.after
        followed = Followed(
            job.app_id, state.epoch, message.request, after, job.name, state.text, job.stream, state.columns,
            job.bounded, state.version, self.log.lost, message.reader,
        )  # fmt: skip
        self._sender.send(peer, followed, now)
        subscriber = _Subscriber(peer, message.reader, message.request, now, after, message.way_us)
        self._subscribers[peer.node_id, message.reader] = subscriber
        for pane, json in self.log.after(after):
            self._sender.send(peer, self._window(subscriber, pane, json), now)
            subscriber.sent = pane
        return subscriber

    def ways_s(self) -> list[float]:
        """Seconds from here to the agents whose clients follow, as far as these know. O(subscribers)."""
        return [one.way_us / 1e6 for one in self._subscribers.values() if one.reader is None and one.way_us is not None]

    def readers_at(self, node_id: int) -> set[Id]:
        """The jobs that read this one on an agent."""
        return {reader for at, reader in self._subscribers if at == node_id and reader is not None}

    def unfollow(self, peer: Peer, reader: Reader) -> None:
        self._subscribers.pop((peer.node_id, reader), None)

    def are_readers_at(self, node_id: int) -> bool:
        """Whether nobody follows but jobs that read this one on an agent."""
        return all(at == node_id and reader is not None for at, reader in self._subscribers)

    def publish(self, results: Iterable[tuple[int, ResultJson]], now: float) -> None:
        """Sends new results to all subscribers, and keeps them in the log."""
        for pane, json in results:
            self.log.append(pane, json)
            alike: dict[tuple[int, Reader], list[_Subscriber]] = {}
            for subscriber in self._subscribers.values():
                alike.setdefault((subscriber.sent, subscriber.reader), []).append(subscriber)
            for (_, reader), subscribers in alike.items():
                peers = [one.peer for one in subscribers]
                # Readers on this agent take the result itself.
                is_here = reader is not None and all(peer.node_id == self._state.epoch.master for peer in peers)
                sent = b"" if is_here and isinstance(json, LateJson) else json_of(json)
                self._sender.send_all(peers, self._window(subscribers[0], pane, sent), now)
                for subscriber in subscribers:
                    subscriber.sent = pane

    def acknowledge(self, now: float) -> None:
        """Tells all subscribers how many agents run the job, if that has changed."""
        if self._counts() != self._acknowledged:
            self._acknowledged = self._counts()
            for subscriber in self._subscribers.values():
                self._sender.send(subscriber.peer, self._acknowledgement(subscriber), now)

    def finish(self, reason: Reason, now: float) -> None:
        """Tells all subscribers that there will be no further result."""
        job, epoch = self._state.job, self._state.epoch
        for subscriber in self._subscribers.values():
            failure = self._state.failure or ""
            finished = JobEnded(job.app_id, epoch, subscriber.sent, reason, failure, subscriber.reader)
            self._sender.send(subscriber.peer, finished, now)

    def extend_leases(self, seconds: float) -> None:
        """Makes up for a standstill of this agent."""
        for subscriber in self._subscribers.values():
            subscriber.heard_at += seconds

    @property
    def expires_at(self) -> float | None:
        """The time at which the next lease is over, unless it is renewed; None without a subscriber."""
        leases = [subscriber.heard_at for subscriber in self._subscribers.values()]
        return min(leases) + LEASE_S if leases else None

    def expire(self, now: float) -> None:
        """Drops subscribers whose lease is over."""
        gone = [key for key, subscriber in self._subscribers.items() if now - subscriber.heard_at > LEASE_S]
        for key in gone:
            del self._subscribers[key]

    @property
    def closed_ms(self) -> int:
        """The last instant (epoch ms) of the published panes."""
        return closed_ms(self.frontier, self._state.versions.at(self.frontier).function.plan.pane_ms)

    def _window(self, subscriber: _Subscriber, pane: int, json: bytes) -> WindowMessage:
        return WindowMessage(self._state.job.app_id, self._state.epoch, subscriber.sent, pane, json, subscriber.reader)

    def _counts(self) -> tuple[int, int, int]:
        state = self._state
        return state.ready.bit_count(), state.roster.present().bit_count(), state.version

    def _acknowledgement(self, subscriber: _Subscriber) -> Acknowledgement:
        agents, expected, version = self._counts()
        job, epoch = self._state.job, self._state.epoch
        function, closed = self._state.versions.at(self.frontier).function, self.closed_ms
        # Windows that may still change are not out for those who take last results only.
        closed = closed if closed in (FIRST_PANE, END) else closed - function.grace.amends_ms
        return Acknowledgement(
            job.app_id, epoch, subscriber.sent, agents, expected, version, self._name,
            closed, subscriber.reader,
        )  # fmt: skip
