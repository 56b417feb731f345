"""Runs programs, each run in a process of its own on as many cores as it is given, and takes medians."""

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from benchmarks.contender import Answer
from benchmarks.environment import NotAvailable
from benchmarks.race import BenchmarkError, output_of


@dataclass(frozen=True, slots=True)
class Program:
    """`command()` is run with the arguments of a job appended; it may raise NotAvailable."""

    name: str
    command: Callable[[], list[str]]
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A program with its arguments, and what it must find."""

    program: Program
    arguments: tuple[str, ...]
    expected: Answer


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a program's run, with its figures by name."""

    answer: Answer
    figures: dict[str, float]

    def report(self) -> None:
        """Prints it the way it is read: as the last line of a program."""
        print(json.dumps(asdict(self)))

    @classmethod
    def parse(cls, line: str) -> "Run":
        """The figures in a program's last line. Raises BenchmarkError for any other line."""
        try:
            found = json.loads(line)
            figures = {name: float(value) for name, value in found["figures"].items()}
            return cls(Answer(**found["answer"]), figures)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BenchmarkError(f"no figures: {line[:200]}") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job's figures, medians of all rounds; or none and why it was not run."""

    figures: dict[str, float]
    reason: str = ""


def measure(jobs: Sequence[Job], rounds: int) -> list[Outcome]:
    """Runs all jobs in turn, so many rounds; what came out, in the order of the jobs.

    Raises BenchmarkError when a program fails or does not find what it must.
    """
    runs: list[list[Run]] = [[] for _ in jobs]
    reasons = [""] * len(jobs)
    for number in range(rounds):
        for at, job in enumerate(jobs):
            print(f"round {number + 1} of {rounds}: {job.program.name}", file=sys.stderr, flush=True)
            try:
                runs[at].append(_run(job))
            except NotAvailable as error:
                reasons[at] = str(error)
    return [Outcome(_medians(found), reason) for found, reason in zip(runs, reasons, strict=True)]


def _medians(runs: Sequence[Run]) -> dict[str, float]:
    names = runs[0].figures if runs else ()
    return {name: statistics.median(run.figures[name] for run in runs) for name in names}


def _run(job: Job) -> Run:
    program = job.program
    command = [*program.command(), *job.arguments]
    variables = os.environ | {"POLARS_MAX_THREADS": str(program.cores)}
    with _on_cores(program.cores):
        output = output_of(program.name, command, variables)
    found = Run.parse(output)
    if found.answer != job.expected:
        raise BenchmarkError(f"{program.name} found {found.answer}, not {job.expected}")
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
