"""Tells a job's master what the elements of this agent have given up, so that results say it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.sender import MessageSender
from agent.runtime.messages.views.element_views import ElementsGiven
from agent.runtime.model import contributors
from agent.runtime.model.element_losses import NOTHING, Given
from overlay import Id, Node, Peer

AGAIN_S = 5.0
"""Interval at which what is unchanged is told again: a message may be lost, a master new."""


class LosingJob(Protocol):
    """A keyed job as far as it gives things up."""

    @property
    def app_id(self) -> Id: ...
    def given_up(self) -> Mapping[str, int]: ...
    def lost_nodes(self) -> Collection[int]: ...


class LosingJobs(Protocol):
    """The keyed jobs of this agent. `on_lost` is told at once of nodes begun anew."""

    on_lost: Callable[[float], None]

    def __iter__(self) -> Iterator[LosingJob]: ...


class ElementLossReports:
    """Reports of all keyed jobs on one agent: sent when they change, and taken where the master is."""

    name = "element_losses"

    def __init__(
        self, node: Node, sender: MessageSender, jobs: LosingJobs, local: LocalJobs, masters: JobMasters
    ) -> None:
        self._node = node
        self._sender = sender
        self._jobs = jobs
        self._local = local
        self._masters = masters
        self._told: dict[Id, tuple[int, Given, float]] = {}
        self._refused = 0
        jobs.on_lost = self.tick

    def handlers(self) -> Handlers:
        return {ElementsGiven: Handler(Via.DIRECT, self._take)}

    def statistics(self) -> Mapping[str, int]:
        return {"told": len(self._told), "refused": self._refused}

    def tick(self, now: float) -> None:
        """Tells masters what is new."""
        told: dict[Id, tuple[int, Given, float]] = {}
        for job in self._jobs:
            local = self._local.get(job.app_id)
            if local is None or local.master_peer is None:
                continue
            given, master = given_up(job), local.master_peer
            last_master, last, at = self._told.get(job.app_id, (0, NOTHING, 0.0))
            if given != last or (given != NOTHING and (master.node_id != last_master or now - at >= AGAIN_S)):
                self._tell(job.app_id, master, given, now)
                last_master, last, at = master.node_id, given, now
            told[job.app_id] = (last_master, last, at)
        self._told = told

    def _tell(self, app_id: Id, master: Peer, given: Given, now: float) -> None:
        own = self._node.peer
        if master.node_id == own.node_id:
            self._note(app_id, own.node_id, given)
        else:
            lost = contributors.to_bytes(given.lost)
            told = ElementsGiven(app_id, given.evicted, given.shed, lost, given.failed, given.missed)
            self._sender.send(master, told, now)

    def _take(self, message: ElementsGiven, sender: Peer, _now: float) -> bool:
        lost = contributors.from_bytes(message.lost)
        given = Given(message.evicted, message.shed, lost, message.failed, message.missed)
        return self._note(message.app_id, sender.node_id, given)

    def _note(self, app_id: Id, node_id: int, given: Given) -> bool:
        """Notes what a member of a job that is led here has given up; False for anybody else."""
        state = self._masters.state(app_id)
        if state is None or not state.roster.numbers_of(node_id):
            return False
        state.element_losses.note(node_id, given)
        return True


def given_up(job: LosingJob) -> Given:
    """Reads what the elements of one job on this agent have given up since they have begun here."""
    counts = job.given_up()
    lost = sum(1 << node for node in job.lost_nodes())
    return Given(counts["evicted"], counts["shed"], lost, counts["failed"], counts["missed"])
