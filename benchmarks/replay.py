"""Writes shop events to logs as web servers would: now, at a steady rate, with the time of writing in each."""

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import Self

from .events import write_shop_events

TICK_S = 0.05
_SAMPLE = 20_000
_FIELD = b'{"created_at":"'
_TIME_BYTES = len("2026-03-02T12:00:00.000Z")


class Replay:
    """`with Replay(sample_folder, logs, rate):` writes about `rate` events a second, the same share to each log: a
    path, or what is open for writing without a buffer.

    `written` counts what is in the files. A tick that comes late writes what is due by then, so the rate holds.
    """

    def __init__(self, sample: Path, logs: Sequence[Path | RawIOBase], rate: float) -> None:
        path = write_shop_events(sample, _SAMPLE, files=1).paths[0]
        lines = path.read_bytes().splitlines(keepends=True)
        assert all(line.startswith(_FIELD) for line in lines)
        self._tails = [line[len(_FIELD) + _TIME_BYTES :] for line in lines]
        self._files = [log.open("ab", buffering=0) if isinstance(log, Path) else log for log in logs]
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replay")
        self.written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for file in self._files:
            file.close()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(TICK_S):
            due = int((time.monotonic() - began) * self._rate) - self.written
            for file in self._files:
                self._write(file, due // len(self._files))

    def _write(self, file: object, events: int) -> None:
        while events > 0:
            tails = self._tails[:events]
            moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            data = (_FIELD + moment.encode()).join([b"", *tails])
            while data:
                data = data[file.write(data) :]  # type: ignore[attr-defined]
            self.written += len(tails)
            events -= len(tails)
