"""Asks a neighbour for the fleet's jobs when this agent joins, rather than waiting for its jobs' next announcements.

Masters announce their jobs every few seconds. An agent that was killed and is back would stand idle for as long, and
windows would wait for it. Announcements that a neighbour passes on are no more than if it had multicast them: who
leads a job is verified as ever. Where nobody answers, the next announcements tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import ANNOUNCEMENTS_MAX, Announce, AnnouncementBatch, JobsWanted
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from overlay import Id, Node, Peer

ASK_AGAIN_S = 0.5
"""Time after which another neighbour is asked, if the last one has not answered, or knows no jobs."""
ASKED_MAX = 4
"""Upper bound on the neighbours that are asked."""
TOLD_MAX = 1024
"""Upper bound on the jobs in an answer; of further ones the next announcements tell."""
BATCH_CHARACTERS = 1 << 16
"""Characters of queries past which a batch of announcements takes no further job."""


class JobInquiry:
    """The inquiry of an agent that joins, and its answers to others."""

    name = "job_inquiry"

    def __init__(self, node: Node, sender: MessageSender, directory: JobDirectory) -> None:
        self._node = node
        self._sender = sender
        self._directory = directory
        self._asked: dict[Id, None] = {}
        self._ask_at: float | None = None
        """Time to ask the next neighbour; None: no inquiry is under way."""
        self._told = 0

    def handlers(self) -> Handlers:
        return {
            JobsWanted: Handler(Via.DIRECT, self._wanted),
            AnnouncementBatch: Handler(Via.DIRECT, self._answered),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"told": self._told}

    @property
    def is_empty(self) -> bool:
        """Whether no inquiry is under way."""
        return self._ask_at is None

    def joined(self, now: float) -> None:
        """Begins the inquiry, once: an agent that was cut off, or stood still, and joins again knows the jobs."""
        if not self._asked:
            self._ask_at = now
            self.tick(now)

    def tick(self, now: float) -> None:
        """Asks a neighbour that has not been asked yet."""
        if self._ask_at is None or now < self._ask_at:
            return
        peer = next((one for one in self._node.neighbours(ASKED_MAX) if one.node_id not in self._asked), None)
        if peer is None:
            self._ask_at = None
            return
        self._asked[peer.node_id] = None
        self._ask_at = now + ASK_AGAIN_S
        self._sender.send(peer, JobsWanted(FLEET_GROUP), now)

    def _answered(self, batch: AnnouncementBatch, sender: Peer, now: float) -> bool:
        """Takes the jobs that a neighbour knows. One that this agent has led before it was started again has no master
        now: it is left to those that look for its next one."""
        if sender.node_id not in self._asked:
            return False
        own = self._node.peer.node_id
        jobs = [one for one in batch.jobs if one.master.node_id != own]
        self._told += len(jobs)
        if jobs:
            self._ask_at = None
        return self._directory.announced(jobs, now)

    def _wanted(self, _message: JobsWanted, sender: Peer, now: float) -> None:
        known = (one for one in self._directory.all() if one.master.node_id != sender.node_id)
        for batch in in_batches(islice(known, TOLD_MAX)):
            self._sender.send(sender, AnnouncementBatch(FLEET_GROUP, batch), now)


def in_batches(announcements: Iterable[Announce]) -> Iterator[list[Announce]]:
    """The announcements, as many together as a message may carry."""
    batch: list[Announce] = []
    characters = 0
    for one in announcements:
        batch.append(one)
        characters += len(one.text)
        if len(batch) == ANNOUNCEMENTS_MAX or characters > BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
