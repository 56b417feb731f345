"""Logs that were compressed before they were read to their ends: what is left of them is read from there, once."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from appending import append
from compressing import compress, rotate

from agent.sources.file.expanded_content import EXPANDED_FREELY_BYTES, STEP_BYTES
from agent.sources.file.expanded_file import INCOMPLETE_S
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.tail import GONE_S, LOOK_S

Follow = Callable[..., Any]


def read_so_far(follow: Follow, log: Path, data: bytes) -> list[ReadUpTo]:
    """The positions of a reading that is over."""
    append(log, data)
    follower = follow(log, read_from="beginning")
    follower.poll_until_end()
    known = list(follower.tail.positions)
    follower.tail.close()
    return known


def lines(follower: Any) -> Counter[bytes]:
    return Counter(follower.content.splitlines())


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_a_log_is_read_on_through_what_was_compressed_while_nobody_read(
    follow: Follow, log: Path, suffix: str, delay: bool, rotations: int
) -> None:
    append(log, b"long ago\n")
    rotate(log, suffix=suffix)
    os.utime(log.with_name(f"access.log.1{suffix}"), ns=(0, 0))
    known = read_so_far(follow, log, b"one\ntwo\n")
    written = [b"three"]
    append(log, b"three\n")
    for number in range(rotations):
        rotate(log, suffix=suffix, delay=delay)
        written.append(b"after %d" % number)
        append(log, written[-1] + b"\n")
    follower = follow(log, known=known, read_from="beginning")
    follower.poll(4)
    assert lines(follower) == Counter(written)
    assert follower.tail.statistics().losses == 0
    assert follower.faults == []
    follower.poll(2, later=GONE_S)
    assert follower.tail.statistics().files == 1, "what is read to its end is closed"
    assert lines(follower) == Counter(written)


def test_positions_in_compressed_files_are_those_of_their_content(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"".join(b"line %d\n" % number for number in range(1000)))
    rotate(log, suffix=".gz")
    append(log, b"new\n")
    options = {"read_from": "beginning", "block_bytes": 50, "line_bytes_max": 49}
    first = follow(log, known=known, poll_bytes=50, **options)
    first.poll(20)
    middle = first.tail.positions
    assert 0 < len(first.content) < 5000
    first.tail.close()
    rotate(log, suffix=".gz")
    append(log, b"newer\n")
    second = follow(log, known=middle, **options)
    second.poll(250)
    both = Counter((first.content + second.content).splitlines())
    assert both == Counter([*(b"line %d" % number for number in range(1000)), b"new", b"newer"])


def test_a_log_that_was_copied_compressed_and_truncated_goes_on_in_both(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"two\n")
    log.with_name("access.log.1").write_bytes(log.read_bytes())
    compress(log.with_name("access.log.1"))
    log.write_bytes(b"three\n")
    follower = follow(log, known=known, read_from="beginning")
    assert sorted(follower.poll(3).splitlines()) == [b"three", b"two"]
    assert follower.tail.statistics().losses == 0


def test_the_number_of_a_compressed_log_may_be_that_of_another_file_by_now(follow: Follow, log: Path) -> None:
    (known,) = read_so_far(follow, log, b"one\n")
    append(log, b"two\n")
    rotate(log, suffix=".gz")
    append(log, b"three, longer than what was read\n")
    status = log.stat()
    reused = ReadUpTo(
        known.path, (status.st_dev, status.st_ino), known.fingerprint_bytes, known.fingerprint, 4, known.modified_ns
    )
    follower = follow(log, known=[reused], read_from="beginning")
    assert sorted(follower.poll(3).splitlines()) == [b"three, longer than what was read", b"two"]
    assert follower.tail.statistics().losses == 0


@pytest.mark.parametrize("plain_is_longer", [False, True])
def test_while_a_file_is_being_compressed_the_other_one_is_read(
    follow: Follow, log: Path, plain_is_longer: bool
) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"two\n")
    rotate(log)
    rotated = log.with_name("access.log.1")
    content = rotated.read_bytes()
    made = compress(rotated)
    rotated.write_bytes(content)
    if plain_is_longer:
        made.write_bytes(made.read_bytes()[:-9])
    append(log, b"three\n")
    follower = follow(log, known=known, read_from="beginning")
    assert sorted(follower.poll(3).splitlines()) == [b"three", b"two"]


def test_a_log_that_is_compressed_while_it_is_read_is_read_to_its_end_once(follow: Follow, log: Path) -> None:
    append(log, b"one\n")
    follower = follow(f"{log}*", read_from="beginning", poll_bytes=30, block_bytes=30, line_bytes_max=29)
    follower.poll()
    append(log, b"".join(b"line %d\n" % number for number in range(100)))
    follower.poll()
    rotate(log, suffix=".gz")
    append(log, b"last\n")
    follower.poll(100)
    follower.poll(3, later=GONE_S)
    assert lines(follower) == Counter([b"one", *(b"line %d" % number for number in range(100)), b"last"])


@pytest.mark.skipif(not Path("/proc/sys/fs/inotify").exists(), reason="no inotify here")
def test_a_log_that_comes_and_is_compressed_between_two_looks_is_read(follow: Follow, log: Path) -> None:
    append(log, b"one\n")
    follower = follow(log, read_from="beginning")
    follower.poll()
    for content in (b"two\n", b"three\n", b"four\n"):
        rotate(log, suffix=".gz")
        append(log, content)
    follower.poll(4)
    assert lines(follower) == Counter([b"one", b"two", b"three", b"four"])
    assert follower.tail.statistics().losses == 0


def test_compressed_files_that_were_read_before_are_left_alone(follow: Follow, log: Path) -> None:
    for content in (b"long ago\n", b"a while ago\n"):
        append(log, content)
        rotate(log, suffix=".gz")
    known = read_so_far(follow, log, b"one\n")
    append(log, b"two\n")
    first = follow(f"{log}*", known=known, read_from="beginning")
    assert first.poll(4) == b"two\n"
    known = list(first.tail.positions)
    first.tail.close()
    rotate(log, suffix=".gz")
    append(log, b"three\n")
    for number in (2, 3):  # as of files that were compressed without their times
        os.utime(log.with_name(f"access.log.{number}.gz"), ns=(2 * 10**18, 2 * 10**18))
    again = follow(f"{log}*", known=known, read_from="beginning")
    assert again.poll(4) == b"three\n"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "ends in the middle"),
        (lambda data: data[:200] + b"\xff" * 50 + data[250:], "corrupt"),
        (lambda data: zlib.decompress(data, 31), "holds no compressed data"),
    ],
)
def test_of_a_damaged_file_the_good_part_is_read_and_the_rest_is_said_to_be_lost(
    follow: Follow, log: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"".join(b"line %d of many %d\n" % (number, number * 7919 % 1009) for number in range(2000)))
    rotate(log, suffix=".gz")
    rotated = log.with_name("access.log.1.gz")
    rotated.write_bytes(damage(rotated.read_bytes()))
    append(log, b"new\n")
    follower = follow(log, known=known, read_from="beginning")
    follower.poll(4)
    follower.poll(3, later=INCOMPLETE_S)
    read = follower.content.splitlines()
    assert b"new" in read
    assert Counter(read) <= Counter([b"new", *rotated_lines()])
    assert follower.tail.statistics().losses >= 1
    if said != "holds no compressed data":
        assert any(said in fault for fault in follower.faults)
        assert len(read) > 1, "the good part is read"
    else:
        assert any("is gone" in fault or said in fault for fault in follower.faults)


def rotated_lines() -> list[bytes]:
    return [b"line %d of many %d" % (number, number * 7919 % 1009) for number in range(2000)]


def test_a_compressed_file_that_is_still_being_written_is_waited_for(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"".join(line + b"\n" for line in rotated_lines()))
    rotate(log, suffix=".gz")
    rotated = log.with_name("access.log.1.gz")
    whole = rotated.read_bytes()
    rotated.write_bytes(whole[: len(whole) // 2])
    append(log, b"new\n")
    follower = follow(log, known=known, read_from="beginning")
    follower.poll(4)
    with rotated.open("ab") as file:
        file.write(whole[len(whole) // 2 :])
    follower.poll(6, later=LOOK_S)
    assert lines(follower) == Counter([b"new", *rotated_lines()])
    assert follower.tail.statistics().losses == 0


def test_what_expands_like_no_log_does_is_given_up(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    rotate(log)
    made = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"\0" * STEP_BYTES
    pieces = [made.compress(b"one\n"), *(made.compress(zeros) for _ in range(8)), made.flush()]
    log.with_name("access.log.1").unlink()
    log.with_name("access.log.1.gz").write_bytes(b"".join(pieces))
    append(log, b"new\n")
    follower = follow(log, known=known, read_from="beginning")
    follower.poll(60)
    assert follower.content == b"new\n"
    assert any("so it is no log" in fault for fault in follower.faults)
    assert follower.tail.statistics().losses == 1
    assert 8 * STEP_BYTES > EXPANDED_FREELY_BYTES, "it is stopped on the way"


def test_a_log_that_is_gone_is_said_so_and_what_came_after_it_is_read(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"two, which is lost\n")
    rotate(log)
    append(log, b"three\n")
    rotate(log)
    append(log, b"four\n")
    log.with_name("access.log.2").unlink()
    follower = follow(log, known=known, read_from="beginning")
    assert sorted(follower.poll(4).splitlines()) == [b"four", b"three"]
    assert follower.tail.statistics().losses == 1
    assert any("is gone" in fault for fault in follower.faults)
