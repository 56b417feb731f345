"""Runs programs that count keys, each run in a process of its own on as many cores as it is given."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Answer
from benchmarks.environment import ROOT, NotAvailable
from benchmarks.race import BenchmarkError

_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Program:
    """`command()` is run with `speed` or `memory` and the path of its data appended; it may raise NotAvailable."""

    name: str
    command: Callable[[], list[str]]
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """What a program found. Bytes are those of its state after the last insert: as its allocator or the tree
    itself counts them (None if nobody does), and by how much the process grew meanwhile.
    """

    seconds: float
    answer: Answer
    tracked_bytes: int | None
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Medians:
    """A program's figures over all rounds, or None and why it was not run."""

    seconds: float | None = None
    tracked_bytes: float | None = None
    resident_bytes: float | None = None
    reason: str = ""


def rounds_of(programs: Sequence[Program], data: Path, expected: Answer, rounds: int) -> dict[str, Medians]:
    """Everyone's medians for speed, everyone in turn each round, and the bytes of one run for memory.

    Raises BenchmarkError when a program fails or does not find what is expected.
    """
    commands: dict[Program, list[str]] = {}
    found: dict[str, Medians] = {}
    for program in programs:
        try:
            commands[program] = program.command()
        except NotAvailable as error:
            found[program.name] = Medians(reason=str(error))
    seconds: dict[str, list[float]] = {program.name: [] for program in commands}
    for number in range(rounds):
        for program, command in commands.items():
            print(f"round {number + 1} of {rounds}: {program.name}", file=sys.stderr, flush=True)
            seconds[program.name].append(run(program, [*command, "speed", str(data)], expected).seconds)
    for program, command in commands.items():
        memory = run(program, [*command, "memory", str(data)], expected)
        median = statistics.median(seconds[program.name])
        found[program.name] = Medians(median, memory.tracked_bytes, memory.resident_bytes)
    return found


def run(program: Program, command: list[str], expected: Answer) -> Run:
    """One run. Raises BenchmarkError."""
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
    found = parse(done.stdout)
    if found.answer != expected:
        raise BenchmarkError(f"{program.name} found {found.answer}, not {expected}")
    return found


def report(seconds: float, answer: Answer, tracked_bytes: int | None, resident_bytes: int) -> None:
    """Prints a run the way `parse` reads it: the last line of a program."""
    fields = {"rows": answer.rows, "total": answer.total, "squares": answer.squares}
    print(
        json.dumps(
            {"seconds": seconds, "answer": fields, "tracked_bytes": tracked_bytes, "resident_bytes": resident_bytes}
        )
    )


def parse(output: str) -> Run:
    """The run that a program's last line tells of. Raises BenchmarkError if it is something else."""
    line = output.strip().rpartition("\n")[2]
    try:
        found = json.loads(line)
        return Run(found["seconds"], Answer(**found["answer"]), found["tracked_bytes"], found["resident_bytes"])
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(f"not a run: {line[:200]}") from error


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
