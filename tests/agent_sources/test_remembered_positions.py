"""Positions from which a feed is read again: all lines after them come, whatever has become of its files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appending import append
from compressing import compress, rotate
from follower import Follower, as_lines
from hypothesis import given
from hypothesis import strategies as st

from agent.feeding.reading_ledger import MARKS_MAX, FeedPosition, ReadingLedger, merged
from agent.runtime.durable.feed_memory import FeedNeeds
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.followed_file import ReadUpTo

Follow = Callable[..., Any]
JOB = JobTerm(1, 2)
STEPS = st.lists(
    st.sampled_from(["write", "write", "read", "rotate", "rotate and create", "compress", "restart", "mark"]),
    max_size=25,
)


class Server:
    """A log that is rotated by renaming, as by logrotate, and one reading of it after the other."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "access.log"
        self.written = 0
        self.write()
        self.follower = Follower(self.log, recognise=as_lines, read_from="beginning")
        self.follower.poll()

    def write(self) -> None:
        append(self.log, b"%d\n" % self.written)
        self.written += 1

    def rotate(self) -> None:
        if self.log.exists():
            rotate(self.log)

    def compress(self) -> None:
        for path in self.log.parent.glob("access.log.*[0-9]"):
            compress(path)


@given(STEPS)
def test_all_lines_after_a_position_are_read_again(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        seen: list[bytes] = server.follower.content.splitlines()
        marked, at_mark = server.follower.tail.positions, Counter(seen)
        for step in steps:
            if step == "write":
                server.write()
            elif step == "read":
                seen += server.follower.poll(25).splitlines()
            elif step.startswith("rotate"):
                server.rotate()
                server.log.touch() if step.endswith("create") else server.write()
                seen += server.follower.poll(1).splitlines()
            elif step == "compress":
                server.compress()
            elif step == "mark":
                marked, at_mark = server.follower.tail.positions, Counter(seen)
            else:
                server.follower.tail.close()
                server.follower = Follower(server.log, recognise=as_lines, read_from="beginning", known=marked)
                seen = [*at_mark.elements(), *server.follower.poll(25).splitlines()]
                written = Counter(b"%d" % number for number in range(server.written))
                assert Counter(seen) == written
        server.follower.tail.close()


def test_a_file_that_was_rotated_twice_while_nobody_read_leaves_none_in_between_unread(tmp_path: Path) -> None:
    server = Server(tmp_path)
    known = server.follower.tail.positions
    server.follower.tail.close()
    for _ in range(2):
        server.write()
        server.rotate()
        server.write()
    follower = Follower(server.log, recognise=as_lines, read_from="beginning", known=known)
    assert sorted(follower.poll(5).splitlines()) == [b"1", b"2", b"3", b"4"]
    follower.tail.close()


def test_a_file_that_is_gone_is_counted_and_remembered(follow: Follow, log: Path) -> None:
    append(log, b"one\n")
    first = follow(log, read_from="beginning")
    first.poll()
    known = first.tail.positions
    log.unlink()
    second = follow(log, known=known, read_from="beginning")
    append(log.with_name("other"), b"keeps the inode\n")
    second.poll()
    assert second.tail.statistics().gone == 1
    assert second.tail.positions == known
    assert any("is gone" in fault for fault in second.faults)


def place(offset: int, inode: int = 1) -> tuple[ReadUpTo, ...]:
    return (ReadUpTo("access.log", (1, inode), 0, "", offset),)


def needs(from_ms: int) -> FeedNeeds:
    return FeedNeeds(from_ms, {JOB: 0})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2000)), max_size=4 * MARKS_MAX))
def test_a_position_is_never_later_than_needed(notes: list[tuple[int, int]]) -> None:
    """However many are noted: all events that are needed come after it."""
    ledger, newest, needed = ReadingLedger("web"), 0, 0
    ledger.note(place(0), 0)
    seen: list[tuple[int, int]] = []
    for offset, (step, needed_step) in enumerate(notes, 1):
        newest = max(newest, newest + step - 10)
        seen.append((offset - 1, newest + step - 10))
        newest = max(newest, seen[-1][1])
        ledger.note(place(offset), newest + 1)
        needed = max(needed, newest - needed_step)
        position = ledger.needed(needs(needed))
        assert position is not None
        (file,) = position.files
        assert all(file.offset <= at for at, time in seen if time >= max(needed, position.complete_from_ms))
        assert position.complete_from_ms <= needed or file.offset == 0
        assert all(time < position.complete_from_ms for at, time in seen if at < file.offset)


def test_many_positions_are_thinned_and_the_first_and_the_last_stay() -> None:
    ledger = ReadingLedger("web")
    for number in range(10 * MARKS_MAX):
        ledger.note(place(number), number)
    last, first = ledger.reached(needs(0), 10_000), ledger.needed(needs(0))
    assert first is not None
    assert last is not None
    assert (first.files, first.complete_from_ms) == (place(0), 0)
    assert (last.files, last.complete_from_ms, last.exact) == (place(10 * MARKS_MAX - 1), 10_001, True)


def test_two_readings_of_a_stream_go_on_from_where_both_have_everything() -> None:
    other = JobTerm(5, 6)
    one = FeedPosition("web", place(10) + place(7, 2), 100, {JOB: 50}, exact=True)
    two = FeedPosition("web", place(20), 200, {other: 150}, exact=True)
    both = merged([one, two])
    assert {file.identity: file.offset for file in both.files} == {(1, 1): 10, (1, 2): 0}
    assert (both.complete_from_ms, both.jobs, both.exact) == (100, {JOB: 50, other: 150}, False)
    assert merged([two]).exact
