"""Following growing files: every line once, whatever happens to names, sizes and rights."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from appending import append

from agent.sources.file.tail import GONE_S, LOOK_S

Follow = Callable[..., Any]


def descriptors() -> set[str]:
    """Regular files that this process has open."""
    targets = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            targets.add(str(entry.readlink()))
        except OSError:  # the one of this very listing
            continue
    return targets


def test_lines_come_when_they_are_whole(follow: Follow, log: Path) -> None:
    append(log, b"old\n")
    follower = follow(log)
    assert follower.poll() == b""
    assert follower.tail.at_end
    append(log, b"one\ntw")
    assert follower.poll() == b"one\n"
    assert follower.tail.at_end, "the beginning of a line is nothing to wait for"
    assert follower.poll() == b""
    append(log, b"o")
    assert follower.poll() == b""
    append(log, b"\nthree\n")
    assert follower.poll() == b"two\nthree\n"
    assert [piece.block.origin.offset for piece in follower.pieces] == [4, 8]
    assert {piece.block.origin.file for piece in follower.pieces} == {str(log)}


def test_characters_cut_in_the_middle_stay_whole(follow: Follow, log: Path) -> None:
    log.touch()
    follower = follow(log)
    follower.poll()
    text = "Ünïcödé 漢字 🦒\n".encode() * 3
    for index in range(len(text)):
        append(log, text[index : index + 1])
        follower.poll()
    assert follower.content == text
    assert all(piece.block.data.decode().endswith("\n") for piece in follower.pieces)


def test_from_the_beginning_old_lines_come_first(follow: Follow, log: Path) -> None:
    append(log, b"old\n")
    follower = follow(log, read_from="beginning")
    assert follower.poll() == b"old\n"
    append(log, b"new\n")
    assert follower.poll() == b"new\n"


def test_a_line_that_goes_on_at_the_start_is_whole(follow: Follow, log: Path) -> None:
    append(log, b"old\nbegun bef")
    follower = follow(log)
    assert follower.poll() == b""
    append(log, b"ore\n")
    assert follower.poll() == b"begun before\n"


def test_the_rest_of_an_overlong_line_is_left_out_at_the_start(follow: Follow, log: Path) -> None:
    append(log, b"old\n" + b"x" * 200)
    follower = follow(log, line_bytes_max=100)
    follower.poll()
    append(log, b"x" * 50 + b"\nnew\n")
    assert follower.poll() == b"new\n"


def test_a_glob_finds_new_files_and_reads_them_whole(follow: Follow, tmp_path: Path) -> None:
    append(tmp_path / "a.log", b"old\n")
    follower = follow(tmp_path / "*.log", tmp_path / "**" / "deep-*")
    follower.poll()
    append(tmp_path / "b.log", b"new file\n")
    (tmp_path / "x" / "y").mkdir(parents=True)
    append(tmp_path / "x" / "y" / "deep-1", b"deep\n")
    append(tmp_path / "b.txt", b"not matched\n")
    follower.poll(later=LOOK_S)
    assert sorted(follower.content.splitlines()) == [b"deep", b"new file"]


def test_no_file_is_said_once_and_waited_for(follow: Follow, log: Path) -> None:
    follower = follow(log)
    follower.poll(5, later=LOOK_S)
    assert follower.faults == [f"{log}: matches no file yet"]
    append(log, b"here\n")
    assert follower.poll(later=LOOK_S) == b"here\n"


def test_a_renamed_file_is_read_to_its_end_and_beyond(follow: Follow, log: Path, tmp_path: Path) -> None:
    append(log, b"1\n")
    follower = follow(log, read_from="beginning")
    follower.poll()
    append(log, b"2\n")
    log.rename(tmp_path / "access.log.1")
    append(log, b"4\n")
    append(tmp_path / "access.log.1", b"3\n")
    assert sorted(follower.poll().split()) == [b"2", b"3", b"4"], "without waiting for the next look at patterns"
    append(tmp_path / "access.log.1", b"5\n")
    append(log, b"6\n")
    assert sorted(follower.poll().split()) == [b"5", b"6"]
    assert not follower.faults


def test_the_file_that_takes_over_a_name_later_is_found_at_once(follow: Follow, log: Path, tmp_path: Path) -> None:
    append(log, b"1\n")
    follower = follow(log, read_from="beginning")
    follower.poll()
    log.rename(tmp_path / "rotated")
    assert follower.poll() == b""
    append(log, b"2\n")
    assert follower.poll() == b"2\n"


def test_a_file_without_a_name_is_let_go_when_it_is_quiet(follow: Follow, log: Path, tmp_path: Path) -> None:
    append(log, b"1\n")
    follower = follow(log)
    follower.poll()
    rotated = tmp_path / "rotated"
    log.rename(rotated)
    append(rotated, b"2\n3")
    for _ in range(int(GONE_S) - 1):
        follower.poll(later=1.0)
    append(rotated, b"\n4")
    follower.poll(later=1.0)
    assert str(rotated) in descriptors()
    follower.poll(int(GONE_S) + 1, later=1.0)
    assert str(rotated) not in descriptors()
    assert follower.content == b"2\n3\n4", "nobody will end its last line any more"
    assert follower.tail.statistics().files == 0
    assert follower.tail.statistics().bytes_read == 4


def test_a_file_renamed_within_the_pattern_is_read_once(follow: Follow, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    append(log, b"1\n")
    follower = follow(tmp_path / "access.log*", read_from="beginning")
    follower.poll()
    for number in range(3, 0, -1):
        if (tmp_path / f"access.log.{number}").exists():
            (tmp_path / f"access.log.{number}").rename(tmp_path / f"access.log.{number + 1}")
    log.rename(tmp_path / "access.log.1")
    append(log, b"2\n")
    append(tmp_path / "access.log.1", b"3\n")
    follower.poll(4, later=LOOK_S)
    assert sorted(follower.content.split()) == [b"1", b"2", b"3"]
    assert follower.tail.statistics().files == 2


def test_a_file_that_gets_its_name_back_is_followed_on(follow: Follow, log: Path, tmp_path: Path) -> None:
    append(log, b"1\n")
    follower = follow(log, read_from="beginning")
    follower.poll()
    log.rename(tmp_path / "away")
    follower.poll()
    (tmp_path / "away").rename(log)
    follower.poll(int(3 * GONE_S), later=1.0)
    append(log, b"2\n")
    follower.poll()
    assert follower.content == b"1\n2\n"


def test_a_truncated_file_starts_over(follow: Follow, log: Path) -> None:
    append(log, b"one\ntwo\nthr")
    follower = follow(log, read_from="beginning")
    follower.poll()
    os.truncate(log, 0)
    append(log, b"four\n")
    assert follower.poll() == b"four\n"
    assert follower.tail.statistics().truncated == 1
    assert follower.faults == [f"{log}: was truncated: it is read from its beginning; 3 bytes had not been read"], (
        "the line that was not whole"
    )


def test_a_file_refilled_beyond_its_old_size_starts_over(follow: Follow, log: Path) -> None:
    append(log, b"one\ntwo\n")
    follower = follow(log)
    follower.poll()
    os.truncate(log, 0)
    append(log, b"other lines, and more of them\n")
    assert follower.poll() == b"other lines, and more of them\n"
    assert follower.tail.statistics().truncated == 1


def test_the_hole_that_a_writer_leaves_after_truncation_is_skipped(follow: Follow, log: Path) -> None:
    hole = 4 << 20
    with log.open("wb", buffering=0) as writer:
        writer.write(b"x" * 99 + b"\n")
        writer.seek(hole)
        writer.write(b"y" * 99 + b"\n")
        follower = follow(log)
        follower.poll()
        os.truncate(log, 0)
        writer.write(b"goes on\n")  # where it was
        (line,) = follower.poll().split(b"\n")[:-1]
    assert line.strip(b"\0") == b"goes on"
    assert len(line) < 8192
    assert follower.overlong == 0


def test_overlong_lines_are_counted_when_they_show(follow: Follow, log: Path) -> None:
    append(log, b"a\n")
    follower = follow(log, read_from="beginning", line_bytes_max=100, block_bytes=64)
    follower.poll()
    append(log, b"x" * 5000)
    follower.poll_until_end()
    assert follower.overlong == 1
    append(log, b"x" * 5000 + b"\nb\n")
    follower.poll_until_end()
    assert follower.content == b"a\nb\n"
    assert follower.overlong == 1
    assert follower.tail.statistics().bytes_read == 10_005


def test_a_poll_reads_a_bounded_amount(follow: Follow, tmp_path: Path) -> None:
    line = b"0123456789" * 10 + b"\n"
    for name in ("a.log", "b.log", "c.log"):
        append(tmp_path / name, line * 10_000)
    follower = follow(tmp_path / "*.log", read_from="beginning", block_bytes=100_000, poll_bytes=150_000,
                      line_bytes_max=1000)  # fmt: skip
    sizes = []
    for _ in range(100):
        sizes.append(len(follower.poll()))
        if follower.tail.at_end:
            break
    assert max(sizes) <= 200_000
    assert sum(sizes) == 3 * 10_000 * len(line)


def test_blocks_inside_a_file_end_where_lines_do(follow: Follow, log: Path) -> None:
    lines = [b"%d" % number * (1 + number * 397 % 9_000) + b"\n" for number in range(400)]
    append(log, b"".join(lines))
    follower = follow(log, read_from="beginning", block_bytes=70_000, line_bytes_max=50_000, poll_bytes=200_000)
    while not follower.tail.at_end or not follower.pieces:
        follower.poll()
    assert follower.content == b"".join(line for line in lines if len(line) <= 50_001)
    assert all(piece.block.data.endswith(b"\n") for piece in follower.pieces if piece.block.data)
    assert max(len(piece.block.data) for piece in follower.pieces) <= 70_000


def test_the_file_that_lags_behind_is_read_first(follow: Follow, tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        append(tmp_path / name, f"{name} line\n".encode() * 100)
    follower = follow(tmp_path / "*.log", read_from="beginning", block_bytes=100, poll_bytes=1, line_bytes_max=100)
    follower.poll(2)
    first, second = (piece.part for piece in follower.pieces)
    first.reached_ms, second.reached_ms = 2000, 1000
    follower.poll(3)
    assert {piece.part.path for piece in follower.pieces[2:]} == {second.path}
    second.reached_ms = 3000
    follower.poll()
    assert follower.pieces[-1].part is first


def test_what_is_no_file_is_refused_once(follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    os.mkfifo(tmp_path / "b.log")
    (tmp_path / "c.log").symlink_to(tmp_path / "nothing")
    server = socket.socket(socket.AF_UNIX)
    with server:
        server.bind(str(tmp_path / "d.log"))
        append(tmp_path / "e.log", b"good\n")
        follower = follow(tmp_path / "*.log", read_from="beginning")
        follower.poll(4, later=LOOK_S)
    assert follower.content == b"good\n"
    assert follower.faults == [
        f"{tmp_path}/a.log: is a directory, not a file",
        f"{tmp_path}/b.log: is a pipe, not a file",
        f"{tmp_path}/c.log: is a link to nothing",
        f"{tmp_path}/d.log: is a socket, not a file",
    ]
    assert follower.tail.statistics().unreadable == 4


@pytest.mark.parametrize(
    "pattern", ["access.log", "*.log", "*/access.log", "deep/*.log", "**/*.log", "**/access.log", "../*/access.log"]
)
def test_a_folder_that_may_not_be_looked_into_is_told(follow: Follow, barred_folder: Path, pattern: str) -> None:
    follower = follow(os.path.normpath(barred_folder / pattern))
    follower.poll(3, later=LOOK_S)
    assert [fault.replace("/:", ":") for fault in follower.faults] == [
        f"{barred_folder}: cannot be looked into: permission denied"
    ]
    assert follower.tail.statistics().unreadable == 1


@pytest.mark.parametrize("read_from", ["end", "beginning"])
def test_a_file_that_becomes_readable_is_read(follow: Follow, log: Path, read_from: str) -> None:
    append(log, b"old\n")
    log.chmod(0)
    if os.access(log, os.R_OK):
        pytest.skip("who runs this may read every file")
    follower = follow(log, read_from=read_from)
    follower.poll(3, later=LOOK_S)
    assert follower.faults == [f"{log}: permission denied"]
    log.chmod(0o600)
    append(log, b"new\n")
    assert follower.poll(later=LOOK_S) == (b"new\n" if read_from == "end" else b"old\nnew\n")


def test_links_and_their_targets_are_one_file(follow: Follow, tmp_path: Path) -> None:
    target = tmp_path / "2026-01-01.log"
    append(target, b"1\n")
    (tmp_path / "current.log").symlink_to(target)
    os.link(target, tmp_path / "hard.log")
    follower = follow(tmp_path / "*.log", read_from="beginning")
    follower.poll()
    append(target, b"2\n")
    follower.poll()
    assert follower.content == b"1\n2\n"


def test_a_link_that_moves_on_is_a_rotation(follow: Follow, tmp_path: Path) -> None:
    first, second, link = tmp_path / "day-1", tmp_path / "day-2", tmp_path / "current"
    append(first, b"1\n")
    link.symlink_to(first)
    follower = follow(link, read_from="beginning")
    follower.poll()
    append(first, b"2\n")
    append(second, b"3\n")
    link.unlink()
    link.symlink_to(second)
    append(first, b"4\n")
    assert sorted(follower.poll().split()) == [b"2", b"3", b"4"]


def test_a_deleted_file_is_read_to_its_end_and_its_successor_whole(follow: Follow, log: Path) -> None:
    append(log, b"1\n")
    follower = follow(log, read_from="beginning")
    follower.poll()
    append(log, b"2\n")
    log.unlink()
    assert follower.poll() == b"2\n"
    append(log, b"3\n")
    assert follower.poll() == b"3\n"


def test_compressed_files_are_not_followed_and_said_once(follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress(b"old\n"))
    (tmp_path / "access.log.2.zst").write_bytes(b"")
    (tmp_path / "access.log.3").write_bytes(gzip.compress(b"old\n"))
    append(tmp_path / "access.log", b"new\n")
    follower = follow(tmp_path / "access.log*", read_from="beginning")
    follower.poll(4, later=LOOK_S)
    assert follower.content == b"new\n"
    (fault,) = follower.faults
    assert fault.endswith(": is compressed: such files are not followed, here and elsewhere")
    # Its number is used again: no reason to skip a log.
    (tmp_path / "access.log.2.zst").rename(tmp_path / "access.log.4")
    append(tmp_path / "access.log.4", b"plain\n")
    assert follower.poll(later=LOOK_S) == b"plain\n"


def test_more_files_than_allowed_are_told(follow: Follow, tmp_path: Path) -> None:
    for number in range(8):
        append(tmp_path / f"{number}.log", b"old\n")
        os.utime(tmp_path / f"{number}.log", ns=(0, number * 10**9))
    follower = follow(tmp_path / "*.log", files_max=5)
    follower.poll()
    assert follower.faults == [f"{tmp_path}/*.log: matches more than 5 files: some are not followed"]
    for number in range(8):
        append(tmp_path / f"{number}.log", b"new %d\n" % number)
    assert sorted(follower.poll().splitlines()) == [b"new %d" % number for number in range(3, 8)], "the latest ones"
    for number in range(5, 8):
        (tmp_path / f"{number}.log").unlink()
    follower.poll(int(GONE_S) + 2, later=LOOK_S)
    assert sorted(follower.content.splitlines()) == [b"new %d" % number for number in range(8)]


def test_many_faults_are_few_lines(follow: Follow, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.log").mkdir()
    follower = follow(tmp_path / "*.log")
    follower.poll(3, later=LOOK_S)
    assert len(follower.faults) == 33
    assert follower.faults[-1] == "and 68 more like these"
    assert follower.tail.statistics().unreadable == 100


def test_closing_leaves_no_descriptor(follow: Follow, tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path / f"{number}.log", b"1\n")
    follower = follow(tmp_path / "*.log")
    follower.poll()
    assert {name for name in descriptors() if name.startswith(str(tmp_path))}
    follower.tail.close()
    assert not {name for name in descriptors() if name.startswith(str(tmp_path))}
