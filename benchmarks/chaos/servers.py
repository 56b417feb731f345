"""Servers that log events with ids, and remember what they have logged."""

import json
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

TICK_S = 0.05
EVENTS_A_TICK = 4
"""Events that each server logs in a tick."""


class Servers:
    """`with Servers(paths):` logs to the file of each server, by its agent's name, in a thread."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)
        self._files = {name: path.open("ab", buffering=0) for name, path in paths.items()}
        self._logged: dict[str, list[tuple[int, int]]] = {name: [] for name in paths}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="servers")
        self._rotations = 0

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

    def rotate(self, name: str) -> None:
        """Renames a server's log, and goes on in a new file of the old name, as logrotate does."""
        with self._lock:
            self._rotations += 1
            path = self._paths[name]
            path.rename(path.with_suffix(f".{self._rotations}"))
            self._files[name].close()
            self._files[name] = path.open("ab", buffering=0)

    def logged(self, name: str, begin_ms: int, end_ms: int) -> set[int]:
        """The ids of a server's events of this span."""
        return {number for at_ms, number in self._logged[name] if begin_ms <= at_ms < end_ms}

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(TICK_S):
            with self._lock:
                for name, file in self._files.items():
                    number += 1
                    self._log(name, file.write, range(number * EVENTS_A_TICK, (number + 1) * EVENTS_A_TICK))

    def _log(self, name: str, write: object, ids: range) -> None:
        at_ms = time.time_ns() // 1_000_000
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = [json.dumps({"time": moment, "server": name, "id": number}) + "\n" for number in ids]
        write("".join(lines).encode())  # type: ignore[operator]
        self._logged[name] += [(at_ms, number) for number in ids]
