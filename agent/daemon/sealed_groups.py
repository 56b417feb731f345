"""Encodes what goes to the disk together: places in logs from which feeds are read again, and sealed runs.

Groups are written one after the other, and what is on the disk is what they add up to, in order. A place in a group is
one from which everything is read that the runs of this and earlier groups do not have.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

import cbt
from agent.feeding.reading_ledger import FeedPosition, Files, ReadTo
from agent.runtime.durable.records import (
    Chain,
    EndedJob,
    SealedRecord,
    SealedRun,
    StoredChain,
    StoredChains,
    StoredOldPanes,
    StoredPatch,
    StoredRun,
)
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import FIRST_PANE, Counted, Counts, OldPanes, Patch
from agent.sources.file.followed_file import ReadUpTo

RUN_BYTES = 256
"""Size of a run on disk without its state, about."""
CHAINS_MAX = 8
"""Upper bound on the versions of a job whose runs are kept: more are in force nowhere."""
_NO_STATE = -1


class _File(msgspec.Struct, frozen=True, array_like=True):
    path: bytes
    device: int
    inode: int
    fingerprint_bytes: int
    fingerprint: str
    offset: int
    modified_ns: int


class _Term(msgspec.Struct, frozen=True, array_like=True):
    app_id: bytes
    born_ms: int


class _JobBeginning(msgspec.Struct, frozen=True, array_like=True):
    job: _Term
    begins_ms: int


class _Feed(msgspec.Struct, frozen=True, array_like=True):
    stream: str
    complete_from_ms: int
    exact: bool
    files: list[_File]
    jobs: list[_JobBeginning]


class _Place(msgspec.Struct, frozen=True, array_like=True):
    stream: str
    files: list[_File]


_Counted = list[tuple[int, int, int, int, int, int, int]]


class _Patch(msgspec.Struct, frozen=True, array_like=True):
    carrier: int
    state: int
    counted: _Counted
    panes: list[int]
    lacks: bool


class _OldPanes(msgspec.Struct, frozen=True, array_like=True):
    after: int
    upto: int
    version: int
    function: bytes
    is_partial: bool
    counted: _Counted
    state: int


class _Run(msgspec.Struct, frozen=True, array_like=True, tag="run"):
    """A sealed run; `places` and states are indexes in its group."""

    job: _Term
    version: int
    function: bytes
    number: int
    after: int
    upto: int
    is_partial: bool
    counted: _Counted
    places: list[int]
    state: int
    held: list[tuple[int, int]]
    oldest: int
    patches: list[_Patch]
    before: list[_OldPanes] = []
    cut_by: int = 0


class _Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    job: _Term


class _Chain(msgspec.Struct, frozen=True, array_like=True, tag="chain"):
    """The sum of earlier groups for a chain: its last pane, and those with which needed runs end."""

    job: _Term
    version: int
    function: bytes
    upto: int
    places: list[int]
    held: list[tuple[int, int]]
    runs: list[int]


class SealedGroup(msgspec.Struct, frozen=True, array_like=True):
    """Records in order. `replaces`: they stand for all earlier groups but the runs that they name. `incarnation`: the
    start of the agent that has stored the positions, None for none."""

    replaces: bool
    incarnation: int | None
    positions: list[_Feed]
    places: list[_Place]
    states: list[bytes]
    records: list[_Run | _Ended | _Chain]


Loaded = dict[tuple[Chain, int], StoredRun]
"""Runs as they were read, by their chains and last panes."""


class _GroupBuilder:
    """Gathers records that share places and states."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.states: list[bytes] = []
        self._place_of: dict[tuple[str, int], int] = {}
        self._state_of: dict[int, int] = {}

    def place(self, stream: str, files: Files | list[_File]) -> int:
        """The index of a place, which is stored once; a list was stored before."""
        key = (stream, id(files))
        if key not in self._place_of:
            self._place_of[key] = len(self.places)
            stored = files if isinstance(files, list) else [_stored_file(one) for one in files]
            self.places.append(_Place(stream, stored))
        return self._place_of[key]

    def state(self, encoded: bytes) -> int:
        """The index of a state, which is stored once: jobs may share what they count."""
        if not encoded:
            return _NO_STATE
        if id(encoded) not in self._state_of:
            self._state_of[id(encoded)] = len(self.states)
            self.states.append(encoded)
        return self._state_of[id(encoded)]

    def _patch(self, patch: Patch) -> _Patch:
        state = self.state(cbt.encode_frame(patch.state) if patch.state.height else b"")
        counted = _stored_counts(patch.counted)
        return _Patch(patch.carrier, state, counted, list(patch.agents), bool(patch.lacking))

    def _old(self, old: OldPanes, functions: Mapping[int, bytes]) -> _OldPanes:
        state, function = cbt.encode_frame(old.state) if old.state.height else b"", functions.get(old.version, b"")
        counted = _stored_counts(old.counted)
        return _OldPanes(
            old.after, old.upto, old.version, function, bool(old.partial), counted, self.state(state)
        )  # fmt: skip

    def record(self, record: SealedRecord) -> _Run | _Ended:
        """A record as it is stored. O(bytes) of a state that was not encoded before."""
        match record:
            case SealedRun():
                return self._run(record)
            case EndedJob():
                return _Ended(_stored_term(record.term))

    def _run(self, sealed: SealedRun) -> _Run:
        run = sealed.run
        read = ((stream, place.reading) for (stream, _), place in sealed.at.places.items())
        return _Run(
            _stored_term(sealed.chain.term),
            sealed.chain.version,
            sealed.function,
            sealed.number,
            run.after,
            run.upto,
            bool(run.partial),
            _stored_counts(run.counted),
            [self.place(stream, reading.files) for stream, reading in read if isinstance(reading, ReadTo)],
            self.state(run.encoded_state if run.state.height else b""),
            list(sealed.at.held),
            sealed.oldest,
            [self._patch(patch) for patch in run.patches],
            [self._old(one, sealed.old_functions) for one in run.before],
            run.cut_by or 0,
        )


def _stored_counts(counted: Counted) -> _Counted:
    return [(pane, *counts) for pane, counts in counted.items()]


def _counted(stored: _Counted) -> Counted:
    return {pane: Counts(*counts) for pane, *counts in stored}


def says_anything(record: SealedRecord) -> bool:
    """Whether a record is to be stored: where no agent contributes, there is nothing to send again."""
    return not isinstance(record, SealedRun) or record.run.contributors > 0


def group_of(
    positions: Sequence[FeedPosition] | None, records: Sequence[SealedRecord], incarnation: int
) -> SealedGroup:
    """A group of what is new; positions are None if they have not changed."""
    builder = _GroupBuilder()
    stored = [builder.record(record) for record in records if says_anything(record)]
    feeds = [_stored_feed(one) for one in positions or ()]
    return SealedGroup(
        False, None if positions is None else incarnation, feeds, builder.places, builder.states, [*stored]
    )


@dataclass(slots=True)
class _KeptChain:
    """The content of the disk for a chain. `runs`: by the last pane, the first one, the file and its bytes there."""

    function: bytes
    upto: int = FIRST_PANE
    places: dict[str, list[_File]] = field(default_factory=dict)
    held: list[tuple[int, int]] = field(default_factory=list)
    runs: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def is_held(self, upto: int) -> bool:
        """Whether any pane of a run is needed."""
        after = self.runs[upto][0]
        return any(begin < upto and end > after for begin, end in self.held)


class KeptRuns:
    """The sum of groups. Files are known by numbers, with the bytes of runs in them that are still needed."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.live_bytes: dict[int, int] = {}
        self._positions: list[_Feed] = []
        self._chains: dict[Chain, _KeptChain] = {}

    def take(self, group: SealedGroup, file: int, loaded: Loaded | None = None) -> None:
        """Adds the next group, which is in a file. `loaded` gets its runs."""
        if group.replaces:
            named = {_chain_key(record) for record in group.records if isinstance(record, _Chain)}
            for chain in [chain for chain in self._chains if chain not in named]:
                self._end(chain)
        if group.incarnation is not None:
            self.incarnation, self._positions = group.incarnation, group.positions
            for feed in group.positions:
                if feed.exact:  # nothing that comes before it is read again
                    for kept in self._chains.values():
                        kept.places.pop(feed.stream, None)
        for record in group.records:
            match record:
                case _Run():
                    self._take_run(record, group, file, loaded)
                case _Ended(job=job):
                    for chain in [chain for chain in self._chains if chain.term == _term(job)]:
                        self._end(chain)
                case _Chain():
                    self._take_chain(record, group)

    def _take_run(self, record: _Run, group: SealedGroup, file: int, loaded: Loaded | None) -> None:
        chain = Chain(_term(record.job), record.version)
        kept = self._chains.get(chain)
        if kept is None or kept.function != record.function:
            kept = self._begin(chain, record.function)
        nbytes = RUN_BYTES + sum(len(group.states[state]) for state in _states_of(record))
        self._remove(kept, record.upto)
        kept.runs[record.upto] = (record.after, file, nbytes)
        self.live_bytes[file] = self.live_bytes.get(file, 0) + nbytes
        if loaded is not None:
            loaded[chain, record.upto] = _stored_run(record, group)
        if record.upto > kept.upto:
            kept.upto, kept.places, kept.held = record.upto, _places(record.places, group), record.held
            self._drop_unneeded(kept)
            for other in [one for one in self._chains if one.term == chain.term and one.version < record.oldest]:
                self._chains[other].held = []
                self._drop_unneeded(self._chains[other])

    def _begin(self, chain: Chain, function: bytes) -> _KeptChain:
        """Begins a chain, and drops those of versions long before."""
        of_job = sorted(one for one in {*self._chains, chain} if one.term == chain.term)
        for one in {chain, *of_job[:-CHAINS_MAX]} & self._chains.keys():
            self._end(one)
        self._chains[chain] = _KeptChain(function)
        return self._chains[chain]

    def _take_chain(self, record: _Chain, group: SealedGroup) -> None:
        chain, named = _chain_key(record), set(record.runs)
        kept = self._chains.get(chain)
        if kept is None or kept.function != record.function:
            kept = self._begin(chain, record.function)
        kept.upto, kept.places, kept.held = record.upto, _places(record.places, group), record.held
        for upto in [upto for upto in kept.runs if upto not in named]:
            self._remove(kept, upto)

    def _end(self, chain: Chain) -> None:
        kept = self._chains.pop(chain)
        for upto in list(kept.runs):
            self._remove(kept, upto)

    def _drop_unneeded(self, kept: _KeptChain) -> None:
        for upto in [upto for upto in kept.runs if not kept.is_held(upto)]:
            self._remove(kept, upto)

    def _remove(self, kept: _KeptChain, upto: int) -> None:
        if upto in kept.runs:
            _, file, nbytes = kept.runs.pop(upto)
            self.live_bytes[file] -= nbytes
            if not self.live_bytes[file]:
                del self.live_bytes[file]

    def drop_unneeded(self, group: SealedGroup) -> None:
        """Drops runs that a group says are not needed, before it is there."""
        for record in group.records:
            kept = self._chains.get(Chain(_term(record.job), record.version)) if isinstance(record, _Run) else None
            if kept is not None and isinstance(record, _Run):
                kept.held = record.held
                self._drop_unneeded(kept)

    def summary(self) -> SealedGroup:
        """The group with which a file begins: it stands for all before, but for the runs it names."""
        builder = _GroupBuilder()
        chains: list[_Run | _Ended | _Chain] = [
            _Chain(
                _stored_term(chain.term),
                chain.version,
                kept.function,
                kept.upto,
                [builder.place(stream, files) for stream, files in kept.places.items()],
                kept.held,
                list(kept.runs),
            )
            for chain, kept in self._chains.items()
        ]
        return SealedGroup(True, self.incarnation, self._positions, builder.places, [], chains)

    def still_needed(self, group: SealedGroup, file: int) -> SealedGroup | None:
        """The runs of a group in a file that are needed, for another file."""
        records = [
            record
            for record in group.records
            if isinstance(record, _Run)
            and (kept := self._chains.get(Chain(_term(record.job), record.version))) is not None
            and kept.runs.get(record.upto, (0, None, 0))[1] == file
        ]
        if not records:
            return None
        states = sorted({state for record in records for state in _states_of(record)})
        number = {state: index for index, state in enumerate(states)} | {_NO_STATE: _NO_STATE}
        moved = [
            msgspec.structs.replace(
                record,
                state=number[record.state],
                places=[],
                patches=[msgspec.structs.replace(one, state=number[one.state]) for one in record.patches],
                before=[msgspec.structs.replace(one, state=number[one.state]) for one in record.before],
            )
            for record in records
        ]
        return SealedGroup(False, None, [], [], [group.states[state] for state in states], [*moved])

    def positions(self, *, exact: bool) -> list[FeedPosition]:
        """The positions that were stored last; `exact`: nothing was read since."""
        return [_feed_position(feed, exact=feed.exact and exact) for feed in self._positions]

    def places(self) -> dict[Chain, dict[str, Files]]:
        """The places at which the last run of each chain was sealed, by stream."""
        return {
            chain: {stream: tuple(map(_file, files)) for stream, files in kept.places.items()}
            for chain, kept in self._chains.items()
        }

    def chains(self, loaded: Loaded) -> dict[JobTerm, StoredChains]:
        """The chains of each job, with the runs that were read."""
        found: dict[JobTerm, dict[int, StoredChain]] = {}
        for chain, kept in self._chains.items():
            runs = tuple(loaded[chain, upto] for upto in sorted(kept.runs) if (chain, upto) in loaded)
            found.setdefault(chain.term, {})[chain.version] = StoredChain(
                kept.function, kept.upto, runs, tuple(kept.held)
            )
        return dict(found)


def _chain_key(record: _Chain) -> Chain:
    return Chain(_term(record.job), record.version)


def _places(indexes: Iterable[int], group: SealedGroup) -> dict[str, list[_File]]:
    return {group.places[index].stream: group.places[index].files for index in indexes}


def _states_of(record: _Run) -> set[int]:
    """The states in its group that a run has."""
    patches, before = ({one.state for one in record.patches}, {one.state for one in record.before})
    return ({record.state} | patches | before) - {_NO_STATE}


def _stored_run(record: _Run, group: SealedGroup) -> StoredRun:
    def state(index: int) -> bytes:
        return b"" if index == _NO_STATE else group.states[index]

    patches = tuple(
        StoredPatch(one.carrier, state(one.state), _counted(one.counted), tuple(one.panes), one.lacks)
        for one in record.patches
    )
    before = tuple(
        StoredOldPanes(
            one.after, one.upto, one.version, one.function, one.is_partial, _counted(one.counted), state(one.state)
        )
        for one in record.before
    )
    counted = _counted(record.counted)
    after, upto, number, is_partial = record.after, record.upto, record.number, record.is_partial
    return StoredRun(after, upto, number, is_partial, counted, state(record.state), patches, before, record.cut_by)


def _stored_term(term: JobTerm) -> _Term:
    return _Term(term.app_id.to_bytes(16), term.born_ms)


def _term(stored: _Term) -> JobTerm:
    return JobTerm(int.from_bytes(stored.app_id), stored.born_ms)


def _stored_file(one: ReadUpTo) -> _File:
    path = os.fsencode(one.path)
    return _File(path, *one.identity, one.fingerprint_bytes, one.fingerprint, one.offset, one.modified_ns)


def _file(stored: _File) -> ReadUpTo:
    path, identity = os.fsdecode(stored.path), (stored.device, stored.inode)
    return ReadUpTo(path, identity, stored.fingerprint_bytes, stored.fingerprint, stored.offset, stored.modified_ns)


def _stored_feed(position: FeedPosition) -> _Feed:
    jobs = [_JobBeginning(_stored_term(job), begins) for job, begins in position.jobs.items()]
    files = [_stored_file(one) for one in position.files]
    return _Feed(position.stream, position.complete_from_ms, position.exact, files, jobs)


def _feed_position(feed: _Feed, *, exact: bool) -> FeedPosition:
    jobs = {_term(one.job): one.begins_ms for one in feed.jobs}
    return FeedPosition(feed.stream, tuple(map(_file, feed.files)), feed.complete_from_ms, jobs, exact)
