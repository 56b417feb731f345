"""Sends a job's results to its subscribers: the agents whose clients follow it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.runtime.master.result_log import ResultLog
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Acknowledgement, Follow, Followed, JobEnded, Reader, WindowMessage
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Reason
from agent.runtime.model.panes import FIRST_PANE, closed_ms
from overlay import Peer

FOLLOWERS_MAX = 1024
LEASE_S = 10.0
"""Time after which a subscriber that has not asked again, as it does every 3 s, is gone."""


@dataclass(slots=True)
class _Follower:
    peer: Peer
    reader: Reader
    request: int
    heard_at: float
    sent: int


class Subscribers:
    """The subscribers of one job in one epoch. `log` holds the results that can still be sent again."""

    def __init__(self, master: JobState, log: ResultLog, post: MessageSender, name: str) -> None:
        self.log = log
        self.refused = 0
        self.frontier = FIRST_PANE
        """The last pane whose results are published."""
        self._master = master
        self._post = post
        self._name = name
        self._followers: dict[tuple[int, Reader], _Follower] = {}
        self._acknowledged = (-1, -1, -1)

    def __len__(self) -> int:
        return len(self._followers)

    def follow(self, peer: Peer, message: Follow, now: float) -> None:
        """Answers a request to follow, or to go on following."""
        follower = self._followers.get((peer.node_id, message.reader))
        if follower is None and len(self._followers) >= FOLLOWERS_MAX:
            self.refused += 1
            return
        if follower is None or follower.request != message.request:
            follower = self._begin(peer, message, now)
        else:
            follower.heard_at = now
        self._post.send(peer, self._acknowledgement(follower), now)

    def _begin(self, peer: Peer, message: Follow, now: float) -> _Follower:
        master, job = self._master, self._master.job
        after = max(self.frontier, self.log.last) if message.after is None else message.after
        followed = Followed(
            job.app_id, master.epoch, message.request, after, job.name, master.text, job.stream, master.columns,
            job.bounded, master.version, self.log.lost, message.reader,
        )  # fmt: skip
        self._post.send(peer, followed, now)
        follower = _Follower(peer, message.reader, message.request, now, after)
        self._followers[peer.node_id, message.reader] = follower
        for pane, json in self.log.after(after):
            self._post.send(peer, self._window(follower, pane, json), now)
            follower.sent = pane
        return follower

    def unfollow(self, peer: Peer, reader: Reader) -> None:
        self._followers.pop((peer.node_id, reader), None)

    def publish(self, results: Iterable[tuple[int, bytes]], now: float) -> None:
        """Sends new results to all subscribers, and keeps them in the log."""
        for pane, json in results:
            self.log.append(pane, json)
            alike: dict[tuple[int, Reader], list[_Follower]] = {}
            for follower in self._followers.values():
                alike.setdefault((follower.sent, follower.reader), []).append(follower)
            for followers in alike.values():
                self._post.send_all([one.peer for one in followers], self._window(followers[0], pane, json), now)
                for follower in followers:
                    follower.sent = pane

    def acknowledge(self, now: float) -> None:
        """Tells all subscribers how many agents run the job, if that has changed."""
        if self._counts() != self._acknowledged:
            self._acknowledged = self._counts()
            for follower in self._followers.values():
                self._post.send(follower.peer, self._acknowledgement(follower), now)

    def finish(self, reason: Reason, now: float) -> None:
        """Tells all subscribers that there will be no further result."""
        job, epoch = self._master.job, self._master.epoch
        for follower in self._followers.values():
            failure = self._master.failure or ""
            finished = JobEnded(job.app_id, epoch, follower.sent, reason, failure, follower.reader)
            self._post.send(follower.peer, finished, now)

    def expire(self, now: float) -> None:
        """Drops subscribers that have not asked for long."""
        gone = [key for key, follower in self._followers.items() if now - follower.heard_at > LEASE_S]
        for key in gone:
            del self._followers[key]

    def _window(self, follower: _Follower, pane: int, json: bytes) -> WindowMessage:
        return WindowMessage(self._master.job.app_id, self._master.epoch, follower.sent, pane, json, follower.reader)

    def _counts(self) -> tuple[int, int, int]:
        master = self._master
        return master.ready.bit_count(), master.roster.present().bit_count(), master.version

    def _acknowledgement(self, follower: _Follower) -> Acknowledgement:
        agents, expected, version = self._counts()
        job, epoch = self._master.job, self._master.epoch
        pane_ms = self._master.versions.at(self.frontier).function.plan.pane_ms
        return Acknowledgement(
            job.app_id, epoch, follower.sent, agents, expected, version, self._name,
            closed_ms(self.frontier, pane_ms), follower.reader,
        )  # fmt: skip
