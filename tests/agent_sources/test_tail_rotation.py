"""Rotation while lines are being written: every one of them comes once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.sources.file.tail import LOOK_S

Follow = Callable[..., Any]
LINES = 20_000
ROTATIONS = 20
LINES_AFTER_RENAME = 300
DEADLINE_S = 60

WRITER = """
import os, sys
path, lines, rotations, late_lines = sys.argv[1], *map(int, sys.argv[2:])
descriptor, number, late = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 0, 0
for number in range(lines):
    os.write(descriptor, b"line %d\\n" % number)
    if number % (lines // rotations) == lines // rotations - 1:
        for old in range(number, 0, -1):
            if os.path.exists(f"{path}.{old}"):
                os.rename(f"{path}.{old}", f"{path}.{old + 1}")
        os.rename(path, path + ".1")
        late = late_lines
    late -= 1
    if late < 0 and not os.path.exists(path):
        os.close(descriptor)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
"""
"""Rotates as logrotate does, and reopens its log so many lines later, as nginx does when the signal comes."""


def check(content: bytes, lines: int) -> None:
    found = Counter(content.splitlines())
    assert found == Counter(b"line %d" % number for number in range(lines))


@pytest.mark.parametrize("late_lines", [pytest.param(0, marks=pytest.mark.slow), LINES_AFTER_RENAME])
def test_rotation_by_another_process_at_full_speed(follow: Follow, tmp_path: Path, late_lines: int) -> None:
    log = tmp_path / "access.log"
    follower = follow(tmp_path / "access.log*", read_from="beginning")
    follower.poll()
    arguments = [str(log), str(LINES), str(ROTATIONS), str(late_lines)]
    with subprocess.Popen([sys.executable, "-c", WRITER, *arguments]) as writer:
        deadline = time.monotonic() + DEADLINE_S
        while writer.poll() is None and time.monotonic() < deadline:
            follower.poll(later=0.0003)
        assert writer.poll() == 0
    follower.poll(3, later=LOOK_S)
    check(follower.content, LINES)
    assert not follower.tail.statistics().truncated


class Writer(threading.Thread):
    """Writes to a log and renames it out of sight; between two rotations it waits until somebody has looked."""

    def __init__(self, log: Path, late_lines: int) -> None:
        super().__init__()
        self.log = log
        self.late_lines = late_lines
        self.looks = 0
        self.written = 0

    def run(self) -> None:
        file = self.log.open("ab", buffering=0)
        for rotation in range(ROTATIONS):
            self._write(file, LINES // ROTATIONS)
            self._wait_for_looks()
            self.log.rename(self.log.with_name(f"{rotation}.old"))
            self._write(file, self.late_lines)
            file.close()
            file = self.log.open("ab", buffering=0)
        self._write(file, 1)
        file.close()

    def _write(self, file: Any, lines: int) -> None:
        for _ in range(lines):
            file.write(b"line %d\n" % self.written)
            self.written += 1

    def _wait_for_looks(self) -> None:
        enough, deadline = self.looks + 2, time.monotonic() + DEADLINE_S
        while self.looks < enough and time.monotonic() < deadline:
            time.sleep(0.0002)


@pytest.mark.parametrize("late_lines", [0, LINES_AFTER_RENAME])
def test_rotation_out_of_the_pattern(follow: Follow, tmp_path: Path, late_lines: int) -> None:
    log = tmp_path / "access.log"
    log.touch()
    follower = follow(log)
    follower.poll()
    writer = Writer(log, late_lines)
    writer.start()
    while writer.is_alive():
        follower.poll(later=0.0003)
        writer.looks += 1
    writer.join()
    follower.poll(3, later=LOOK_S)
    check(follower.content, writer.written)
    assert writer.written == LINES + ROTATIONS * late_lines + 1
