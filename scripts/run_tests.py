"""Runs the steps of the tests, all of them whatever fails, and says at the end how each of them ended.

    run_tests.py          what `make test` runs
    run_tests.py --all    what `make test-all` runs: everything there is

Steps that leave processors idle run beside one that takes what they leave. Each line of a step's output begins with the
step's name.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

SUMMARY = re.compile(r"^=+ (.*\b(?:passed|failed|errors?|skipped|deselected|no tests ran)\b.* in [\d.]+s.*?) =+$")
"""The last line of pytest's output."""
YIELDING = 5
"""Niceness of a step that yields: it is left a quarter of a processor that others want."""
FAULT = re.compile(r"^(?:FAILED|ERROR) \S+")


@dataclass(frozen=True)
class Step:
    """One run of pytest: the tests it selects, how it spreads them, and variables of its environment.

    `mark`: all of them have it, so that only files that name it need be loaded. `folders`: all of them are in these.
    `yields`: what runs beside it goes first.
    """

    name: str
    selects: str
    mark: str | None = None
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    yields: bool = False

    @property
    def command(self) -> list[str]:
        priority = ["nice", "-n", str(YIELDING)] if self.yields else []
        return [*priority, sys.executable, "-m", "pytest", "-m", self.selects, *self.options, *self.files]

    @property
    def files(self) -> list[str]:
        """Those to load, or their folders; none: all there are."""
        if self.mark is None:
            return [str(TESTS / folder) for folder in self.folders]
        found = [path for path in TESTS.rglob("test_*.py") if f"mark.{self.mark}" in path.read_text()]
        return [str(path) for path in sorted(found, key=lambda path: (path.name not in LONGEST, path))]


Lane = Sequence[Step]
"""Steps that run one after the other."""
Phase = Sequence[Lane]
"""Lanes that run side by side."""
TESTS = Path(__file__).parents[1] / "tests"
SPREAD = ("-n", "3", "--dist", "worksteal")
"""Three workers for two processors: some tests wait for processes, while two others compute."""
FLEETS = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-v")
"""Tests of one file share a fleet of processes. They wait most of the time: two at a time last nearly as long as the
fast ones, and leave them what they do not use."""
LONGEST = {
    "test_real_agents.py",
    "test_demo_command.py",
    "test_fleet_kills.py",
    "test_agent_fleet.py",
    "test_agents_remember.py",
    "test_draining.py",
    "test_real_nginx.py",
    "test_sealed_panes.py",
}
"""Files of live tests that are begun first: one that took half a minute at the end would run alone."""
ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
"""Frames of a few rows: threads of Polars would only wait for each other beside two workers."""
QUICK = "not slow and not live and not net and not spark and not sidecar and not dashboard"
NATIVE = ("agent_parsing", "archive", "cbt", "cbt_native")
"""Folders with the tests of what is there natively and in Python: they are run both ways."""
NIGHTLY = {"HYPOTHESIS_PROFILE": "nightly"}
DEFAULT: Sequence[Phase] = (
    [
        [Step("fast", QUICK, None, SPREAD, ONE_THREAD, yields=True)],
        [
            Step("spark", "spark and not slow and not net and not sidecar and not dashboard", "spark"),
            Step(
                "live", "live and not slow and not net and not spark and not sidecar and not dashboard", "live", FLEETS
            ),
        ],
    ],
)
"""Spark leaves processors idle while it plans and shuffles, and so does what waits for real time."""
EVERYTHING: Sequence[Phase] = (
    [
        [
            Step(
                "fast",
                "not live and not net and not spark and not sidecar and not dashboard",
                None,
                SPREAD,
                NIGHTLY,
                yields=True,
            )
        ],
        [Step("spark", "spark", "spark", (), NIGHTLY), Step("live", "live and not net and not spark", "live", FLEETS)],
    ],
    [
        [
            Step("exact", QUICK, None, SPREAD, ONE_THREAD | {"ELF_NATIVE": "0"}, NATIVE),
            Step("dashboard", "dashboard", "dashboard", ("-v",)),
            Step("net", "net", "net", ("-v",)),
            Step("sidecar", "sidecar", "sidecar", ("-v", "-x")),
        ]
    ],
)


@dataclass
class Outcome:
    """How a step has ended; `faults` names the tests that failed."""

    step: Step
    code: int
    summary: str
    faults: list[str]

    @property
    def is_good(self) -> bool:
        return self.code == 0

    def line(self) -> str:
        verdict = "ok" if self.is_good else f"FAILED (exit code {self.code})"
        return f"=== {self.step.name}: {verdict}: {self.summary} ==="


def run(step: Step) -> Outcome:
    """Runs a step to its end and shows its output but for the last line, which belongs to the end of all."""
    summary, faults = "pytest printed no summary", []
    environment = os.environ | step.environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(step.command, env=environment, text=True, errors="replace", **pipes) as process:  # type: ignore[call-overload]
        for line in map(str.rstrip, process.stdout):
            if found := SUMMARY.match(line):
                summary = found[1]
                continue
            if FAULT.match(line):
                faults.append(line)
            print(f"{step.name:5} | {line}\n", end="", flush=True)  # in one piece: others print beside
    return Outcome(step, process.returncode, summary, faults)


def run_beside_each_other(phase: Phase) -> list[Outcome]:
    """Runs all lanes of a phase; returns how the steps ended, lane by lane."""
    with ThreadPoolExecutor(len(phase)) as lanes:
        return [
            outcome for outcomes in lanes.map(lambda lane: [run(step) for step in lane], phase) for outcome in outcomes
        ]


def chosen(phases: Sequence[Phase], names: Sequence[str] | None) -> Iterator[Phase]:
    """The phases with the steps of these names; None: with all of them."""
    for phase in phases:
        lanes = [[step for step in lane if names is None or step.name in names] for lane in phase]
        if any(lanes):
            yield [lane for lane in lanes if lane]


def count(outcomes: Sequence[Outcome], word: str) -> int:
    """Adds up the tests of all steps that ended in this way."""
    return sum(int(found[1]) for one in outcomes if (found := re.search(rf"(\d+) {word}", one.summary)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="everything, also what takes long")
    parser.add_argument("--step", action="append", help="only the step of this name; may be repeated")
    arguments = parser.parse_args()
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for phase in chosen(EVERYTHING if arguments.all else DEFAULT, arguments.step):
        outcomes += run_beside_each_other(phase)
    failed = [outcome for outcome in outcomes if not outcome.is_good]
    print()
    for line in (*(fault for outcome in failed for fault in outcome.faults), *(one.line() for one in outcomes)):
        print(line)
    seconds = time.monotonic() - began
    names = ", ".join(outcome.step.name for outcome in failed)
    print(", ".join(f"{count(outcomes, word)} {word}" for word in ("passed", "failed", "skipped")))
    print(f"{f'FAILED: {names}' if failed else 'all steps passed'}, after {seconds // 60:.0f} min {seconds % 60:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
