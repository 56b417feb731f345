"""Keeps what this agent has sealed and its masters have not published, for the agents that hold copies of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.runtime.messages.copies import RUNS_MAX
from agent.runtime.messages.jobs import CODEC, Snapshot
from overlay import Id

OWN_BYTES_MAX = 64 << 20
"""Upper bound on the runs that are kept for their holders; beyond it the oldest have no further copies made."""
MESSAGE_BYTES = 1 << 18
"""Bytes past which a message takes no further run."""
Key = tuple[int, int, int]


@dataclass(slots=True)
class OwnRun:
    """A run, the agents to which it is on its way or which hold it, and those that hold it."""

    snapshot: Snapshot
    sent_to: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    _encoded: bytes | None = None

    def encoded(self) -> bytes:
        """The encoded run, made once for all holders that are to have it."""
        if self._encoded is None:
            self._encoded = CODEC.encode(self.snapshot)
        return self._encoded

    def held_by(self, holder: int) -> None:
        """Notes that an agent holds it."""
        self.held.add(holder)
        if self.held >= self.sent_to:
            self._encoded = None

    @property
    def key(self) -> Key:
        """Its tree and panes."""
        return self.snapshot.tree, self.snapshot.after, self.snapshot.upto


class OwnRuns:
    """The runs of one agent that holders are to have. `dropped` counts those of which no further copy is made."""

    def __init__(self) -> None:
        self.dropped = 0
        self.bytes_max = OWN_BYTES_MAX
        self._runs: dict[Id, dict[Key, OwnRun]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    def __iter__(self) -> Iterator[Id]:
        return iter(list(self._runs))

    def add(self, snapshot: Snapshot) -> None:
        """Keeps a run, unless holders have it as it is: a new master gets all again."""
        of_job = self._runs.setdefault(snapshot.app_id, {})
        run = OwnRun(snapshot)
        known = of_job.get(run.key)
        if known is not None and _says_the_same(known.snapshot, snapshot):
            return
        self._bytes += snapshot.size - (0 if known is None else known.snapshot.size)
        of_job[run.key] = run
        self._keep_to_bound()

    def _keep_to_bound(self) -> None:
        for app_id in self:
            for key in list(self._runs[app_id]):
                if self._bytes <= self.bytes_max:
                    return
                self.dropped += 1
                self._remove(app_id, key)

    def _remove(self, app_id: Id, key: Key) -> None:
        self._bytes -= self._runs[app_id].pop(key).snapshot.size
        if not self._runs[app_id]:
            del self._runs[app_id]

    def commit(self, app_id: Id, frontier: int) -> None:
        """Frees what is published."""
        for key in [key for key in self._runs.get(app_id, ()) if key[2] <= frontier]:
            self._remove(app_id, key)

    def drop(self, app_id: Id) -> None:
        """Frees everything of a job."""
        for key in list(self._runs.get(app_id, ())):
            self._remove(app_id, key)

    def has(self, run: OwnRun) -> bool:
        """Whether holders are still to have a run."""
        return self._runs.get(run.snapshot.app_id, {}).get(run.key) is run

    def to_send(self, app_id: Id, holder: int) -> Iterable[list[OwnRun]]:
        """The runs of a job that are to be sent to a holder, by message; they count as sent."""
        found: list[OwnRun] = []
        size = 0
        for run in self._runs.get(app_id, {}).values():
            if holder in run.sent_to:
                continue
            run.sent_to.add(holder)
            found.append(run)
            size += run.snapshot.size
            if size >= MESSAGE_BYTES or len(found) == RUNS_MAX:
                yield found
                found, size = [], 0
        if found:
            yield found


def _says_the_same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two runs of the same panes are one, handed in to two masters of a job."""
    mine = (one.epoch.born_ms, one.version, one.contributors, one.partial, one.counted, len(one.state))
    return mine == (
        other.epoch.born_ms, other.version, other.contributors, other.partial, other.counted, len(other.state),
    )  # fmt: skip
