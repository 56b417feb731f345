"""Sealed runs and positions on disk: what was stored whole is there after any end of the process, and nothing else."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.daemon import sealed_files
from agent.daemon.sealed_files import SealedFiles
from agent.feeding.reading_ledger import FeedPosition, ReadTo
from agent.runtime.durable.records import (
    Chain,
    EndedJob,
    Place,
    SealedAt,
    SealedRecord,
    SealedRun,
    StoredChain,
    StoredRun,
)
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import SELF, Counts, Run
from agent.runtime.model.state_encoding import StateEncoding
from agent.sources.file.followed_file import ReadUpTo

JOBS = [JobTerm(2**128 - 1, 1_700_000_000_000), JobTerm(7, 8)]
STATE = pl.DataFrame({"pane": [1]})
ROOM = 1 << 30


def place(offset: int, path: str = "/var/log/access.log") -> tuple[ReadUpTo, ...]:
    return (ReadUpTo(path, (2049, 7), 4, "00ff", offset, 5),)


def position(offset: int, *, path: str = "/var/log/access.log", exact: bool = False) -> FeedPosition:
    return FeedPosition("web", place(offset, path), 1_700_000_000_123, {JOBS[0]: 1_700_000_000_000}, exact)


def sealed(
    job: JobTerm,
    after: int,
    upto: int,
    state: bytes = b"",
    *,
    held: int | None = None,
    version: int = 1,
    oldest: int = 0,
) -> SealedRun:
    """A run whose chain holds what lies after `held`."""
    frame = STATE if state else STATE.clear()
    run = Run(after, upto, SELF, frame, {upto: Counts(events=upto)}, encoding=StateEncoding(frame, state))
    at = SealedAt({("web", None): Place(1, ReadTo(place(10 * upto)))}, ((after if held is None else held, upto),))
    return SealedRun(Chain(job, version), b"function", run, at, 3, oldest)


class Disk:
    """A folder, and the warnings of those who open it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sealed"
        self.warnings: list[str] = []

    def open(self, incarnation: int = 1, room: int = ROOM) -> SealedFiles:
        return SealedFiles(self.path, incarnation, room, lambda what, why: self.warnings.append(f"{what}: {why}"))

    @property
    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.segment"), key=lambda path: int(path.stem))

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.segments)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@dataclass
class Model:
    """What groups add up to."""

    positions: list[FeedPosition] = field(default_factory=list)
    chains: dict[Chain, StoredChain] = field(default_factory=dict)

    def after(self, positions: list[FeedPosition] | None, records: list[SealedRecord]) -> Model:
        """The same with one more group."""
        new = Model(self.positions if positions is None else positions, dict(self.chains))
        for record in records:
            if isinstance(record, EndedJob):
                new.chains = {chain: kept for chain, kept in new.chains.items() if chain.term != record.term}
            else:
                new._seal(record)
        return new

    def _seal(self, record: SealedRun) -> None:
        run, held = record.run, record.at.held
        before = self.chains[record.chain].runs if record.chain in self.chains else ()
        state = run.encoded_state if run.state.height else b""
        stored = StoredRun(run.after, run.upto, record.number, bool(run.partial), run.counted, state)
        runs = [one for one in (*before, stored) if any(begin < one.upto and end > one.after for begin, end in held)]
        self.chains[record.chain] = StoredChain(record.function, run.upto, tuple(runs), held)
        for chain, kept in self.chains.items():
            if chain.term == record.chain.term and chain.version < record.oldest:
                self.chains[chain] = replace(kept, runs=(), held=())

    def without_unneeded(self, records: list[SealedRecord]) -> Model:
        """The same without the runs that records say are not needed."""
        new = Model(self.positions, dict(self.chains))
        for record in records:
            if isinstance(record, SealedRun) and record.chain in new.chains:
                held, kept = record.at.held, new.chains[record.chain]
                runs = tuple(run for run in kept.runs if any(a < run.upto and b > run.after for a, b in held))
                new.chains[record.chain] = replace(kept, runs=runs, held=held)
        return new


def found(files: SealedFiles) -> Model:
    chains = {Chain(term, version): one for term, chains in files.chains.items() for version, one in chains.items()}
    assert {chain: places["web"][0].offset for chain, places in files.places.items()} == {
        chain: 10 * kept.upto for chain, kept in chains.items()
    }, "the places are those of the last runs"
    return Model(files.positions, chains)


class Crashes(RuleBasedStateMachine):
    """Writes groups, and is killed at any byte of one."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.disk = Disk(Path(self._folder.name))
        self.model = Model()
        self.incarnation = 1
        self.files = self.disk.open()
        self.next = dict.fromkeys(JOBS, 0)
        self.version = dict.fromkeys(JOBS, 1)
        self.offset = 0

    def teardown(self) -> None:
        self._folder.cleanup()

    def _group(self, draws: list[tuple[int, int, int, int]]) -> tuple[list[FeedPosition] | None, list[SealedRecord]]:
        records: list[SealedRecord] = []
        for kind, job_number, size, kept in draws:
            job = JOBS[job_number]
            if kind == 0:
                records.append(EndedJob(job))
                self.next[job], self.version[job] = 0, 1
                continue
            if kind == 1:
                self.version[job] += 1
            after = self.next[job]
            upto = self.next[job] = after + 1 + kind % 3
            held, version = max(0, after - kept), self.version[job]
            records.append(
                sealed(job, after, upto, os.urandom(size), held=held, version=version, oldest=version - kept)
            )
        self.offset += 1
        return ([position(self.offset)] if self.offset % 3 else None), records

    draws = st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 900), st.integers(0, 9)), max_size=4
    )

    @rule(draws=draws)
    def write(self, draws: list[tuple[int, int, int, int]]) -> None:
        positions, records = self._group(draws)
        self.files.write(positions, records)
        self.model = self.model.after(positions, records)

    @rule()
    @precondition(lambda self: self.files.has_garbage)
    def clean(self) -> None:
        self.files.clean()

    @rule(draws=draws, survives=st.floats(0, 1), zeros=st.integers(0, 40), is_cleaning=st.booleans())
    def crash_while_writing(
        self, draws: list[tuple[int, int, int, int]], survives: float, zeros: int, is_cleaning: bool
    ) -> None:
        """The group is there as a whole or not at all, and so is what was moved."""
        before, next_, version = (
            {path: path.stat().st_size for path in self.disk.segments},
            dict(self.next),
            dict(self.version),
        )
        kept = {path: path.read_bytes() for path in self.disk.segments}
        positions, records = self._group(draws)
        after = self.model.after(positions, records)
        if is_cleaning and self.disk.segments:
            positions, records, after = None, [], self.model
            self.files.clean()
        else:
            self.files.write(positions, records)
        for path, content in kept.items():  # deletions come last
            if not path.exists():
                path.write_bytes(content)
        if self.disk.segments:
            newest = self.disk.segments[-1]
            written = newest.read_bytes()
            least = before.get(newest, _first_group_bytes(written))
            keep = least + round(survives * (len(written) - least))
            newest.write_bytes(written[:keep] + bytes(min(zeros, len(written) - keep)))
            (self.disk.path / "next").write_bytes(b"half a beginning")
            if keep < len(written) or is_cleaning:
                after = self.model
                self.next, self.version = next_, version
        self.model = after
        self.open_again()

    @rule()
    def open_again(self) -> None:
        self.incarnation += 1
        self.files = self.disk.open(self.incarnation)
        assert found(self.files) == self.model

    @rule(draws=draws)
    def have_no_room(self, draws: list[tuple[int, int, int, int]]) -> None:
        """What the disk does not take is not there, and all else is."""
        next_, version = dict(self.next), dict(self.version)
        _, records = self._group([(5, 0, 900, 3), *draws])
        full = self.disk.open(self.incarnation, 900)
        with pytest.raises(OSError, match="in use"):
            full.write(None, records)
        self.next, self.version = next_, version
        self.model = self.model.without_unneeded(records)
        self.open_again()

    @invariant()
    def is_bounded(self) -> None:
        assert self.disk.warnings == []
        assert self.files.disk_bytes == self.disk.size
        needed = sum(len(run.state) + 1000 for kept in self.model.chains.values() for run in kept.runs)
        if not self.files.has_garbage:
            assert self.disk.size <= 2 * needed + 12 * sealed_files.SEGMENT_BYTES


def _first_group_bytes(content: bytes) -> int:
    """The bytes with which a file begins: it is renamed when they are durable."""
    return sealed_files._HEAD.size + sealed_files._HEAD.unpack_from(content)[0]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_files, "SEGMENT_BYTES", 4000)


TestCrashes = Crashes.TestCase


def test_paths_need_not_be_text(disk: Disk) -> None:
    odd = position(1, path=os.fsdecode(b"/var/log/caf\xe9.log"))
    disk.open().write([odd], [])
    assert disk.open(2).positions == [odd]


@given(st.integers(0, 6000), st.binary(min_size=1, max_size=4))
def test_no_bytes_do_harm(tmp_path_factory: pytest.TempPathFactory, at: int, bytes_: bytes) -> None:
    """Of a damaged file the groups before count, and no state is another than what was sealed."""
    disk = Disk(tmp_path_factory.mktemp("disk"))
    files, states = disk.open(), {}
    for pane in range(8):
        states[pane + 1] = bytes([pane]) * 700
        files.write([position(pane)], [sealed(JOBS[0], pane, pane + 1, states[pane + 1], held=0)])
    damaged = disk.segments[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:at] + bytes_ + content[at + len(bytes_) :])
    again = disk.open(2)
    runs = [run for chains in again.chains.values() for chain in chains.values() for run in chain.runs]
    assert all(run.state == states[run.upto] for run in runs)
    assert runs[-1].upto == 8, "what other files have is there"
    assert again.positions == [position(7)]
    again.write([position(9)], [sealed(JOBS[0], 8, 9, b"new", held=0)])
    assert disk.open(3).positions == [position(9)]


def test_positions_are_exact_for_the_next_start_alone(disk: Disk) -> None:
    disk.open(1).write([position(1, exact=True)], [])
    assert disk.open(2).positions == [position(1, exact=True)]
    assert disk.open(3).positions == [position(1)], "a start in between may have counted more"


def test_jobs_that_count_the_same_share_the_room(disk: Disk) -> None:
    files, state = disk.open(), os.urandom(3000)
    runs = [sealed(JobTerm(number, 1), 0, 1, state) for number in range(20)]
    files.write(None, runs)
    assert disk.size < 10_000
    assert all(chains[1].runs[0].state == state for chains in disk.open(2).chains.values())


def test_past_its_bound_the_disk_takes_nothing_more_and_keeps_what_it_has(disk: Disk) -> None:
    files, upto, state = disk.open(), 5, os.urandom(3000)
    for pane in range(upto):
        files.write([position(pane)], [sealed(JOBS[0], pane, pane + 1, state, held=0)])
    room = disk.size + 1000
    files = disk.open(room=room)
    with pytest.raises(OSError, match="in use"):
        files.write([position(upto)], [sealed(JOBS[0], upto, upto + 1, state, held=0)])
    assert disk.size <= room + 1000, "the beginning of a file is small"
    again = disk.open(2, room)
    assert [run.upto for run in again.chains[JOBS[0]][1].runs] == list(range(1, upto + 1))
    again.write(None, [sealed(JOBS[0], upto, upto + 1, held=upto)])
    again.write(None, [sealed(JOBS[0], upto + 1, upto + 2, state)])
    assert disk.size <= 4000, "what was published leaves room"


def test_the_runs_of_versions_long_before_go(disk: Disk) -> None:
    files = disk.open()
    for version in range(1, 20):
        files.write(None, [sealed(JOBS[0], version, version + 1, b"state", version=version)])
    assert list(disk.open(2).chains[JOBS[0]]) == list(range(12, 20))
