"""A running count of 100,000 keys, an update out for each event, beside Bytewax and Spark."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.programs.commands import ELEMENTS_NICE
from benchmarks.environment import check_java, use_two_cores
from benchmarks.local.cases import own_python
from benchmarks.race import BenchmarkError, Contender, Outcome, race
from benchmarks.report import Comparison
from benchmarks.rivals.keys import KEYS, write_keys
from benchmarks.s4.graphs import CODE, DECLARED
from benchmarks.s4.lines import LEVEL, beside

UNIT = "M updates/s"
NAMES = {DECLARED: "declared (elf.aggregate)", CODE: "user code (elf.PE)"}
TARGETS: Mapping[str, Mapping[int, float]] = {
    DECLARED: {1: 6.0, 4: 6.0, 8: 6.0},
    CODE: {1: 1.5, 4: 2.5, 8: 2.5},
}
"""Times as many updates as the faster form of as many Bytewax processes, by the number of agents."""
SPARK_TARGET = 20.0
BYTEWAX = ("stateful_map", "stateful_batch")
SPARK = ("applyInPandasWithState", "transformWithStateInPandas")
NOT_RUN = "Quix Streams, Faust (not run: they keep state by way of Kafka, which is not on this machine)"


def run(kind: str, agents: int, events: int, rounds: int, with_targets: bool) -> list[Comparison]:
    """ELF's elements of one kind beside as many processes of Bytewax, which have the niceness of programs where these
    run the elements."""
    use_two_cores()
    nice = ELEMENTS_NICE if kind == CODE else 0
    rivals = [
        Contender(f"Bytewax {form}", "benchmarks.rivals.bytewax_count", arguments=(form,), nice=nice)
        for form in BYTEWAX
    ]
    found = _raced([_elf(kind), *rivals], events, agents, rounds)
    seconds = {one.name: found[one.name].seconds for one in rivals}
    best = min(seconds, key=lambda name: seconds[name] or float("inf"))
    rate = None if seconds[best] is None else _rate(events, found[best])
    name = f"{best}, {agents} process{'es' if agents > 1 else ''}" + (f" at nice {nice}, as programs" if nice else "")
    if rate is None:
        name = f"Bytewax (not run: {found[best].reason})"
    place = f"{agents} agent{'s' if agents > 1 else ''} ({LEVEL})"
    return [
        beside(
            f"count of {KEYS:,} keys, {NAMES[kind]}: {place}",
            _rate(events, found[_elf(kind).name]),
            UNIT,
            name,
            rate,
            TARGETS[kind][agents] if with_targets else None,
        )
    ]


def run_spark(events: int, batches: Sequence[int], with_targets: bool) -> list[Comparison]:
    """ELF's user code on one agent beside PySpark's, with the fastest of these sizes of a micro-batch."""
    warm_ups = int(with_targets)
    use_two_cores()
    sparks = {
        form: [
            Contender(
                f"PySpark {form}, micro-batches of {batch:,} events",
                "benchmarks.rivals.spark_state",
                check=check_java,
                arguments=(form, str(batch)),
            )
            for batch in batches
        ]
        for form in SPARK
    }
    found = _raced([_elf(CODE), *(one for forms in sparks.values() for one in forms)], events, 1, 1, warm_ups)
    value = _rate(events, found[_elf(CODE).name])
    case = f"count of {KEYS:,} keys, {NAMES[CODE]}: 1 agent ({LEVEL})"
    lines = []
    for forms in sparks.values():
        best = min(forms, key=lambda one: found[one.name].seconds or float("inf"))
        outcome = found[best.name]
        name = best.name if outcome.seconds else f"{best.name} (not run: {outcome.reason})"
        rate = _rate(events, outcome) if outcome.seconds else None
        lines.append(beside(case, value, UNIT, name, rate, SPARK_TARGET if with_targets else None))
    return [*lines, beside(case, value, UNIT, NOT_RUN, None, None)]


def _elf(kind: str) -> Contender:
    return Contender(f"ELF, {NAMES[kind]}", "benchmarks.s4.counting.agents", own_python, arguments=(kind,))


def _raced(
    contenders: Sequence[Contender], events: int, shares: int, rounds: int, warm_ups: int = 0
) -> dict[str, Outcome]:
    """The median of each. ELF's is held against the keys that were drawn, and the others' against ELF's."""
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as folder:
        write_keys(Path(folder), events, shares)
        return race(contenders, Path(folder), rounds=rounds, warm_ups=warm_ups)


def _rate(events: int, outcome: Outcome) -> float:
    if outcome.seconds is None:
        raise BenchmarkError(outcome.reason)
    return events / outcome.seconds / 1e6
