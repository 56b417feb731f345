"""Tells where the time of a case goes: CPU seconds of all threads for a million events, by the part that spends them.

`python -m benchmarks.local.profile [CASE] [--events N] [--flames FILE]`: each thread's own clock around the calls that
lead from one part to the next, in the one of five runs that takes the least, after two for practice. What no call
accounts for are threads of Polars, the start of threads, and collecting garbage. With `--flames`, and py-spy at hand:
the stacks of all threads, native frames included, as a graph.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from agent.parsing.combined import CombinedParser
from agent.parsing.json_lines import JsonParser
from agent.parsing.native.combined_scanner import CombinedScanner
from agent.parsing.native.json_scanner import JsonScanner
from agent.parsing.native.scanned_lines import ScannedLines
from agent.runtime.embedded import EmbeddedFleet
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.panes.pane_store import PaneStore
from agent.runtime.job.local_jobs import LocalJobs
from agent.sources.file.ranges import OpenedRanges
from cbt import CompressedBufferTree
from elf.local import LocalRun
from query import ResultStage

from .cases import CASES
from .elf import results

EVENTS = 1_000_000
WARM_UPS, RUNS = 2, 5
PARTS: tuple[tuple[str, tuple[tuple[type, str], ...]], ...] = (
    ("opening files, telling formats, compiling", ((LocalRun, "__init__"), (EmbeddedFleet, "submit"))),
    ("reading", ((OpenedRanges, "read"),)),
    ("scanning natively", ((JsonScanner, "scan"), (CombinedScanner, "scan"))),
    ("columns from the scanner to Polars", ((ScannedLines, "values"),)),
    ("frames, and lines parsed exactly", ((JsonParser, "parse"), (CombinedParser, "parse"))),
    ("panes, batches, operator", ((EmbeddedFleet, "insert"),)),
    ("counting by pane", ((PaneStore, "add"),)),
    ("WHERE, keys and arguments", ((JobFunction, "select"),)),
    ("tree", ((CompressedBufferTree, "insert"),)),
    ("sealing, sending and merging runs", ((LocalJobs, "seal_next"),)),
    ("results", ((ResultStage, "windows"),)),
)
"""Parts, and the calls that begin them. A call within another is not counted twice."""


class Clocks:
    """Adds up the CPU time of calls by part, without that of the parts inside."""

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._inside = threading.local()

    def watch(self, part: str, owner: type, name: str) -> None:
        """Replaces a method by one that is timed."""
        method: Callable[..., Any] = getattr(owner, name)

        @wraps(method)
        def timed(*arguments: Any, **named: Any) -> Any:
            stack = self._inside.__dict__.setdefault("stack", [])
            began = time.thread_time()
            stack.append(0.0)
            try:
                return method(*arguments, **named)
            finally:
                took = time.thread_time() - began
                self.spent_s[part] += took - stack.pop()
                if stack:
                    stack[-1] += took

        setattr(owner, name, timed)


def split(case: str, paths: list[str]) -> tuple[dict[str, float], float, float]:
    """CPU seconds by part, all of the process, and the wall clock's, in the run with the least CPU time."""
    clocks = Clocks()
    for part, calls in PARTS:
        for owner, name in calls:
            clocks.watch(part, owner, name)
    best: tuple[dict[str, float], float, float] = ({}, float("inf"), 0.0)
    for number in range(WARM_UPS + RUNS):
        clocks.spent_s.clear()
        began_s, cpu_s = time.perf_counter(), time.process_time()
        results(case, paths)
        used_s = time.process_time() - cpu_s
        if number >= WARM_UPS and used_s < best[1]:
            best = (dict(clocks.spent_s), used_s, time.perf_counter() - began_s)
    return best


def main() -> int:
    """Prints the table, or writes the graph."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local.profile")
    parser.add_argument("case", nargs="?", choices=tuple(CASES), default="sums")
    parser.add_argument("--events", type=int, default=EVENTS, help="events to read (default: %(default)s)")
    parser.add_argument("--flames", type=Path, metavar="FILE", help="write a graph of stacks there instead, by py-spy")
    options = parser.parse_args()
    case = CASES[options.case]
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
        case.write(Path(directory), options.events)
        folder = Path(directory) / case.elf.folder
        if options.flames:
            return _record(options.flames, folder, options.case)
        spent_s, used_s, wall_s = split(options.case, [str(path) for path in sorted(folder.iterdir())])
    scale = EVENTS / options.events
    for part, _ in PARTS:
        print(f"{spent_s.get(part, 0.0) * scale:8.3f}  {part}")
    print(f"{(used_s - sum(spent_s.values())) * scale:8.3f}  everything else")
    print(f"{used_s * scale:8.3f}  CPU seconds per million events; {wall_s * scale:.3f} by the wall clock")
    return 0


def _record(flames: Path, folder: Path, case: str) -> int:
    if shutil.which("py-spy") is None:
        print("py-spy is not installed: pip install py-spy", file=sys.stderr)
        return 1
    program = [sys.executable, "-m", "benchmarks.local.elf", str(folder), str(WARM_UPS + RUNS), case]
    recording = ["py-spy", "record", "--native", "--threads", "--rate", "200", "--output", str(flames), "--", *program]
    return subprocess.run(recording, check=False, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
