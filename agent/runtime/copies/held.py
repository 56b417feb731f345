"""Holds the copies that other agents have sent here, until masters announce that their panes are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agent.runtime.messages.copies import Copies
from agent.runtime.messages.jobs import CODEC, Announce, Snapshot
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from overlay import Id, WireError

OWNER_BYTES_MAX = 64 << 20
"""Upper bound on the runs that are held of one agent, of all jobs; beyond it further ones are refused."""
HELD_BYTES_MAX = 256 << 20
"""Upper bound on the runs that are held of all agents, with the same consequence."""
RUN_OVERHEAD = 256
"""Bytes that a run counts for beside its content."""


@dataclass(slots=True)
class HeldRun:
    """An encoded run of another agent. `given`: the epoch of the master that has taken it."""

    encoded: bytes
    tree: int
    after: int
    upto: int
    given: JobEpoch | None = None

    @property
    def size(self) -> int:
        return len(self.encoded) + RUN_OVERHEAD


@dataclass(slots=True)
class _OfOwner:
    """The runs of one agent in one job, born at a time."""

    born_ms: int
    runs: list[HeldRun] = field(default_factory=list)


def read_copy(encoded: bytes, app_id: Id, trees: int) -> Snapshot | None:
    """The snapshot that an owner's run is encoded in; None if no honest agent could have made it of its own events.

    Its state is not looked at: the master that uses it decodes it as any peer's.
    """
    try:
        snapshot = CODEC.decode(encoded, OWNER_BYTES_MAX)
    except WireError:
        return None
    if not isinstance(snapshot, Snapshot) or snapshot.app_id != app_id or snapshot.tree >= trees:
        return None
    owner = contributors.from_bytes(snapshot.contributors)
    is_one = owner.bit_count() == 1 and not contributors.from_bytes(snapshot.partial) & ~owner
    is_plain = not (snapshot.leaped or snapshot.losses or snapshot.of_root)
    return snapshot if is_one and is_plain and snapshot.after < snapshot.upto else None


class HeldRuns:
    """The copies on one agent. `refused` counts those that were unsound or for which there was no room."""

    def __init__(self) -> None:
        self.refused = 0
        self.owner_bytes_max, self.bytes_max = OWNER_BYTES_MAX, HELD_BYTES_MAX
        self._held: dict[Id, dict[int, _OfOwner]] = {}
        self._bytes: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(len(one.runs) for of_job in self._held.values() for one in of_job.values())

    @property
    def bytes(self) -> int:
        """Bytes of all runs that are held."""
        return sum(self._bytes.values())

    def hold(self, owner: int, message: Copies, known: Announce) -> bool:
        """Holds an owner's runs of a known job; False if any of them is unsound, or has no room.

        What the owner says now replaces what it has said before of the same panes.
        """
        if message.epoch.born_ms != known.epoch.born_ms:
            return False
        read = [(encoded, read_copy(encoded, message.app_id, known.trees)) for encoded in message.runs]
        all_held = True
        for encoded, snapshot in read:
            if snapshot is None:
                self.refused += 1
                all_held = False
            elif snapshot.upto > known.frontier:
                run = HeldRun(encoded, snapshot.tree, snapshot.after, snapshot.upto)
                all_held &= self._add(owner, message.app_id, message.epoch.born_ms, run)
        return all_held

    def _add(self, owner: int, app_id: Id, born_ms: int, run: HeldRun) -> bool:
        of_owner = self._held.setdefault(app_id, {}).setdefault(owner, _OfOwner(born_ms))
        if of_owner.born_ms != born_ms:
            self._keep(owner, of_owner, lambda _one: False)
            of_owner.born_ms = born_ms
        self._keep(owner, of_owner, lambda one: one.tree != run.tree or one.upto <= run.after or run.upto <= one.after)
        of_this_owner = self._bytes.get(owner, 0)
        if of_this_owner + run.size > self.owner_bytes_max or self.bytes + run.size > self.bytes_max:
            self.refused += 1
            return False
        of_owner.runs.append(run)
        self._bytes[owner] = of_this_owner + run.size
        return True

    def _keep(self, owner: int, of_owner: _OfOwner, is_kept: Callable[[HeldRun], bool]) -> None:
        kept = [run for run in of_owner.runs if is_kept(run)]
        if len(kept) < len(of_owner.runs):
            self._bytes[owner] -= sum(run.size for run in of_owner.runs) - sum(run.size for run in kept)
            of_owner.runs = kept
            if not self._bytes[owner]:
                del self._bytes[owner]

    def free(self, app_id: Id, born_ms: int, frontier: int) -> None:
        """Frees what the job that was born at a time has published, and all of an earlier one of its name."""
        of_job = self._held.get(app_id, {})
        for owner, of_owner in list(of_job.items()):
            is_of_job = of_owner.born_ms == born_ms
            self._keep(owner, of_owner, lambda run: is_of_job and run.upto > frontier)  # noqa: B023 - called at once
            if not of_owner.runs:
                del of_job[owner]
        if not of_job:
            self._held.pop(app_id, None)

    def drop(self, app_id: Id) -> None:
        """Frees everything of a job that is over."""
        for owner, of_owner in self._held.pop(app_id, {}).items():
            self._keep(owner, of_owner, lambda _run: False)

    def jobs(self) -> list[Id]:
        """The jobs of which runs are held."""
        return list(self._held)

    def of(self, app_id: Id, owner: int, after: int) -> Iterator[HeldRun]:
        """The runs of an agent in a job with panes beyond one."""
        of_owner = self._held.get(app_id, {}).get(owner)
        return (run for run in (of_owner.runs if of_owner is not None else ()) if run.upto > after)
