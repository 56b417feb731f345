"""The time from a window's end to its result: ELF, one agent that tails a log, against Spark Structured Streaming.

Both count the same windows of the same events a second, with the same grace, on two cores: one after the other. Spark
gets its lines over a socket, for which it has to look into no folder, and writes its checkpoints to this disk.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agents import LIVE, live_logs, running_agents
from benchmarks.environment import NotAvailable, check_java, contender_variables, use_two_cores
from benchmarks.fleet_windows import percentile_ms, printed_windows
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison, smaller
from elf.client import ClientError
from elf.demo import DemoError

EVENTS_PER_S = 2_000
WINDOW_MS, GRACE_MS, WITHIN_MS = 500, 125, 500
RATIO_TARGET = 5.0
RIVAL = "Spark Structured Streaming local[2], append mode"
_QUERY = (
    f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE} GROUP BY product"
    f" WINDOWING {WINDOW_MS} MILLISECONDS WITHIN {WITHIN_MS} MILLISECONDS"
)
FULL_S, QUICK_S = 60.0, 20.0
"""Time for which windows are counted."""
WARM_S, QUICK_WARM_S = 30.0, 10.0
"""Time from the first windows on after which they are counted: the first micro-batches take seconds."""
_START_S = 180.0
"""Time in which Spark has to begin, and then to bring its first windows."""
_LEAST = 10
"""Windows below which there is nothing to tell."""


def spark(*, quick: bool = False) -> list[Comparison]:
    """The median, and the 99th percentile. Raises BenchmarkError."""
    use_two_cores()
    seconds, warm_s = (QUICK_S, QUICK_WARM_S) if quick else (FULL_S, WARM_S)
    try:
        progress("ELF")
        own_ms = _own(seconds, warm_s)
        progress("Spark")
        rival_ms: list[float] | None = _rival(seconds, warm_s)
    except NotAvailable as error:
        progress(f"Spark is not run: {error}")
        rival_ms = None
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    case = f"window's end to its result, {EVENTS_PER_S:,} events/s, windows of {WINDOW_MS} ms, grace {GRACE_MS} ms"
    return [_line(f"{case}, p50", own_ms, rival_ms, 50, RATIO_TARGET), _line(f"{case}, p99", own_ms, rival_ms, 99)]


def _line(
    case: str, own_ms: list[float], rival_ms: list[float] | None, percentile: int, target: float | None = None
) -> Comparison:
    rival = None if rival_ms is None else percentile_ms(rival_ms, percentile, _LEAST)
    return smaller("latency", case, percentile_ms(own_ms, percentile, _LEAST), "ms", RIVAL, rival, target)


def _own(seconds: float, warm_s: float) -> list[float]:
    """Milliseconds from each window's end until `elf query` prints it."""
    with (
        running_agents(1) as (fleet, folder, _),
        Replay(folder / "sample", live_logs(fleet, folder), EVENTS_PER_S),
        printed_windows(fleet.socket(fleet.names[0]), _QUERY, grace_s=0.0) as printed,
    ):
        time.sleep(warm_s)
        before = len(printed.late_ms)
        time.sleep(seconds)
    if printed.incomplete or printed.late_events:
        raise BenchmarkError(f"{printed.incomplete} windows lacked the agent, {printed.late_events} events were late")
    return printed.late_ms[before:]


def _rival(seconds: float, warm_s: float) -> list[float]:
    """The same, until a micro-batch has collected it."""
    check_java()
    with TemporaryDirectory(prefix="elf-bench-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_START_S)
        with _spark(server.getsockname()[1], Path(folder) / "spark.log") as process:
            windows: list[tuple[float, float]] = []
            reader = threading.Thread(target=_read, args=(process, windows), name="windows")
            reader.start()
            try:
                connection, _ = server.accept()
            except TimeoutError:
                raise BenchmarkError(f"Spark did not begin: {_complaint(Path(folder) / 'spark.log')}") from None
            with (
                connection,
                connection.makefile("wb", buffering=0) as lines,
                Replay(Path(folder) / "sample", [lines], EVENTS_PER_S),
            ):
                _until_windows(windows, process)
                time.sleep(warm_s)
                begun_s = time.time()
                time.sleep(seconds)
        reader.join()
    return [1000 * (out_s - end_s) for end_s, out_s in windows if end_s >= begun_s]


def _until_windows(windows: list[tuple[float, float]], process: subprocess.Popen[bytes]) -> None:
    """Waits for the first windows. Raises BenchmarkError when none comes."""
    deadline = time.monotonic() + _START_S
    while not windows:
        if time.monotonic() > deadline or process.poll() is not None:
            raise BenchmarkError("Spark has brought no window")
        time.sleep(0.1)


@contextmanager
def _spark(port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.rivals.spark_live", *map(str, (port, WINDOW_MS, GRACE_MS))]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=contender_variables(), process_group=0
        )
        try:
            yield process
            if process.poll() is not None:
                raise BenchmarkError(f"Spark has ended: {_complaint(log)}")
        finally:
            os.killpg(process.pid, 9)  # with its Java
            process.wait()


def _read(process: subprocess.Popen[bytes], windows: list[tuple[float, float]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        windows.append((told["end_s"], told["out_s"]))


def _complaint(log: Path) -> str:
    return (log.read_text(errors="replace").strip() or "nothing on stderr").splitlines()[-1]
