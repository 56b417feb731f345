"""A count by elements in Python, in this process: without sockets, rings and the process that contains the code."""

import statistics
import time
from pathlib import Path

import polars as pl

from agent.programs.element_graph import EventType
from agent.runtime.keyed.element_program import ProgramHere
from agent.runtime.keyed.elements.code import CodeRuntime
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, SEQ, SOURCE, Emitted
from agent.runtime.keyed.logical_nodes import nodes_of
from benchmarks.jobs.fleets import program
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from benchmarks.s4.lines import at_least, at_most
from elf.program.code import about, load_code
from elf.program.code_here import code_here

PROGRAMS = Path(__file__).parents[1] / "programs"
BATCH_ROWS, COMMIT_BATCHES = 8192, 12
TARGET, UNIT = 1.0, "M events/s"


def run(events: int, keys: int, rounds: int, with_targets: bool) -> list[Comparison]:
    """Counts with an update out for each event, also with all changed states taken about every 100,000 events."""
    rows = _hits(events, keys)
    lines = []
    for label, commits in (("", False), (", its states taken", True)):
        rates = [_rate(rows, commits=commits) for _ in range(rounds)]
        case = f"user code alone, {keys:,} keys{label}: one process, calls packed and checked"
        rate = statistics.median(rates) / 1e6
        lines.append(at_least(case, rate, UNIT, TARGET) if with_targets else at_most(case, rate, UNIT))
    return lines


def _hits(events: int, keys: int) -> pl.DataFrame:
    numbers = pl.int_range(events, eager=True)
    key = pl.Series("key", (numbers * 7919) % keys).cast(pl.String)
    source = pl.zeros(events, pl.Int64, eager=True)
    return pl.DataFrame({EVENT_TIME: numbers, SOURCE: source, SEQ: numbers, NODE: nodes_of([key]), "key": key})


def _rate(rows: pl.DataFrame, *, commits: bool) -> float:
    """Events a second, until all updates are out."""
    source = program("count_keys", PROGRAMS, DECLARED=False)
    graph = about(load_code(source).kind).elements
    assert graph is not None
    here = ProgramHere(code_here(source, "count", print))
    types: dict[str, EventType] = {one.name: one for one in graph.types}
    elements = CodeRuntime(graph.elements[0], types, here.call, here.place)
    updates = 0

    def take(emitted: list[Emitted]) -> None:
        nonlocal updates
        updates += sum(one.rows.height for one in emitted)

    began = time.perf_counter()
    for number, batch in enumerate(rows.iter_slices(BATCH_ROWS)):
        elements.process("Hit", batch, take)
        if commits and number % COMMIT_BATCHES == 0:
            elements.take_changes(lambda _: None)
        while here.has_acts:
            for act in here.take_acts():
                elements.answered(act)
    took_s = time.perf_counter() - began
    if updates != rows.height:
        raise BenchmarkError(f"{updates:,} updates of {rows.height:,} events came out")
    return rows.height / took_s
