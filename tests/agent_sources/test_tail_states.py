"""Any sequence of writes, rotations, creations, deletions and truncations, against a model of the lines written."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from agent.parsing import Format
from agent.sources.file.tail import GONE_S, LOOK_S, TailReader

LOGS = st.sampled_from(["a.log", "b.log"])
COUNTS = st.integers(0, 4)
LENGTHS = st.integers(0, 90)


def as_lines(head: bytes, file: str) -> Format:  # noqa: ARG001
    return Format("json", "time", ("time",))


class Log:
    """A file as its writer knows it, whatever its name. `is_known`: it had a name when names were looked at."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self.is_known = False
        self.lines: list[bytes] = []
        self.begun: tuple[bytes, bytes] | None = None  # a line, and what of it is still to be written

    def write(self, lines: list[bytes], cut: int = 0) -> None:
        """Whole lines; of the last one only `cut` bytes, if that is not 0."""
        data = b""
        if self.begun:
            line, data = self.begun
            self.lines.append(line)
            self.begun = None
        whole = lines[:-1] if cut else lines
        self.lines += whole
        data += b"".join(whole)
        if cut and lines:
            data += lines[-1][:cut]
            self.begun = (lines[-1], lines[-1][cut:])
        os.write(self.descriptor, data)


class TailMachine(RuleBasedStateMachine):
    """Every line has a number, so that it is told from all others."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        self.tail: TailReader[Format] = TailReader(
            [str(self.root / "*.log"), str(self.root / "*.log.1")], as_lines,
            block_bytes=64, poll_bytes=200, line_bytes_max=100,
        )  # fmt: skip
        self.now = 0.0
        self.named: dict[str, Log] = {}
        self.nameless: list[Log] = []
        self.must: set[bytes] = set()
        self.may: set[bytes] = set()
        self.numbered = 0
        self.got: Counter[bytes] = Counter()
        self.look()

    def _lines(self, count: int, length: int) -> list[bytes]:
        self.numbered += count
        return [b"%06d" % (self.numbered - index) + b"x" * length + b"\n" for index in range(count)]

    @rule(name=LOGS, count=COUNTS, length=LENGTHS, cut=st.integers(0, 6))
    def write(self, name: str, count: int, length: int, cut: int) -> None:
        if name not in self.named:
            self.named[name] = Log(self.root / name)
        self.named[name].write(self._lines(count, length), cut)

    @precondition(lambda self: self.nameless or "a.log.1" in self.named or "b.log.1" in self.named)
    @rule(data=st.data(), count=COUNTS, length=LENGTHS)
    def write_on_after_rotation(self, data: st.DataObject, count: int, length: int) -> None:
        rotated = [log for name, log in sorted(self.named.items()) if name.endswith(".1")]
        data.draw(st.sampled_from(rotated + self.nameless)).write(self._lines(count, length))

    @rule(name=LOGS)
    def rotate(self, name: str) -> None:
        if name in self.named:
            target = f"{name}.1"
            if target in self.named:
                self._lose_name(target)
            (self.root / name).rename(self.root / target)
            self.named[target] = self.named.pop(name)

    @rule(name=LOGS)
    def rotate_out_of_sight(self, name: str) -> None:
        if name in self.named:
            (self.root / name).rename(self.root / f"{self.numbered}.old")
            self._lose_name(name)

    @rule(name=st.sampled_from(["a.log", "b.log", "a.log.1", "b.log.1"]))
    def delete(self, name: str) -> None:
        if name in self.named:
            (self.root / name).unlink()
            self._lose_name(name)

    def _lose_name(self, name: str) -> None:
        self.nameless.append(self.named.pop(name))

    @rule(name=LOGS, refill=st.booleans())
    def truncate(self, name: str, refill: bool) -> None:
        """Refilled at once beyond its size, or looked at before that. What nobody had read is lost."""
        log = self.named.get(name)
        if log is None:
            return
        size = os.fstat(log.descriptor).st_size
        self.may.update(log.lines)
        log.lines, log.begun = [], None
        os.truncate(log.descriptor, 0)
        if refill:
            log.write(self._lines(size // 90 + 1, 90))
        else:
            self.poll()

    @rule()
    def poll(self) -> None:
        self._poll(LOOK_S / 10)

    @rule()
    def look(self) -> None:
        for log in self.named.values():
            log.is_known = True
        self._poll(LOOK_S)

    @rule(everything_read=st.booleans())
    def be_quiet(self, everything_read: bool) -> None:
        """For so long that files without a name are given up, once they are read."""
        if everything_read:
            self._read_all()
        else:
            self.look()
        for _ in range(3):
            self._poll(GONE_S)
        for log in self.nameless:
            self._close(log)
        self.nameless.clear()

    def _poll(self, later: float) -> None:
        self.now += later
        for piece in self.tail.poll(self.now):
            lines = piece.block.data.split(b"\n")
            # What comes without a line end is the last of a file that was given up.
            assert not lines[-1] or piece.part not in self.tail.behind()
            fresh = Counter(line + b"\n" for line in lines[:-1])
            self.got += fresh
            assert all(self.got[line] == 1 for line in fresh), "a line came twice"

    def _read_all(self) -> None:
        self.look()
        for _ in range(1000):
            if self.tail.at_end:
                return
            self._poll(0.001)
        raise AssertionError("never at the end")

    def _close(self, log: Log) -> None:
        (self.must if log.is_known else self.may).update(log.lines)
        os.close(log.descriptor)

    def teardown(self) -> None:
        try:
            self._read_all()
        finally:
            for log in (*self.named.values(), *self.nameless):
                self._close(log)
            self.tail.close()
            self.directory.cleanup()
        missing = self.must - self.got.keys()
        assert not missing, "lines were lost"
        assert self.got.keys() <= self.must | self.may, "lines were torn"


TestTailMachine = pytest.mark.fuzz(TailMachine.TestCase)
TestTailMachine.settings = settings(stateful_step_count=40)
