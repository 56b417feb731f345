"""Writes the logs of several servers, line by line as time passes."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from elf.demo.elements.adverts import AdTraffic
from elf.demo.elements.quotes import quote_line

_BEAT_S = 0.05
"""Interval at which lines are written."""
_LEAP_S = 0.25
"""Time that passes at most from one writing to the next, where logs wait for results."""
Write = Callable[[Sequence[int], int, Sequence[BinaryIO]], None]
"""Writes a line for each time (epoch ms), and whatever else is due until a time, to the logs."""


@dataclass(frozen=True, slots=True)
class LogTime:
    """The times that lines carry: those of the wall clock, or `speed` times as fast from a time of the past on."""

    begins_ms: int | None = None
    speed: float = 1.0

    def at(self, began_ms: int, elapsed_s: float) -> int:
        """Epoch milliseconds so long after the writing has begun."""
        return int((began_ms if self.begins_ms is None else self.begins_ms) + 1000 * elapsed_s * self.speed)


@dataclass
class LogWriter:
    """`with LogWriter(...) as writer:` writes `rate` lines a second to the logs, in a thread, until `stop`.

    `lead_ms`: the time in the logs stands still where it is so far ahead of `reached_ms`, that of the newest result, as
    on a busy machine; 0: it never does. `passed_s`: the time that has passed in the logs, but for that.
    """

    logs: Sequence[Path]
    rate: float
    write: Write
    log_time: LogTime = field(default_factory=LogTime)
    lead_ms: int = 0
    lines: int = 0
    passed_s: float = 0.0
    reached_ms: int = 0
    now_ms: int = 0
    """The time in the logs."""
    _over: threading.Event = field(default_factory=threading.Event)
    _fault: OSError | None = None

    def __post_init__(self) -> None:
        for log in self.logs:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.touch()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Writes no more. Raises OSError if lines could not be written."""
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises OSError if lines could not be written."""
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        before, began_ms = time.monotonic(), time.time_ns() // 1_000_000
        self.now_ms = self.log_time.at(began_ms, 0)
        self.reached_ms = max(self.reached_ms, self.now_ms)
        try:
            with ExitStack() as files:
                opened = [files.enter_context(log.open("ab", buffering=0)) for log in self.logs]
                while not self._over.wait(_BEAT_S):
                    now = time.monotonic()
                    self._pass(now - before)
                    before, since_ms = now, self.now_ms
                    due, until_ms = (
                        int(self.passed_s * self.rate) - self.lines,
                        self.log_time.at(began_ms, self.passed_s),
                    )
                    times = [since_ms + (until_ms - since_ms) * (place + 1) // due for place in range(due)]
                    self.write(times, until_ms, opened)
                    self.lines, self.now_ms = self.lines + due, until_ms
        except OSError as error:
            self._fault = error

    def _pass(self, seconds: float) -> None:
        if not self.lead_ms:
            self.passed_s += seconds
        elif self.now_ms < self.reached_ms + self.lead_ms:
            self.passed_s += min(seconds, _LEAP_S)


def quotes(seed: int) -> Write:
    """Quotations, each on some server."""
    dice = random.Random(seed)

    def write(times: Sequence[int], _until_ms: int, logs: Sequence[BinaryIO]) -> None:
        written = [bytearray() for _ in logs]
        for time_ms in times:
            written[dice.randrange(len(logs))] += quote_line(dice, time_ms)
        for log, lines in zip(logs, written, strict=True):
            log.write(lines)

    return write


def adverts(seed: int) -> Write:
    """Serves in the first log, clicks on them in the second."""
    traffic = AdTraffic(random.Random(seed))

    def write(times: Sequence[int], until_ms: int, logs: Sequence[BinaryIO]) -> None:
        serving, clicking = logs
        serving.write(b"".join(traffic.serves_until(times, until_ms)))
        clicking.write(b"".join(traffic.clicks_until(until_ms)))

    return write
