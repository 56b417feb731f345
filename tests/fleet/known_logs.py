"""Logs of which everything is known: one growing file an agent, and how many events of each moment are in it."""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

TICK_S = 0.05


class KnownLogs:
    """`with KnownLogs(folder, names) as logs:` writes to `logs.path(name)` all the time, for every name alike."""

    def __init__(self, folder: Path, names: Sequence[str], *, tick_s: float = TICK_S, per_tick: int = 2) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: (folder / f"{name}.json").open("ab", buffering=0) for name in names}
        self._folder = folder
        self._tick_s = tick_s
        self._per_tick = per_tick
        self._written: dict[str, list[int]] = {name: [] for name in names}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="known logs")

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def count(self, name: str, start_ms: int, end_ms: int) -> int:
        """How many events of that time are in this log; exact once the time is over."""
        written = self._written[name]
        return bisect_left(written, end_ms) - bisect_left(written, start_ms)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for file in self._files.values():
            file.close()

    def _write(self) -> None:
        while not self._stop.wait(self._tick_s):
            for name, file in self._files.items():
                now_ms = time.time_ns() // 1_000_000
                moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
                line = json.dumps({"time": moment, "agent": name, "n": 1}) + "\n"
                self._written[name] += [now_ms] * self._per_tick
                file.write(line.encode() * self._per_tick)
