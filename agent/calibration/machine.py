"""Measures what ELF's work costs on this machine, and keeps it on disk as long as it is the same machine and software.

A few lines that ELF makes up go the way of all lines (`TimedWork`), and some bytes to disk as sealed panes do.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import polars as pl

import query
from agent.calibration.timed_work import Costs, TimedWork
from agent.durable_files import write_durably
from agent.parsing import sniff
from agent.runtime.function.job_function import JobFunction
from agent.sources import Block, Origin
from query.latency.phases import Phase
from query.latency.resources import COST_MAX, Amount, LinearCost

WORK_S = 0.35
"""Processor time after which no further piece of work is begun, but for the first ones. Loading what has not been used
yet is in it; then nothing takes longer than 0.03 s."""
ELAPSED_S = 5.0
"""Time after which nothing more is begun: others have the processor, or the disk is slow."""
FILE_BYTES_MAX = 1 << 16
FORM = 1
_LINES = (128, 1_024, 3_072)
_ROUNDS = 6
_WRITES = 3
_WRITTEN = (1 << 10, 1 << 18)
_KEYS = 3_001
_TIME_MS = 1_700_000_000_000
_CPU_PATH = Path("/proc/cpuinfo")
_QUERY = "SELECT product, COUNT(*) AS n, SUM(clicks) AS clicks FROM lines GROUP BY product WINDOWING 1 SECOND"
Parts = Annotated[tuple[float, float, float, float, float, float], msgspec.Meta(description="as of LinearCost")]


class Machine(msgspec.Struct, frozen=True):
    """The machine and the software that costs are of."""

    cpu: str
    elf: str
    polars: str

    @classmethod
    def here(cls, elf: str) -> Machine:
        """This machine, with this version of ELF."""
        return cls(_cpu(), elf, pl.__version__)


class MachineCosts(msgspec.Struct, frozen=True):
    """The costs (s) of phases on a machine, and that of a durable write, by `fixed` and `byte`."""

    machine: Machine
    phases: Mapping[Phase, LinearCost]
    write: LinearCost


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    form: int
    machine: Machine
    phases: dict[str, Parts]
    write: Parts


def measured_costs(
    machine: Machine, folder: Path, worked: Callable[[], float], timer: Callable[[], float]
) -> MachineCosts:
    """Measures; takes half a second of a processor at most, and some durable writes into a folder. `worked` tells the
    seconds of work so far, `timer` those that have passed. OSError if the disk takes none."""
    begun_s, begun = worked(), timer()
    plan = query.analyze(query.parse(_QUERY), {"lines": query.Schema({}, open=True)})
    work = TimedWork(JobFunction(plan), worked)
    blocks = [_block(lines) for lines in _LINES]
    form = sniff(blocks[0].data, "lines", "json", "at")
    for number, block in enumerate(blocks * _ROUNDS):
        is_over = worked() - begun_s >= WORK_S or timer() - begun >= ELAPSED_S
        if is_over and number > len(blocks):
            break
        work.take("lines", block, form, _TIME_MS)
    return MachineCosts(machine, work.costs(), _written(folder, timer))


def read_costs(path: Path, machine: Machine) -> tuple[MachineCosts | None, str]:
    """The costs in a file, or None and why they are to be measured anew, in words for the log."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        kept = msgspec.json.decode(data, type=_Kept)
        costs = MachineCosts(kept.machine, _phases(kept.phases), _cost(kept.write))
    except FileNotFoundError:
        return None, "there is none yet"
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{path.name} is damaged: {error}"
    if kept.form != FORM:
        return None, f"{path.name} is of another form: {kept.form}"
    for what, before, now in zip(machine.__struct_fields__, _told(kept.machine), _told(machine), strict=True):
        if before != now:
            return None, f"it is of another {what}: {before}"
    return costs, ""


def keep_costs(path: Path, costs: MachineCosts) -> None:
    """Writes costs to a file. OSError if the disk does not take them."""
    phases: dict[str, Parts] = {phase.label: (*cost,) for phase, cost in costs.phases.items()}
    write_durably(path, msgspec.json.encode(_Kept(FORM, costs.machine, phases, (*costs.write,))))


def _told(machine: Machine) -> tuple[str, ...]:
    return msgspec.structs.astuple(machine)


def _phases(told: Mapping[str, Parts]) -> Costs:
    labels = {phase.label: phase for phase in Phase}
    if not told.keys() <= labels.keys():
        raise ValueError(f"no phase: {', '.join(sorted(told.keys() - labels.keys()))[:100]}")
    return {labels[name]: _cost(parts) for name, parts in told.items()}


def _cost(parts: Parts) -> LinearCost:
    if not all(0 <= part <= COST_MAX for part in parts[:5]) or not 0 <= parts[5] < math.inf:
        raise ValueError(f"no cost: {parts}")
    return LinearCost(*parts)


def _block(lines: int) -> Block:
    """Lines of JSON with some thousand products, of which some are in many of them."""
    text = "".join(
        f'{{"at":{_TIME_MS + one},"product":"p{one * one % _KEYS}","clicks":{one % 7},"path":"/shop/{one % 97}"}}\n'
        for one in range(lines)
    )
    return Block(text.encode(), Origin("lines", 0), 0)


def _written(folder: Path, timer: Callable[[], float]) -> LinearCost:
    """The cost of a durable write."""
    path = folder / "calibration.probe"
    pieces: list[tuple[Amount, float]] = []
    begun = timer()
    try:
        for size in _WRITTEN * _WRITES:
            if pieces and timer() - begun >= ELAPSED_S:
                break
            content, written = os.urandom(size), timer()
            write_durably(path, content)
            pieces.append((Amount(size=size), max(timer() - written, 0.0)))
    finally:
        path.unlink(missing_ok=True)
    return LinearCost.fitted(pieces)


def _cpu() -> str:
    """The model of the processor, and how many there are."""
    model = platform.machine()
    try:
        with _CPU_PATH.open(encoding="utf-8", errors="replace") as file:
            named = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            model = next(named, model)
    except OSError:
        pass
    return f"{model} x{os.cpu_count() or 1}"
