"""Writes the two logs of a shop server: nginx's combined format and JSON events.

A line is handed over *before* the answer it describes is sent, so that every answered request is in the log even if the
server is told to stop in that very moment.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from elf.demo.catalogue import Product, User

_SNOWFLAKE_EPOCH_MS = 1_288_834_974_657
_WORKER_BITS = 10
_SEQUENCE_BITS = 12
WORKERS_MAX = 1 << _WORKER_BITS

# Characters that nginx escapes by default: control characters, the quote, the backslash and all beyond ASCII.
_ESCAPES = {code: f"\\x{code:02X}" for code in (*range(32), 0x22, 0x5C, *range(127, 256))}


def escape(value: str | None) -> str:
    r"""A header's or request line's Latin-1 text as nginx logs it; None (not sent) is `-`.

    >>> escape('say "hi"'), escape(None), escape("")
    ('say \\x22hi\\x22', '-', '')
    """
    return "-" if value is None else value.translate(_ESCAPES)


def access_line(
    address: str,
    when: str,
    request: str,
    status: int,
    body_bytes: int,
    *,
    referer: str | None,
    user_agent: str | None,
) -> str:
    """One line of nginx's `combined` format, without its newline; `when` comes from `AccessClock`."""
    return (
        f'{address} - - [{when}] "{escape(request)}" {status} {body_bytes} "{escape(referer)}" "{escape(user_agent)}"'
    )


class AccessClock:
    """Formats nginx's `$time_local` once a second instead of once a request."""

    def __init__(self) -> None:
        self._formatted = (0, "")

    def text(self, now_s: float) -> str:
        second, text = self._formatted
        if second != int(now_s):
            text = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(now_s))
            self._formatted = (int(now_s), text)
        return text


class Snowflakes:
    """Unique, rising 63-bit ids: milliseconds, worker, sequence. Safe to use from several threads."""

    def __init__(self, worker: int) -> None:
        if not 0 <= worker < WORKERS_MAX:
            raise ValueError(f"worker must be between 0 and {WORKERS_MAX - 1}, not {worker}")
        self._worker = worker
        self._last = 0
        self._lock = threading.Lock()

    def take(self, now_s: float) -> int:
        """The next id; a clock that stands still or steps back only uses up the sequence."""
        ticks = (int(now_s * 1000) - _SNOWFLAKE_EPOCH_MS) << _SEQUENCE_BITS
        with self._lock:
            self._last = max(self._last + 1, ticks)
            milliseconds, sequence = divmod(self._last, 1 << _SEQUENCE_BITS)
        return ((milliseconds << _WORKER_BITS | self._worker) << _SEQUENCE_BITS) | sequence


def event_line(
    now_s: float,
    event_id: int,
    product: Product,
    user: User,
    *,
    clicks: int = 0,
    buys: int = 0,
    likes: int = 0,
    text: str | None = None,
    discount: int = 0,
) -> str:
    """One JSON event, without its newline: the fields of the paper's Figure 4, then the shop's own.

    `text` is a visitor's comment on the product, and `sale` whether it advertises one; `discount` is the per cent that
    the visitor was shown.
    """
    created_at = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")
    event = {
        "created_at": created_at.replace("+00:00", "Z"),
        "id": event_id,
        "product": product.name,
        "clicks_count": clicks,
        "buys_count": buys,
        "store": product.store,
        "user": {
            "id": user.id,
            "name": user.name,
            "location": user.location,
            "followers": user.followers,
            "longitude": user.longitude,
            "latitude": user.latitude,
        },
        "likes_count": likes,
    }
    if text is not None:
        event |= {"sale": "sale" in text.lower(), "text": text}
    if discount:
        event["discount"] = discount
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


class _LineFile:
    """Appends whole lines to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)
        self.lines: list[str] = []

    def write(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            while data:
                data = data[os.write(self._file.fileno(), data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def close(self) -> None:
        self._file.close()


class Journal:
    """`access.log` and `events.json` of one server, flushed every `interval_s` and at `close`.

    `on_error` is called once, from the flushing thread, when a file can no longer be written.
    """

    def __init__(self, directory: Path, on_error: Callable[[OSError], object], *, interval_s: float = 0.1) -> None:
        self._access = _LineFile(directory / "access.log")
        self._events = _LineFile(directory / "events.json")
        self._on_error = on_error
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def record(self, access: str, event: str | None) -> bool:
        """Takes the lines of one request. False when the journal is closed: the request must not be answered."""
        with self._lock:
            if self._closed:
                return False
            self._access.lines.append(access)
            if event is not None:
                self._events.lines.append(event)
            return True

    def close(self) -> None:
        """Writes the remaining lines and closes. Raises OSError if they cannot be written."""
        with self._lock:
            self._closed = True
        self._closing.set()
        self._thread.join()
        try:
            self._flush()
        finally:
            self._access.close()
            self._events.close()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                self._flush()
            except OSError as error:
                with self._lock:
                    self._closed = True
                self._on_error(error)
                return

    def _flush(self) -> None:
        for file in (self._events, self._access):
            with self._lock:
                lines, file.lines = file.lines, []
            file.write(lines)
