"""Between two looks files change their names, which inotify tells, or are truncated, and a copy has what that took."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compressing import compress

from agent.sources.file import folder_watch
from agent.sources.file.folder_watch import FOLDERS_WATCHED_MAX, PASSED_MAX
from agent.sources.file.tail import GONE_S, LOOK_S

Follow = Callable[..., Any]
pytestmark = pytest.mark.skipif(not Path("/proc/sys/fs/inotify").exists(), reason="no inotify here")


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def rotate(log: Path) -> None:
    """Renames as logrotate does, and creates the next log."""
    for number in range(5, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))
    log.touch()


def copy_and_truncate(log: Path, lines_between: tuple[str, ...] = ()) -> None:
    shutil.copy(log, log.with_name(f"{log.name}.1"))
    append(log, *lines_between)
    log.write_text("")


def tick(file: Path) -> None:
    """Waits until the file system's clock goes on, from a file's last change."""
    beside = file.with_name("clock")
    while not beside.exists() or beside.stat().st_mtime_ns <= file.stat().st_mtime_ns:
        beside.write_text("now")


def lines_of(follower: Any) -> Counter[str]:
    return Counter(follower.content.decode().splitlines())


def test_rotations_between_two_looks_lose_no_line(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    append(log, "a0")
    follower = follow(log, read_from="beginning")
    follower.poll()
    written = ["a0"]
    for round_ in range(5):
        for rotation in range(4):
            written.append(f"b{round_}.{rotation}")
            append(log, written[-1])
            rotate(log)
        follower.poll()
    follower.poll(2, later=LOOK_S)
    assert lines_of(follower) == Counter(written)
    assert follower.tail.statistics().missed == 0
    follower.poll(2, later=GONE_S)
    assert follower.tail.statistics().files == 1, "rotated files are closed in the end"


def test_a_file_that_matched_for_a_moment_is_read_under_its_next_name(follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    follower = follow(tmp_path / "*.log", tmp_path / "done" / "*.no")
    follower.poll()
    for name in ("a", "b"):
        append(tmp_path / f"{name}.log", name)
        (tmp_path / f"{name}.log").rename(tmp_path / f"{name}.tmp")
        (tmp_path / f"{name}.tmp").rename(tmp_path / "done" / name)
    append(tmp_path / ".hidden.log", "no glob matches this")
    (tmp_path / ".hidden.log").rename(tmp_path / "shown")
    follower.poll()
    assert lines_of(follower) == Counter("ab")


@pytest.mark.parametrize("leave", [Path.unlink, lambda path: path.rename(path.parent / "elsewhere" / path.name)])
def test_a_file_that_is_gone_before_anybody_looked_is_counted_and_named(
    follow: Follow, tmp_path: Path, leave: Callable[[Path], Any]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    follower = follow(tmp_path / "*.log")
    follower.poll()
    append(tmp_path / "a.log", "unread")
    leave(tmp_path / "a.log")
    append(tmp_path / "b.log", "read")
    follower.poll()
    (tmp_path / "b.log").unlink()
    follower.poll(3, later=LOOK_S)
    assert lines_of(follower) == Counter(["read"])
    assert follower.tail.statistics().missed == 1
    assert [fault for fault in follower.faults if "it was not read" in fault] == [
        f"{tmp_path}/a.log: had this name for a moment and is gone: it was not read"
    ]


def test_a_folder_made_anew_is_watched_like_the_one_before(follow: Follow, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    follower = follow(folder / "*.log")
    for number in range(3):
        folder.mkdir()
        follower.poll(later=LOOK_S)
        append(folder / "a.log", str(number))
        (folder / "a.log").rename(folder / "a.old")
        follower.poll()
        shutil.rmtree(folder)
    assert lines_of(follower) == Counter("012")


def test_more_events_than_the_kernel_keeps_cost_a_look(follow: Follow, tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    follower = follow(tmp_path / "*.log")
    follower.poll()
    for _ in range(limit // 2 + 10):
        (tmp_path / "other").touch()
        (tmp_path / "other").unlink()
    append(tmp_path / "a.log", "a")
    assert not follower.tail.is_quiet(follower.now)
    follower.poll()
    assert lines_of(follower) == Counter("a")


def edges(few: int, most: int) -> list[Any]:
    """A limit and numbers at its edge and beyond: first a low one, which is quick, then the real one."""
    return [
        pytest.param(limit, number, marks=marks)
        for limit, marks in ((few, ()), (most, pytest.mark.slow))
        for number in (limit, limit + 1, 2 * limit)
    ]


@pytest.mark.parametrize(("most", "folders"), edges(16, FOLDERS_WATCHED_MAX))
def test_so_many_folders_are_watched_and_others_are_looked_at(
    follow: Follow, tmp_path: Path, most: int, folders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "FOLDERS_WATCHED_MAX", most)
    for number in range(folders):
        (tmp_path / str(number)).mkdir()
    follower = follow(tmp_path / "*" / "a.log")
    follower.poll()
    for folder in tmp_path.iterdir():
        append(folder / "a.log", f"moment {folder.name}")
        (folder / "a.log").rename(folder / "a.old")
    follower.poll()
    for folder in tmp_path.iterdir():
        append(folder / "a.log", f"stays {folder.name}")
    follower.poll(2, later=LOOK_S)
    kinds = Counter(line.split()[0] for line in lines_of(follower).elements())
    assert kinds == {"moment": most, "stays": folders}


@pytest.mark.parametrize(("most", "files"), edges(64, PASSED_MAX))
def test_so_many_names_are_followed_between_two_looks(
    follow: Follow, tmp_path: Path, most: int, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "PASSED_MAX", most)
    follower = follow(tmp_path / "*.log", files_max=4 * most)
    follower.poll()
    for number in range(files):
        append(tmp_path / f"{number}.log", f"moment {number}")
    for number in range(files):
        (tmp_path / f"{number}.log").rename(tmp_path / f"{number}.old")
    append(tmp_path / "a.log", "stays")
    follower.poll()
    assert sum(lines_of(follower).values()) == min(files, most) + 1


@pytest.mark.parametrize("pattern", ["access.log", "access.log*"])
@pytest.mark.parametrize("is_copied_first", [False, True])
def test_unread_lines_of_a_log_that_is_copied_and_truncated_come_from_the_copy(
    follow: Follow, tmp_path: Path, pattern: str, is_copied_first: bool
) -> None:
    log, written = tmp_path / "access.log", ["a"]
    append(log, "a")
    follower = follow(tmp_path / pattern, read_from="beginning")
    follower.poll()
    for round_ in range(5):
        written += [f"read {round_}", f"unread {round_}", f"after {round_}"]
        append(log, written[-3])
        follower.poll()
        append(log, written[-2])
        if is_copied_first:
            shutil.copy(log, tmp_path / "access.log.1")
            follower.poll(2, later=LOOK_S)  # the copy is there, and nobody knows what for
            log.write_text("")
        else:
            copy_and_truncate(log)
        append(log, written[-1])
        follower.poll()
        (tmp_path / "access.log.1").rename(tmp_path / f"access.log.{9 - round_}")
        follower.poll(2, later=LOOK_S)
    follower.poll(3, later=LOOK_S)
    assert lines_of(follower) == Counter(written)
    assert follower.tail.statistics().truncated == 5


@pytest.mark.parametrize("pattern", ["access.log", "access.log*"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_what_a_log_held_between_two_truncations_comes_from_its_copies(
    follow: Follow, tmp_path: Path, pattern: str, is_compressed: bool
) -> None:
    log, written = tmp_path / "access.log", ["a"]
    append(log, "a")
    follower = follow(tmp_path / pattern, read_from="beginning")
    follower.poll()
    for round_ in range(3):
        for copy in range(3):
            written.append(f"line {copy} of round {round_}")
            append(log, written[-1])
            tick(log)
            copy_and_truncate(log)
            rotated = (tmp_path / "access.log.1").rename(tmp_path / f"access.log.{30 - 3 * round_ - copy}")
            if is_compressed:
                compress(rotated)
        written.append(f"round {round_}")
        append(log, written[-1])
        follower.poll()
        follower.poll(2, later=LOOK_S)
    assert lines_of(follower) == Counter(written)
    assert follower.tail.statistics().losses == 0, follower.faults


def test_what_a_truncation_took_is_said(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    append(log, "one")
    follower = follow(log, read_from="beginning", poll_bytes=4, block_bytes=4, line_bytes_max=8)
    follower.poll()
    append(log, *("line" for _ in range(100)))
    follower.poll()
    log.write_text("")
    append(log, "new")
    follower.poll()
    assert lines_of(follower)["new"] == 1
    unread = len("one\n") + 100 * len("line\n") - 4 - lines_of(follower)["line"] * len("line\n")
    assert follower.faults[-1] == (
        f"{log}: was truncated: it is read from its beginning; {unread:,} bytes had not been read"
    )


def test_an_earlier_log_that_begins_alike_is_no_copy(follow: Follow, tmp_path: Path) -> None:
    log, header = tmp_path / "access.log", "time,product"
    append(tmp_path / "access.log.1", header, "yesterday")
    append(log, header)
    follower = follow(log, read_from="beginning")
    follower.poll()
    log.write_text("")
    append(log, "today")
    follower.poll(3, later=LOOK_S)
    assert lines_of(follower) == Counter([header, "today"])


def test_where_there_is_no_inotify_names_are_looked_at_as_before(
    follow: Follow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "_new_inotify", lambda: None)
    log = tmp_path / "access.log"
    follower = follow(log)
    follower.poll()
    for line in "abc":
        append(log, line)
        follower.poll(later=LOOK_S)
        rotate(log)
    follower.poll(3, later=LOOK_S)
    assert lines_of(follower) == Counter("abc")
