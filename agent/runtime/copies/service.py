"""Sends this agent's sealed runs to its holders, holds those of others, and gives them to masters that lack them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.runtime.copies.copy_sender import CopySender
from agent.runtime.copies.held import OWNER_BYTES_MAX, HeldRun, HeldRuns, read_copy
from agent.runtime.copies.own import MESSAGE_BYTES, OwnRun, OwnRuns
from agent.runtime.copies.racks import Racks
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.copies import (
    RUNS_MAX,
    Copies,
    CopyAck,
    CopyPart,
    CopyPartAck,
    CopyRequest,
    CopyResponse,
    GivenResponse,
    HoldersNote,
    RackAnnouncement,
)
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, Snapshot
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import Run
from agent.runtime.model.step_clock import StepClock
from agent.runtime.reduce.snapshot import StateEncoder
from overlay import Id, Node, Peer

HOLDERS = 2
"""Number of agents that hold a copy of each sealed run."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The number of agents that hold an agent's runs, and the rack that its server stands in; "" is none."""

    holders: int = HOLDERS
    rack: str = ""


COPIES = CopyOptions()


class RunCopies:
    """Copies of one agent's runs on some others, and copies of others' runs here."""

    name = "copies"

    def __init__(
        self,
        node: Node,
        sender: MessageSender,
        jobs: LocalJobs,
        masters: JobMasters,
        directory: JobDirectory,
        clock: StepClock,
        options: CopyOptions,
    ) -> None:
        self.refused = self.unheld = self.oversized = self.given = 0
        self._node = node
        self._jobs = jobs
        self._masters = masters
        self._directory = directory
        self._sender = sender
        self.wanted = options.holders
        """The number of agents that hold what this one seals from now on."""
        self.racks = Racks(node, sender, options.rack)
        self.held = HeldRuns()
        self.own = OwnRuns()
        self.on_given: Callable[[GivenResponse, Peer, float], bool] = lambda _message, _sender, _now: False
        """Takes what comes in parts, as copies do, and is none."""
        self.copy_sender = CopySender(sender, clock, jobs.ingest.area)
        self._told: dict[Id, tuple[JobEpoch, Sequence[Peer]]] = {}
        self._sealed: deque[tuple[LocalJob, list[Run]]] = deque()
        jobs.on_leaving = self.sealed

    def handlers(self) -> Handlers:
        return {
            RackAnnouncement: Handler(Via.DIRECT, self.racks.told),
            Copies: Handler(Via.DIRECT, self.hold),
            CopyResponse: Handler(Via.DIRECT, self.recover),
            HoldersNote: Handler(Via.DIRECT, self.note_holders),
            CopyAck: Handler(Via.DIRECT, self.copy_sender.acknowledged),
            CopyRequest: Handler(Via.FLEET | Via.DIRECT, self.give),
            CopyPart: Handler(Via.DIRECT, self.part),
            CopyPartAck: Handler(Via.DIRECT, self.copy_sender.part_acknowledged),
        }

    def statistics(self) -> Mapping[str, int]:
        asked = [master.lacking.copies for master in self._masters.held.values()]
        return {
            "refused": self.refused + self.held.refused + self.copy_sender.assembler.refused,
            "held": len(self.held),
            "held_bytes": self.held.bytes,
            "kept": len(self.own),
            "messages": self.copy_sender.sent,
            "sent_bytes": self.copy_sender.sent_bytes,
            "unheld": self.unheld + self.own.dropped + self.oversized,
            "given": self.given,
            "asked": sum(requests.asked for requests in asked),
            "recovered": sum(requests.recovered for requests in asked),
        }

    # The owner.

    def sealed(self, job: LocalJob, runs: Sequence[Run]) -> None:
        """Takes the pieces of a sealed run that may leave this agent now. They are sent when there is nothing else to
        do."""
        pieces = [run for run in runs if run.contributors]
        if not self.wanted or not pieces or not job.is_copied or not self._node.neighbours(1):
            return
        if job.encoder is None:
            job.encoder = StateEncoder()
        self._sealed.append((job, pieces))

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return bool(self._sealed)

    def step(self, now: float) -> None:
        """Sends the copies of one sealed run on their way, unless it is published already."""
        if not self._sealed:
            return
        job, pieces = self._sealed.popleft()
        if self._jobs.get(job.app_id) is job and job.is_on_roster:
            for piece in pieces:
                for snapshot in job.snapshots_of(piece) if piece.upto > job.committed else ():
                    self._keep(snapshot)
            self._send(job.app_id, self._holders(), now)
        if all(other is not job for other, _ in self._sealed):
            job.encoder = None

    def _keep(self, snapshot: Snapshot) -> None:
        if snapshot.size > OWNER_BYTES_MAX // 2:
            self.oversized += 1
        elif snapshot.contributors:
            self.own.add(snapshot)

    def _holders(self) -> tuple[Peer, ...]:
        return self.racks.choose(self.wanted)

    def _send(self, app_id: Id, holders: Sequence[Peer], now: float) -> None:
        self._tell_holders(app_id, holders, now)
        for peer in holders:
            for runs in list(self.own.to_send(app_id, peer.node_id)):
                self.copy_sender.send(peer, self._message_of(runs), self._settled(peer, runs), now)

    def _tell_holders(self, app_id: Id, holders: Sequence[Peer], now: float) -> None:
        """Tells the job's master about the holders, unless it knows."""
        job = self._jobs.get(app_id)
        if job is not None and job.epoch is not None and self._told.get(app_id) != (job.epoch, holders):
            self._told[app_id] = (job.epoch, holders)
            self._jobs.send_to_master(job, HoldersNote(app_id, job.epoch, list(holders)), now)

    def _message_of(self, runs: list[OwnRun]) -> Callable[[int], Copies | None]:
        def make(serial: int) -> Copies | None:
            wanted = [run for run in runs if self.own.has(run)]
            if not wanted:
                return None
            newest = wanted[-1].snapshot
            return Copies(newest.app_id, newest.epoch, serial, [run.encoded() for run in wanted])

        return make

    def _settled(self, peer: Peer, runs: list[OwnRun]) -> Callable[[bool, float], None]:
        def settled(held: bool, _now: float) -> None:
            for run in runs:
                if held:
                    run.held_by(peer.node_id)
                elif self.own.has(run):
                    self.unheld += 1

        return settled

    # The holder.

    def hold(self, message: Copies, sender: Peer, now: float) -> bool:
        """Holds runs of an agent near this one; False if the job is not known here (yet), or the agent is not near."""
        known = self._directory.get(message.app_id)
        if known is None or sender.node_id not in self._node.leaf_set:
            return False
        held = self.held.hold(sender.node_id, message, known)
        self._sender.send(sender, CopyAck(message.app_id, message.serial, held), now)
        return True

    def give(self, message: CopyRequest, *about: Any) -> bool:
        """Sends the master what this agent holds of the agents that it lacks; False if it is not known as master.

        It may be anybody who asks, and in any way: the answer goes to the master alone. `about` ends with the time.
        """
        *_, now = about
        known = self._directory.get(message.app_id)
        if known is None or known.epoch != message.epoch:
            return False
        for owner in message.owners:
            found: list[HeldRun] = []
            for run in self.held.of(message.app_id, owner, message.after):
                if run.given == message.epoch:
                    continue
                found.append(run)
                if sum(one.size for one in found) >= MESSAGE_BYTES or len(found) == RUNS_MAX:
                    self._give(known, owner, found, now)
                    found = []
            if found:
                self._give(known, owner, found, now)
        return True

    def _give(self, known: Announce, owner: Id, runs: list[HeldRun], now: float) -> None:
        for run in runs:
            run.given = known.epoch
        self.given += len(runs)

        def make(serial: int) -> CopyResponse:
            return CopyResponse(known.app_id, known.epoch, serial, owner, [run.encoded for run in runs])

        def settled(held: bool, _now: float) -> None:
            for run in runs:
                run.given = known.epoch if held else None

        self.copy_sender.send(known.master, make, settled, now)

    # The master.

    def note_holders(self, message: HoldersNote, sender: Peer, _now: float) -> bool:
        """Tells the job's master, if it is here, which agents hold the runs of a worker."""
        master = self._masters.get(message.app_id)
        if master is None or master.state.epoch != message.epoch:
            return False
        if not master.state.roster.numbers_of(sender.node_id):
            return False
        master.lacking.copies.note_holders(sender.node_id, message.holders)
        return True

    def recover(self, message: CopyResponse, sender: Peer, now: float) -> bool:
        """Gives the job's master, if it is here, the runs of an agent that it lacks."""
        master = self._masters.get(message.app_id)
        if master is None or master.state.epoch != message.epoch or master.ended is not None:
            return False
        read = [read_copy(encoded, message.app_id, master.state.trees) for encoded in message.runs]
        runs = [snapshot for snapshot in read if snapshot is not None]
        self.refused += len(read) - len(runs)
        wanted = master.recover(message.owner, runs, now)
        self._sender.send(sender, CopyAck(message.app_id, message.serial, wanted), now)
        return wanted

    # Messages with copies.

    def part(self, message: CopyPart, sender: Peer, now: float) -> bool:
        """Takes a part of a message, and the message once all parts are there."""
        if self._directory.get(message.app_id) is None:
            return False
        arrived = self.copy_sender.take_part(sender, message, now)
        if arrived is None:
            return False
        if isinstance(arrived, CopyPartAck):
            self._sender.send(sender, arrived, now)
            return True
        if isinstance(arrived, GivenResponse):
            return self.on_given(arrived, sender, now)
        return self.hold(arrived, sender, now) if isinstance(arrived, Copies) else self.recover(arrived, sender, now)

    # Time.

    def drop(self, app_id: Id, _now: float) -> None:
        """Frees everything of a job that is over, or unknown."""
        self.held.drop(app_id)
        self.own.drop(app_id)
        self.copy_sender.forget(app_id)
        self._told.pop(app_id, None)

    def tick(self, now: float) -> None:
        """Frees what is published, sends to new holders, and sends again what nobody has acknowledged."""
        self.racks.tick(now)
        self._free()
        if len(self.own):
            holders = self._holders()
            for app_id in self.own:
                self._send(app_id, holders, now)
        self.copy_sender.tick(now)

    def _free(self) -> None:
        for app_id in self.own:
            job = self._jobs.get(app_id)
            if job is None or job.pipeline is None:
                self.own.drop(app_id)
            else:
                self.own.commit(app_id, job.committed)
        for app_id in self.held.jobs():
            known, job = self._directory.get(app_id), self._jobs.get(app_id)
            if known is not None:
                is_nearer = job is not None and job.epoch == known.epoch
                self.held.free(app_id, known.epoch.born_ms, job.committed if job and is_nearer else known.frontier)
