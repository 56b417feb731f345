"""Figure 11 of the paper: how fast keys are counted, and in how much memory, next to hash maps."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Answer
from benchmarks.report import Comparison, smaller, throughput, within

from .comparing import named
from .hash_maps import hash_map
from .keys import KeySet, write_keys
from .runs import Job, Outcome, Program, measure

SPEED_UNIT = "M keys/s"
MEMORY_UNIT = "B/key"
TRACKED, RESIDENT = "ELF, tracked bytes", "ELF, process growth"
ZIPF = "Zipf 1.2"


@dataclass(frozen=True, slots=True)
class Targets:
    """Ratios to be reached against `sparse_hash_map`: speed on one core and on two, and tracked bytes per key; and the
    most such bytes there may be."""

    one_core: float
    two_cores: float
    memory: float
    bytes_max: float | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a run: rows, keys, targets and repetitions."""

    inserts: int
    cases: Sequence[tuple[KeySet, Targets | None]]
    rounds: int


_HALF, _HALF_AS_MUCH_AGAIN = 2.0, 1 / 1.5
FULL = Extent(
    10_000_000,
    (
        (KeySet("10⁵ keys", 10**5), Targets(2.0, 2.0, _HALF_AS_MUCH_AGAIN)),
        (KeySet("10⁶ keys", 10**6), Targets(1.6, 2.7, _HALF, 24.0)),
        (KeySet("4·10⁶ keys", 4 * 10**6), Targets(2.4, 3.3, _HALF)),
        (KeySet("10⁷ keys", 10**7), Targets(3.0, 4.0, _HALF, 21.0)),
        (KeySet(ZIPF, None), Targets(1.9, 2.7, _HALF_AS_MUCH_AGAIN)),
    ),
    rounds=3,
)
QUICK = Extent(400_000, ((KeySet("10⁵ keys", 10**5), None), (KeySet(ZIPF, None), None)), rounds=1)

_MODULE = "benchmarks.cbt"
ONE_CORE = Program("ELF on one core", lambda: [sys.executable, "-m", f"{_MODULE}.tree_inserts"])
TWO_CORES = Program("ELF on two cores", lambda: [sys.executable, "-m", f"{_MODULE}.tree_inserts"], cores=2)
SPARSE, SPARSE_ARRAYS, DENSE = "sparse_hash_map", "sparse_hash_map of 13-byte arrays", "dense_hash_map"
GOOGLE = (SPARSE, SPARSE_ARRAYS, DENSE)
UNORDERED, PER_EVENT, PER_BATCH = "std::unordered_map", "Python dict, per event", "Python Counter, per batch"


def run(extent: Extent) -> list[Comparison]:
    """All cases, in turn. Raises BenchmarkError."""
    lines: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
        programs = _programs(Path(directory))
        data = Path(directory) / "keys"
        for keys, targets in extent.cases:
            print(f"{extent.inserts:,} inserts, {keys.name}", file=sys.stderr, flush=True)
            expected = write_keys(data, keys, extent.inserts)
            speed = _measured(programs, ("speed", str(data)), expected, extent.rounds)
            tracking = [program for program in programs if program.name in (ONE_CORE.name, *GOOGLE)]
            memory = _measured(tracking, ("memory", str(data)), expected, 1)
            lines += compare_speed(keys.name, expected.total, speed, targets)
            lines += compare_memory(keys.name, expected.rows, memory, targets)
    return lines


def compare_speed(case: str, inserts: int, found: dict[str, Outcome], targets: Targets | None) -> list[Comparison]:
    """On one core against everyone, on two against Google's maps. Only `sparse_hash_map` has targets."""
    speeds = {name: inserts / outcome.figures["seconds"] / 1e6 for name, outcome in found.items() if outcome.figures}
    programs = (
        (ONE_CORE.name, (*GOOGLE, UNORDERED, PER_EVENT, PER_BATCH), targets.one_core if targets else None),
        (TWO_CORES.name, GOOGLE, targets.two_cores if targets else None),
    )
    return [
        throughput(
            "cbt",
            f"{own}: {case}",
            speeds[own],
            SPEED_UNIT,
            named(rival, found),
            speeds.get(rival),
            target if rival == SPARSE else None,
        )
        for own, rivals, target in programs
        for rival in rivals
    ]


def compare_memory(case: str, unique: int, found: dict[str, Outcome], targets: Targets | None) -> list[Comparison]:
    """Bytes a key after the last insert, as tree and allocators count them and as the kernel does."""
    lines: list[Comparison] = []
    for figure, label, target in (
        ("tracked_bytes", TRACKED, targets.memory if targets else None),
        ("resident_bytes", RESIDENT, None),
    ):
        bytes_ = {name: outcome.figures[figure] / unique for name, outcome in found.items() if outcome.figures}
        lines += [
            smaller(
                "cbt",
                f"{label}: {case}",
                bytes_[ONE_CORE.name],
                MEMORY_UNIT,
                named(rival, found),
                bytes_.get(rival),
                target if rival == SPARSE else None,
            )
            for rival in GOOGLE
        ]
    if targets and targets.bytes_max:
        tracked = found[ONE_CORE.name].figures["tracked_bytes"] / unique
        lines.append(within("cbt", f"{TRACKED} of its own: {case}", tracked, MEMORY_UNIT, targets.bytes_max))
    return lines


def _measured(
    programs: Sequence[Program], arguments: tuple[str, ...], expected: Answer, rounds: int
) -> dict[str, Outcome]:
    outcomes = measure([Job(program, arguments, expected) for program in programs], rounds)
    return {program.name: outcome for program, outcome in zip(programs, outcomes, strict=True)}


def _programs(folder: Path) -> list[Program]:
    def slate(name: str, how: str) -> Program:
        return Program(name, lambda: [sys.executable, "-m", f"{_MODULE}.slate", how])

    return [
        ONE_CORE,
        TWO_CORES,
        hash_map(SPARSE, "sparse-string", folder),
        hash_map(SPARSE_ARRAYS, "sparse", folder),
        hash_map(DENSE, "dense", folder),
        hash_map(UNORDERED, "unordered", folder),
        slate(PER_EVENT, "event"),
        slate(PER_BATCH, "batch"),
    ]
