"""Runs contenders in turn, each run in a process of its own, and takes the median of their times."""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .contender import Measurement, parse
from .environment import ROOT, NotAvailable, contender_variables, rival_python

_TIMEOUT_S = 600
_LOAD_MAX = 0.5


class BenchmarkError(Exception):
    """A benchmark that means nothing: a contender failed, or two of them disagree. One line."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A program to measure: `module` is run with the interpreter `python()` yields, after `check()`, and these last
    arguments. It reads the files in this `folder` of the data, at this niceness.

    Either function may raise NotAvailable.
    """

    name: str
    module: str
    python: Callable[[], Path] = rival_python
    check: Callable[[], None] = lambda: None
    arguments: tuple[str, ...] = ()
    folder: str = ""
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A contender's median time in seconds, or None and why it was not run."""

    seconds: float | None
    reason: str = ""


def race(contenders: Sequence[Contender], data: Path, *, rounds: int, warm_ups: int) -> dict[str, Outcome]:
    """Run everyone once per round, so that a busy machine is everyone's bad luck.

    Raises BenchmarkError when one fails or when their answers differ.
    """
    _warn_if_busy()
    outcomes: dict[str, Outcome] = {}
    runners: dict[str, list[str]] = {}
    for contender in contenders:
        try:
            contender.check()
            program = [*_niced(contender.nice), str(contender.python()), "-m", contender.module]
            runners[contender.name] = [*program, str(data / contender.folder), str(warm_ups), *contender.arguments]
        except NotAvailable as error:
            outcomes[contender.name] = Outcome(None, str(error))
    runs: dict[str, list[Measurement]] = {name: [] for name in runners}
    for number in range(rounds):
        for name, command in runners.items():
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            runs[name].append(_run_once(name, command))
    _check_answers(runs)
    medians = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    return outcomes | {name: Outcome(seconds) for name, seconds in medians.items()}


def _niced(nice: int) -> list[str]:
    """What comes before a command, so that it runs at a niceness."""
    return ["nice", "-n", str(nice)] if nice else []


def _warn_if_busy() -> None:
    """Say so when others use the cores: that costs most those who would have used both of them."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > _LOAD_MAX:
        print(f"the machine is busy (load {load:.1f}): expect distorted ratios", file=sys.stderr, flush=True)


def output_of(name: str, command: Sequence[str], variables: Mapping[str, str]) -> str:
    """What a program prints on its last line. Raises BenchmarkError when it fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=ROOT, env=variables
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{name} took more than {_TIMEOUT_S} seconds") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or "nothing on stderr").splitlines()[-1]
        raise BenchmarkError(f"{name} failed with exit code {done.returncode}: {last}")
    return done.stdout.strip().rpartition("\n")[2]


def _run_once(name: str, command: list[str]) -> Measurement:
    output = output_of(name, command, contender_variables())
    try:
        return parse(output)
    except ValueError as error:
        raise BenchmarkError(f"{name} printed no measurement: {error}") from error


def _check_answers(runs: dict[str, list[Measurement]]) -> None:
    answers = [(name, run.answer) for name, found in runs.items() for run in found]
    for name, answer in answers[1:]:
        if answer != answers[0][1]:
            raise BenchmarkError(f"{name} and {answers[0][0]} disagree: {answer}, {answers[0][1]}")
