"""The agent's folder: starts are counted, whatever happened to the file, and one agent at a time uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.daemon.data_directory import ClockFile, DataDirectory
from agent.errors import StartError

WALL_S = 1_767_323_045


def start(path: Path) -> int:
    with DataDirectory(path) as directory:
        return directory.next_incarnation(WALL_S)


def test_every_start_has_the_next_number(tmp_path: Path) -> None:
    assert [start(tmp_path / "var" / "elf") for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1" * 30, b"\xff\x00", "\u0663".encode()])
def test_a_damaged_file_never_sets_the_count_back(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "incarnation").write_bytes(content)
    assert [start(tmp_path), start(tmp_path)] == [WALL_S + 1, WALL_S + 2]


def test_a_start_that_broke_off_while_writing_changes_nothing(tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "incarnation.new").write_text("99")
    assert start(tmp_path) == 2


def test_one_agent_at_a_time(tmp_path: Path) -> None:
    with (
        DataDirectory(tmp_path),
        pytest.raises(StartError, match="another agent uses it"),
        DataDirectory(tmp_path),
    ):
        pass
    assert start(tmp_path) == 1


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"data_directory .*/file/data: cannot be used: not a directory"):
        start(tmp_path / "file" / "data")
    (tmp_path / "data" / "incarnation.new").mkdir(parents=True)
    with pytest.raises(StartError, match=r"cannot be used: is a directory \(.*incarnation\.new\)"):
        start(tmp_path / "data")


def test_what_a_killed_agent_left_of_its_spilled_data_goes(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as directory:
        spill = directory.empty_spill_directory()
        (spill / "elf-cbt-1").mkdir()
        (spill / "elf-cbt-1" / "0").write_bytes(b"a leaf")
        (spill / "stray").touch()
    with DataDirectory(tmp_path) as directory:
        assert directory.empty_spill_directory() == tmp_path / "spill"
    assert list(spill.iterdir()) == []
    assert spill.stat().st_mode & 0o777 == 0o700


def test_a_spill_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "spill").symlink_to("/")
    with DataDirectory(tmp_path) as directory, pytest.raises(StartError, match=r"cannot be used: .*spill"):
        directory.empty_spill_directory()


def clock_of(path: Path, warnings: list[str], timers_s: float = 0.0) -> ClockFile:
    return DataDirectory(path).clock(lambda what, why: warnings.append(f"{what}: {why}"), timers_s)


def test_the_next_process_knows_how_far_ahead_the_wall_clock_was(tmp_path: Path) -> None:
    warnings: list[str] = []
    lead_ms = 1e12
    clock_of(tmp_path, warnings).keep(lead_ms)
    assert clock_of(tmp_path, warnings).read() == lead_ms
    later = clock_of(tmp_path, warnings, timers_s=-10_000.0)
    assert later.read() == lead_ms + 10_000_000, "its clock of timers counts from another moment"
    written = (tmp_path / "clock").read_bytes()
    later.keep(lead_ms + 10_000_100)
    assert (tmp_path / "clock").read_bytes() == written, "a clock that drifts is not written all the time"
    later.keep(lead_ms + 13_600_000)
    assert (tmp_path / "clock").read_bytes() != written
    assert warnings == []


@pytest.mark.parametrize("content", [b"", b"x", b"elsewhere 12", b"\xff\x00 5", b"1" * 300])
def test_of_a_clock_before_the_machine_was_started_nothing_is_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clock").write_bytes(content)
    warnings: list[str] = []
    clock = clock_of(tmp_path, warnings)
    assert clock.read() is None
    clock.keep(5.0)
    assert clock_of(tmp_path, warnings).read() == 5.0
    assert warnings == []


def test_a_disk_that_does_not_take_the_clock_is_told(tmp_path: Path) -> None:
    warnings: list[str] = []
    clock_of(tmp_path / "nowhere", warnings).keep(5.0)
    assert warnings == ["the clock is not kept: No such file or directory"]
