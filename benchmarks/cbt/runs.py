"""Runs programs, each run in a process of its own on as many cores as it is given, and takes medians."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from benchmarks.contender import Answer
from benchmarks.environment import ROOT, NotAvailable
from benchmarks.race import BenchmarkError

_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Program:
    """`command()` is run with the arguments of a measurement appended; it may raise NotAvailable."""

    name: str
    command: Callable[[], list[str]]
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """What a program's run found, and the figures it took by their names."""

    answer: Answer
    figures: dict[str, float]

    def report(self) -> None:
        """Prints it the way it is read: as the last line of a program."""
        print(json.dumps(asdict(self)))

    @classmethod
    def parse(cls, output: str) -> "Run":
        """What a program's last line says. Raises BenchmarkError if that is something else."""
        line = output.strip().rpartition("\n")[2]
        try:
            found = json.loads(line)
            figures = {name: float(value) for name, value in found["figures"].items()}
            return cls(Answer(**found["answer"]), figures)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BenchmarkError(f"no figures: {line[:200]}") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program's figures, medians of all rounds; or none and why it was not run."""

    figures: dict[str, float]
    reason: str = ""


def measure(programs: Sequence[Program], arguments: Sequence[str], expected: Answer, rounds: int) -> dict[str, Outcome]:
    """Runs everyone in turn, so many rounds; by name, what came out.

    Raises BenchmarkError when a program fails or does not find what is expected.
    """
    outcomes: dict[str, Outcome] = {}
    commands: dict[Program, list[str]] = {}
    for program in programs:
        try:
            commands[program] = [*program.command(), *arguments]
        except NotAvailable as error:
            outcomes[program.name] = Outcome({}, str(error))
    runs: dict[str, list[Run]] = {program.name: [] for program in commands}
    for number in range(rounds):
        for program, command in commands.items():
            print(f"round {number + 1} of {rounds}: {program.name}", file=sys.stderr, flush=True)
            runs[program.name].append(_run(program, command, expected))
    for name, found in runs.items():
        figures = found[0].figures
        outcomes[name] = Outcome(
            {figure: statistics.median(run.figures[figure] for run in found) for figure in figures}
        )
    return outcomes


def _run(program: Program, command: list[str], expected: Answer) -> Run:
    variables = os.environ | {"POLARS_MAX_THREADS": str(program.cores)}
    try:
        with _on_cores(program.cores):
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=ROOT, env=variables
            )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{program.name} took more than {_TIMEOUT_S} seconds") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or "nothing on stderr").splitlines()[-1]
        raise BenchmarkError(f"{program.name} failed with exit code {done.returncode}: {last}")
    found = Run.parse(done.stdout)
    if found.answer != expected:
        raise BenchmarkError(f"{program.name} found {found.answer}, not {expected}")
    return found


@contextmanager
def _on_cores(cores: int) -> Iterator[None]:
    """Processes started meanwhile stay on so many cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
