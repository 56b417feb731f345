"""Reads the discounted products that micro-promotion shows to the web server beside an agent."""

import json
import threading
import time
from pathlib import Path

FILE = "micro-promotion.json"
LOOK_S = 0.1
_BYTES_MAX = 1 << 20


class Discounts:
    """Reads `shown/micro-promotion.json` of the agent's data directory, at most every `LOOK_S`; for all threads."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / FILE if directory is not None else None
        self._lock = threading.Lock()
        self._products: frozenset[str] = frozenset()
        self._look_at = 0.0
        self._stamp: object = None

    def products(self) -> frozenset[str]:
        """Names of products with a discount; empty while none are known."""
        with self._lock:
            if self._path is not None and time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + LOOK_S
                self._look(self._path)
            return self._products

    def _look(self, path: Path) -> None:
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp and found.st_size <= _BYTES_MAX:
                self._products = frozenset(map(str, json.loads(path.read_bytes())["discounts"]))
                self._stamp = stamp
        except FileNotFoundError:
            self._products, self._stamp = frozenset(), None
        except (OSError, ValueError, KeyError, TypeError):
            return  # a malformed file changes nothing
