"""Reads the value that a job shows to the web server beside an agent."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

LOOK_S = 0.1
_BYTES_MAX = 1 << 20

Value = TypeVar("Value")


class ShownValue(Generic[Value]):
    """Looks at a file of the folder `shown` at most every `LOOK_S`; for all threads.

    `read` makes the value of what JSON holds. It is `otherwise` without a file; a malformed one changes nothing.
    """

    def __init__(self, directory: Path | None, file: str, read: Callable[[Any], Value], otherwise: Value) -> None:
        self._path = directory / file if directory is not None else None
        self._read = read
        self._otherwise = self._value = otherwise
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._stamp: object = None

    def value(self) -> Value:
        """The value that is shown."""
        with self._lock:
            if self._path is not None and time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + LOOK_S
                self._look(self._path)
            return self._value

    def _look(self, path: Path) -> None:
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp and found.st_size <= _BYTES_MAX:
                self._value = self._read(json.loads(path.read_bytes()))
                self._stamp = stamp
        except FileNotFoundError:
            self._value, self._stamp = self._otherwise, None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
