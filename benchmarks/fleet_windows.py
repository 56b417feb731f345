"""`elf query` as a person runs it, and when its windows were printed."""

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from .race import BenchmarkError

GRACE_S = 5.0
_STOP_TIMEOUT_S = 10.0
_ONCE_TIMEOUT_S = 300.0
_PERCENTILES = 100


@dataclass(slots=True)
class Printed:
    """What was printed so far. `late_ms`: by window, how long after it had ended and its grace (s) had passed."""

    grace_s: float = GRACE_S
    late_ms: list[float] = field(default_factory=list)
    events: int = 0
    incomplete: int = 0
    late_events: int = 0

    def take(self, line: bytes, now_s: float) -> None:
        """One line, printed at that wall-clock time."""
        result = json.loads(line)
        due_s = datetime.fromisoformat(result["window_end"]).timestamp() + self.grace_s
        self.late_ms.append(1000 * (now_s - due_s))
        self.events += result["events"]
        self.incomplete += result["contributors"] < result["expected"] or bool(result["partial"])
        self.late_events += result["late"]

    def percentile_ms(self, percentile: int) -> float:
        return percentile_ms(self.late_ms, percentile)


def percentile_ms(late_ms: Sequence[float], percentile: int, least: int = 2) -> float:
    """A percentile of how late windows were printed. Raises BenchmarkError if there are fewer than `least` windows."""
    if len(late_ms) < least:
        raise BenchmarkError(f"only {len(late_ms)} windows were printed")
    return statistics.quantiles(late_ms, n=_PERCENTILES, method="inclusive")[percentile - 1]


@contextmanager
def printed_windows(socket: Path, query: str, grace_s: float = GRACE_S) -> Iterator[Printed]:
    """Runs a live query in the block, and stops it. `grace_s`: its grace."""
    printed = Printed(grace_s)
    with _elf_query(socket, query) as process:
        reader = threading.Thread(target=_read, args=(process, printed), name="windows")
        reader.start()
        try:
            yield printed
            if process.poll() is not None:
                raise BenchmarkError(f"elf query ended: {_complaint(process)}")
        finally:
            process.send_signal(signal.SIGINT)
            _end(process)
            reader.join()


def events_once(socket: Path, query: str) -> int:
    """Runs a query over what the logs hold to its end; how many events stand behind its windows."""
    events = 0
    with _elf_query(socket, query, "--once", "--timeout", str(_ONCE_TIMEOUT_S)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            events += json.loads(line)["events"]
        if process.wait() != 0:
            raise BenchmarkError(f"elf query failed: {_complaint(process)}")
    return events


def _elf_query(socket: Path, query: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "elf", "query", query, "--output", "json", "--socket", str(socket), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _read(process: subprocess.Popen[bytes], printed: Printed) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        printed.take(line, time.time())


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _complaint(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return (process.stderr.read().decode(errors="replace").strip() or "nothing on stderr").splitlines()[-1]
