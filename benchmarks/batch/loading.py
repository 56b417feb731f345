"""What a task of `elf batch ingest` costs, with native code and without: CPU time from logs to a segment on disk."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.archive.format.rows import FileOrigin
from agent.archive.format.segments import SEGMENTS_DIRECTORY, write_segment
from agent.parsing import sniff
from agent.sources import SourceFile
from benchmarks.events import write_shop_events
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, smaller
from elf.batch.table.loading import FileSplit, read_split

EVENTS, QUICK_EVENTS = 400_000, 100_000
ROUNDS, QUICK_ROUNDS = 5, 3
PROCESS_TIMEOUT_S = 120.0


def run(quick: bool) -> list[Comparison]:
    """CPU seconds of a million events, both ways in turns, medians. Raises BenchmarkError where segments differ."""
    events = QUICK_EVENTS if quick else EVENTS
    seconds: dict[str, list[float]] = {"1": [], "0": []}
    with TemporaryDirectory(prefix="elf-benchmark-") as folder:
        (log,) = write_shop_events(Path(folder), events, files=1).paths
        for number in range(QUICK_ROUNDS if quick else ROUNDS):
            print(f"loading: round {number + 1}", file=sys.stderr, flush=True)
            found = {native: _loaded(log, native) for native in seconds}
            if found["0"][1] != found["1"][1]:
                raise BenchmarkError(f"segments differ: {found}")
            for native, (taken, _) in found.items():
                seconds[native].append(taken / events * 1e6)
    own, rival = (statistics.median(values) for values in seconds.values())
    return [smaller("batch", "loading a million events, CPU time of a task", own, "s", "without native code", rival)]


def _loaded(log: Path, native: str) -> tuple[float, str]:
    """CPU seconds of a process that loads a log, and a description of what it has made."""
    command = [sys.executable, "-m", "benchmarks.batch.loading", str(log)]
    environment = os.environ | {"ELF_NATIVE": native}
    ran = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S
    )
    taken, described = json.loads(ran.stdout)
    return float(taken), str(described)


def _load(log: str) -> None:
    """Does the work of a task and prints what it took, without starting Python."""
    origin = FileOrigin("web", "bulk", log, 1, sniff(SourceFile(log).head(), log))
    with TemporaryDirectory(prefix="elf-benchmark-") as folder:
        (Path(folder) / SEGMENTS_DIRECTORY).mkdir()
        begin = time.process_time()
        lots = list(read_split(FileSplit(origin, 0, None, True, 0)))
        segment = write_segment(Path(folder), lots, 0)
        taken = time.process_time() - begin
    print(json.dumps([taken, repr((segment.rows, segment.events, segment.malformed, segment.columns, segment.bytes))]))


if __name__ == "__main__":
    _load(sys.argv[1])
