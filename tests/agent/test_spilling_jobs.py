"""Jobs that count more than an agent may hold in memory: the disk takes the rest; where it fails, results say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from memory_fleet import COUNT, Fleet, events

from agent import SpillArea, WindowResult
from agent.parsing import Parsed
from agent.runtime.function.spill import UNREAD, UNWRITTEN
from agent.runtime.ingest import operator


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes goes into the tree at once."""
    monkeypatch.setattr(operator, "ROWS_PER_BATCH", 1)


class Disk:
    """The spill room of agent-0, with a limit that everything is beyond."""

    def __init__(self, folder: Path, fleet_size: int = 3) -> None:
        self.path = folder / "spill"
        self.path.mkdir()
        self.told: list[str] = []
        self.room = SpillArea(1, self.path, lambda what, _why: self.told.append(what))
        self.fleet = Fleet(fleet_size, rooms={"agent-0": self.room})

    @property
    def files(self) -> list[Path]:
        return [path for path in self.path.rglob("*") if path.is_file()]

    def break_off(self) -> None:
        """Nothing can be written, and everything that was is gone."""
        shutil.rmtree(self.path)
        self.path.write_text("no folder")

    def mend(self) -> None:
        self.path.unlink()
        self.path.mkdir()

    def outcome(self) -> list[tuple[str | None, list[str], int]]:
        """Each window with who lacks something, and how many rows it has."""
        return [(result.window_start, result.partial, len(result.rows)) for result in self.fleet.finish()]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def products(first: int, count: int, at_ms: int) -> Parsed:
    return events(*(f"product-{number}" for number in range(first, first + count)), at_ms=at_ms)


def feed(fleet: Fleet) -> list[WindowResult]:
    fleet.submit()
    for number in range(3):
        for at_ms in (1000, 2000, 1000, 3000):
            fleet.insert(number, products(number * 10, 30, at_ms))
    return fleet.finish()


def test_what_is_on_disk_is_in_results_as_if_it_were_not(disk: Disk) -> None:
    spilled = feed(disk.fleet)
    assert disk.files == []
    assert (disk.room.unwritten, disk.room.unread, disk.told) == (0, 0, [])
    assert [(list(r.rows), r.partial) for r in spilled] == [(list(r.rows), []) for r in feed(Fleet(3))]


def test_files_are_there_while_they_are_needed(disk: Disk) -> None:
    disk.fleet.submit()
    disk.fleet.insert(0, products(0, 30, 1000))
    assert disk.files
    disk.fleet.insert(1, products(0, 30, 1000))
    assert disk.outcome() == [("1970-01-01T00:00:01Z", [], 30)]
    assert list(disk.path.iterdir()) == []


def test_a_full_disk_costs_nothing_but_memory(disk: Disk) -> None:
    disk.fleet.submit()
    disk.break_off()
    for at_ms in (1000, 2000):
        disk.fleet.insert(0, products(0, 30, at_ms))
    assert disk.told == [UNWRITTEN, UNWRITTEN]
    disk.mend()
    disk.fleet.insert(0, products(5, 30, 2000))
    assert disk.files
    assert disk.outcome() == [("1970-01-01T00:00:01Z", [], 30), ("1970-01-01T00:00:02Z", [], 35)]
    assert (disk.room.unwritten, disk.room.unread) == (2, 0)


def test_a_job_that_begins_without_a_disk_stays_in_memory(disk: Disk) -> None:
    disk.break_off()
    disk.fleet.submit()
    disk.fleet.insert(0, products(0, 30, 1000))
    assert disk.told == [UNWRITTEN]
    assert disk.outcome() == [("1970-01-01T00:00:01Z", [], 30)]


@pytest.mark.parametrize("damage", [b"", b"something else"])
def test_what_cannot_be_read_is_named_in_its_window_alone(disk: Disk, damage: bytes) -> None:
    disk.fleet.submit()
    disk.fleet.insert(0, products(0, 30, 2000))
    for path in disk.files:
        path.write_bytes(damage)
    disk.fleet.insert(0, products(0, 20, 1000))
    disk.fleet.insert(0, products(0, 10, 3000))
    disk.fleet.insert(1, products(25, 15, 2000))
    assert disk.outcome() == [
        ("1970-01-01T00:00:01Z", [], 20),
        ("1970-01-01T00:00:02Z", ["agent-0"], 15),
        ("1970-01-01T00:00:03Z", [], 10),
    ]
    assert (disk.told.count(UNREAD), disk.room.unread) == (1, 1)
    assert disk.files == []


def test_the_only_window_of_a_job_says_so_too(disk: Disk) -> None:
    disk.fleet.submit(COUNT.removesuffix(" WINDOWING 1 SECOND"))
    disk.fleet.insert(0, products(0, 30, 2000))
    disk.fleet.insert(0, Parsed((), malformed=2))
    disk.break_off()
    disk.mend()
    disk.fleet.insert(1, products(0, 3, 2000))
    (result,) = disk.fleet.finish()
    assert (result.partial, len(result.rows), result.malformed) == (["agent-0"], 3, 2)
    assert (result.contributors, result.expected, result.events) == (3, 3, 33)


def test_live_windows_go_on_after_one_that_could_not_be_read(disk: Disk) -> None:
    fleet = disk.fleet
    fleet.submit(bounded=False)
    fleet.catch_up()
    begin = fleet.wall_ms + 1000
    fleet.insert(0, products(0, 30, begin))
    disk.break_off()
    disk.mend()
    fleet.insert(0, products(0, 20, begin + 1000))
    for number in range(3):
        fleet.insert(number, products(0, 1, begin + 20_000))
    fleet.wait(20.0)
    fleet.catch_up()
    fleet.wait(1.0)
    assert [(result.partial, len(result.rows)) for result in fleet.results[:2]] == [(["agent-0"], 0), ([], 20)]


def test_memory_stays_within_its_limit(tmp_path: Path) -> None:
    limit = 4 << 20
    room = SpillArea(limit, tmp_path)
    fleet = Fleet(1, rooms={"agent-0": room})
    fleet.submit()
    for block in range(8):
        times = pl.Series([1000] * 50_000, dtype=pl.Int64)
        names = pl.Series([f"a rather long name of product {block} {number}" for number in range(50_000)])
        fleet.insert(0, Parsed((pl.DataFrame({"@time": times, "product": names}),), malformed=0))
        (job,) = fleet.agents[0].status().jobs
        assert job.memory_bytes <= limit
    (result,) = fleet.finish()
    assert (len(result.rows), result.partial, room.unwritten) == (400_000, [], 0)
