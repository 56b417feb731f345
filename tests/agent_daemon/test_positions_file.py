"""Positions on disk: the last ones that were stored whole are there after any end of the process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.daemon import positions_file
from agent.daemon.positions_file import PositionsFile
from agent.feeding.reading_ledger import FeedPosition
from agent.runtime.ingest.feed_memory import JobTerm
from agent.sources.file.followed_file import ReadUpTo

JOB = JobTerm(2**128 - 1, 1_700_000_000_000)


class Disk:
    """A folder, and the warnings of those who open it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "positions"
        self.warnings: list[str] = []

    def open(self, incarnation: int = 1) -> PositionsFile:
        return PositionsFile(self.path, incarnation, lambda what, why: self.warnings.append(f"{what}: {why}"))

    @property
    def generations(self) -> list[Path]:
        return list(self.path.parent.glob("positions.[01]"))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def position(offset: int, *, path: str = "/var/log/access.log", exact: bool = False) -> FeedPosition:
    file = ReadUpTo(path, (2049, 7), 4, "00ff", offset)
    return FeedPosition("web", (file,), 1_700_000_000_123, {JOB: 1_700_000_000_000}, exact)


def test_what_was_stored_last_is_found(disk: Disk) -> None:
    file = disk.open()
    assert file.found == []
    for offset in range(5):
        file.store([position(offset), replace(position(offset), stream="api")])
    assert disk.open(2).found == [position(4), replace(position(4), stream="api")]
    again = disk.open(2)
    again.store([position(9)])
    assert disk.open(3).found == [position(9)]
    assert disk.warnings == []


def test_paths_need_not_be_text(disk: Disk) -> None:
    odd = position(1, path=os.fsdecode(b"/var/log/caf\xe9.log"))
    disk.open().store([odd])
    assert disk.open(2).found == [odd]


@pytest.mark.parametrize("keep", [0, 1, 20, 40, -1])
def test_a_torn_generation_is_set_aside_and_the_one_before_counts(disk: Disk, keep: int) -> None:
    file = disk.open()
    file.store([position(1)])
    file.store([position(2)])
    newest = disk.path.with_name("positions.0")
    newest.write_bytes(newest.read_bytes()[:keep])
    found = disk.open(2).found
    assert found == [position(1)]
    (warning,) = disk.warnings
    assert "damaged" in warning
    assert newest.with_name(f"{newest.name}.damaged").exists()
    disk.open(2).store([position(3)])
    assert disk.open(3).found == [position(3)]


@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_no_bytes_do_harm(tmp_path_factory: pytest.TempPathFactory, at: int, bytes_: bytes) -> None:
    disk = Disk(tmp_path_factory.mktemp("disk"))
    disk.open().store([position(1)])
    (only,) = disk.generations
    content = only.read_bytes()
    damaged = content[:at] + bytes_ + content[at + len(bytes_) :]
    only.write_bytes(damaged)
    assert disk.open(2).found == ([position(1)] if damaged == content else [])


def test_more_than_the_disk_may_take_is_not_stored_and_the_last_ones_stay(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open()
    file.store([position(1)])
    monkeypatch.setattr(positions_file, "POSITIONS_BYTES_MAX", 1000)
    with pytest.raises(OSError, match="take more than"):
        file.store([position(number) for number in range(100)])
    assert disk.open(2).found == [position(1)]


def test_positions_are_exact_for_the_next_start_alone(disk: Disk) -> None:
    disk.open(1).store([position(1, exact=True)])
    assert disk.open(2).found == [position(1, exact=True)]
    assert disk.open(3).found == [position(1)], "a start in between may have counted more"
