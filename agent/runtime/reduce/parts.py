"""Sends a run that is too long for one message in parts, and puts parts together.

Theory of operation. The snapshot is encoded once; its parts are stretches of those bytes, which a digest names. So a
part says where it belongs whatever was lost, repeated or overtaken, and a run that is made anew for another parent,
epoch or life has another digest. The receiver acknowledges how far it has the bytes without a gap; that is what lets
the sender go on, within a window. A sender that hears nothing asks with one part, and takes the answer for the truth,
even if it is less than before: the receiver has begun anew. Once it has all bytes the receiver treats the snapshot as
if it had come whole, so that a run in parts is combined, kept and acknowledged as any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from agent.runtime.function.spill import SpillArea
from agent.runtime.messages.copies import CopyPart
from agent.runtime.messages.jobs import CODEC, Snapshot, SnapshotAck, SnapshotPart
from cbt import SpillError, SpillFile, SpillFiles
from overlay import Id

WHOLE_BYTES_MAX = 8 << 20
"""Upper bound on a snapshot that goes as one message; a longer one goes in parts."""
PART_BYTES = 1 << 19
"""Length of a part."""
WINDOW_PARTS = 16
"""Parts on their way at a time, of all trees of a job together but one of each tree at least: they have to fit the
queue to the peer, beside other messages."""
RUN_BYTES_MAX = 512 << 20
"""Upper bound on an encoded snapshot; of a longer one of a single pane only the reason goes up, and its contributors
are missing."""
FRAME_BYTES_MAX = 1 << 30
"""Upper bound on the state of one run after decompression, with the same consequence."""
ASSEMBLY_BYTES_MAX = 512 << 20
"""Upper bound on the snapshots that an agent puts together at a time; what does not fit is asked for again later."""
ASSEMBLY_MEMORY_MAX = 64 << 20
"""Upper bound on what is held of them in memory, beside parts that came before their turn; the rest is on disk."""
STRETCH_BYTES = 8 << 20
"""Upper bound on what is written to disk at once: the agent does nothing else meanwhile."""
PIECES_MAX = 1 << 16
"""Upper bound on the parts of one snapshot."""
ASSEMBLY_IDLE_S = 10.0
"""Time without a part after which what has arrived of a snapshot is dropped."""
KEPT_BYTES_MAX = 256 << 20
"""Upper bound on the snapshots that are kept until they are committed, of all trees of a job together."""
DUPLICATES = 3
"""Acknowledgements in a row that say the same after which the part they ask for counts as lost."""
TIMEOUTS_MAX = 8
"""Longest pause between two questions to a receiver that is silent, as a multiple of the first."""

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The bounds on runs that travel; the defaults are meant for production."""

    whole_bytes: int = WHOLE_BYTES_MAX
    part_bytes: int = PART_BYTES
    window_parts: int = WINDOW_PARTS
    run_bytes: int = RUN_BYTES_MAX
    frame_bytes: int = FRAME_BYTES_MAX
    assembly_bytes: int = ASSEMBLY_BYTES_MAX
    assembly_memory_bytes: int = ASSEMBLY_MEMORY_MAX
    kept_bytes: int = KEPT_BYTES_MAX


PRODUCTION = RunLimits()


class OutgoingParts(Generic[Part]):
    """An encoded message on its way in parts, each of which is made by `make` of the bytes' digest and length, and the
    part's place and bytes."""

    def __init__(self, encoded: bytes, make: Callable[[bytes, int, int, bytes], Part], limits: RunLimits) -> None:
        self._encoded = encoded
        self._make = make
        self._part_bytes, self._window = limits.part_bytes, limits.part_bytes * limits.window_parts
        self.digest = hashlib.blake2b(encoded, digest_size=16).digest()
        self._acknowledged = self._sent = 0
        self._repeats = 0
        self._moved_at: float | None = None
        self._timeouts = 1

    def due(self, now: float, timeout_s: float) -> list[Part]:
        """The parts to send now: as many as the window allows or, after a silence, one."""
        if self._moved_at is None:
            self._moved_at = now
        elif now - self._moved_at >= self._timeouts * timeout_s:
            self._moved_at, self._timeouts = now, min(TIMEOUTS_MAX, 2 * self._timeouts)
            last = (len(self._encoded) - 1) // self._part_bytes * self._part_bytes
            return [self._part(min(self._acknowledged, last))]
        parts = []
        while self._sent < min(len(self._encoded), self._acknowledged + self._window):
            parts.append(self._part(self._sent))
            self._sent += self._part_bytes
        return parts

    def _part(self, offset: int) -> Part:
        data = self._encoded[offset : offset + self._part_bytes]
        return self._make(self.digest, len(self._encoded), offset, data)

    def acknowledged(self, upto: int, now: float) -> list[Part]:
        """Takes the receiver's word on how far it has the bytes; returns a part that was lost, if one was."""
        is_of_part = upto == len(self._encoded) or upto % self._part_bytes == 0
        if not is_of_part or upto > len(self._encoded) or self._moved_at is None:
            return []
        if upto == self._acknowledged:
            self._repeats += 1
            return [self._part(upto)] if self._repeats == DUPLICATES and upto < len(self._encoded) else []
        if upto < self._acknowledged and self._timeouts == 1:
            return []  # overtaken
        self._sent = upto if upto < self._acknowledged else max(upto, self._sent)
        self._acknowledged, self._moved_at, self._timeouts, self._repeats = upto, now, 1, 0
        return []


class OutgoingRun(OutgoingParts[SnapshotPart]):
    """A snapshot on its way in parts."""

    def __init__(self, snapshot: Snapshot, limits: RunLimits) -> None:
        make = partial(SnapshotPart, snapshot.app_id, snapshot.epoch, snapshot.tree, stage=snapshot.stage)
        super().__init__(CODEC.encode(snapshot), make, limits)


@dataclass(slots=True)
class _Assembly:
    """A snapshot that is being put together: its bytes without a gap, the first of them perhaps on disk, and the parts
    beyond them by their offsets.
    """

    digest: bytes
    size: int
    heard_at: float
    data: bytearray = field(default_factory=bytearray)
    beyond: dict[int, bytes] = field(default_factory=dict)
    _spilled: list[SpillFile] = field(default_factory=list)
    _spilled_bytes: int = 0
    _beyond_bytes: int = 0

    @property
    def upto(self) -> int:
        """The number of bytes that have arrived without a gap."""
        return self._spilled_bytes + len(self.data)

    def add(self, part: SnapshotPart | CopyPart) -> bool:
        """Takes a part; False if no such part can be."""
        end, upto = part.offset + len(part.data), self.upto
        if not part.data or end > self.size or part.size != self.size:
            return False
        if part.offset < upto or part.offset in self.beyond:
            return True
        if upto + self._beyond_bytes + len(part.data) > self.size or len(self.beyond) >= PIECES_MAX:
            return False
        self.beyond[part.offset] = part.data
        self._beyond_bytes += len(part.data)
        while (following := self.beyond.pop(self.upto, None)) is not None:
            self._beyond_bytes -= len(following)
            self.data += following
        return True

    def spill(self, files: SpillFiles) -> None:
        """Writes the first of what is in memory to disk. May raise SpillError."""
        stretch = bytes(self.data[:STRETCH_BYTES])
        self._spilled.append(files.write(stretch))
        self._spilled_bytes += len(stretch)
        del self.data[: len(stretch)]

    def whole(self) -> bytearray:
        """The snapshot, which has arrived in full. May raise SpillError."""
        whole = bytearray()
        for file in self._spilled:
            whole += file.read()
        whole += self.data
        return whole


class RunAssembler:
    """Puts parts together: of each source (a sender's tree of a job) one snapshot at a time. What does not fit its
    memory is in the `area` until the last part; if the disk fails, in memory.

    `refused` counts parts for which there was no room, or that fit no snapshot.
    """

    def __init__(self, area: SpillArea | None = None) -> None:
        self._area = area
        self._files: SpillFiles | None = None
        self.limits = PRODUCTION
        self.refused = 0
        self._assemblies: dict[Id, dict[Hashable, _Assembly]] = {}
        self._taken: dict[Id, dict[Hashable, tuple[bytes, SnapshotAck]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._assemblies.values()))

    @property
    def used_bytes(self) -> int:
        """Bytes that are set aside, in memory or on disk."""
        return sum(one.size for of_job in self._assemblies.values() for one in of_job.values())

    def add(self, source: Hashable, part: SnapshotPart | CopyPart, now: float) -> int | bytearray | None:
        """Takes a part; returns the whole snapshot if it was the last, else how far it has arrived. None: refused.

        Room for the whole is set aside at its first part: two that wait for each other's room would both wait for ever.
        """
        of_job = self._assemblies.setdefault(part.app_id, {})
        known = of_job.get(source)
        if known is None or known.digest != part.digest:
            of_job.pop(source, None)
            known = self._begin(source, part, now)
        if known is None or not known.add(part):
            self.refused += 1
            return None
        known.heard_at = now
        if known.upto < known.size:
            self._keep_to_memory()
            return known.upto
        del of_job[source]
        try:
            return known.whole()
        except SpillError as error:
            self._disk_failed(error)  # the sender, asked for all of it again, sends it again
            self.refused += 1
            return None

    def _keep_to_memory(self) -> None:
        """Writes some of the longest to disk where all together are too long for the memory."""
        if self._area is None:
            return
        held = [one for of_job in self._assemblies.values() for one in of_job.values()]
        if sum(len(one.data) for one in held) <= self.limits.assembly_memory_bytes:
            return
        try:
            if self._files is None:
                self._files = SpillFiles(self._area.directory, self._area.quota)
            max(held, key=lambda one: len(one.data)).spill(self._files)
        except SpillError as error:
            self._disk_failed(error)

    def _disk_failed(self, error: SpillError) -> None:
        """Trusts the disk no more: from now on everything is held in memory."""
        if self._area is not None:
            self._area.could_not_write(error)
        self._area = None

    def _begin(self, source: Hashable, part: SnapshotPart | CopyPart, now: float) -> _Assembly | None:
        if not part.size or self.used_bytes + part.size > self.limits.assembly_bytes:
            return None
        assembly = self._assemblies[part.app_id][source] = _Assembly(part.digest, part.size, now)
        return assembly

    def taken(self, source: Hashable, digest: bytes, answer: SnapshotAck) -> None:
        """Remembers that a source's last snapshot has been taken: the answer may get lost."""
        self._taken.setdefault(answer.app_id, {})[source] = (digest, answer)

    def answer(self, source: Hashable, part: SnapshotPart) -> SnapshotAck | None:
        """The answer to a part of a snapshot that has been taken."""
        digest, answer = self._taken.get(part.app_id, {}).get(source, (b"", None))
        return answer if digest == part.digest else None

    def forget(self, app_id: Id) -> None:
        """Drops everything of a job."""
        self._assemblies.pop(app_id, None)
        self._taken.pop(app_id, None)

    def expire(self, now: float) -> None:
        """Drops what no part has come of for a while: its sender sends another snapshot, or none."""
        for of_job in self._assemblies.values():
            for source in [source for source, one in of_job.items() if now - one.heard_at > ASSEMBLY_IDLE_S]:
                del of_job[source]
