"""Figure 11 of the paper: how fast keys are counted, and in how much memory, next to hash maps."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Comparison, throughput

from .hash_maps import hash_map
from .keys import KeySet, write_keys
from .runs import Medians, Program, rounds_of

SPEED_UNIT = "M keys/s"
MEMORY_UNIT = "B/key"


@dataclass(frozen=True, slots=True)
class Targets:
    """Ratios to be reached against `sparse_hash_map`: speed on one core and on two, and tracked bytes per key."""

    one_core: float
    two_cores: float
    memory: float


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is inserted, from which keys and with which targets, and how often."""

    inserts: int
    cases: Sequence[tuple[KeySet, Targets | None]]
    rounds: int


_HALF, _HALF_AS_MUCH_AGAIN = 2.0, 1 / 1.5
FULL = Extent(
    10_000_000,
    (
        (KeySet("10⁵ keys", 10**5), Targets(1.0, 1.2, _HALF_AS_MUCH_AGAIN)),
        (KeySet("10⁶ keys", 10**6), Targets(1.5, 2.7, _HALF)),
        (KeySet("4·10⁶ keys", 4 * 10**6), Targets(2.0, 3.2, _HALF)),
        (KeySet("10⁷ keys", 10**7), Targets(2.0, 3.2, _HALF)),
        (KeySet("Zipf 1.2", None), Targets(1.2, 1.5, _HALF_AS_MUCH_AGAIN)),
    ),
    rounds=3,
)
QUICK = Extent(400_000, ((KeySet("10⁵ keys", 10**5), None), (KeySet("Zipf 1.2", None), None)), rounds=1)

_MODULE = "benchmarks.cbt"
ONE_CORE = Program("ELF on one core", lambda: [sys.executable, "-m", f"{_MODULE}.tree_inserts"])
TWO_CORES = Program("ELF on two cores", lambda: [sys.executable, "-m", f"{_MODULE}.tree_inserts"], cores=2)
SPARSE, SPARSE_STRING, DENSE = "sparse_hash_map", "sparse_hash_map of std::string", "dense_hash_map"
UNORDERED, PER_EVENT, PER_BATCH = "std::unordered_map", "Python dict, per event", "Python Counter, per batch"


def run(extent: Extent) -> list[Comparison]:
    """All cases, in turn. Raises BenchmarkError."""
    lines: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
        programs = _programs(Path(directory))
        for keys, targets in extent.cases:
            data = Path(directory) / "keys"
            print(f"{extent.inserts:,} inserts, {keys.name}", file=sys.stderr, flush=True)
            expected = write_keys(data, keys, extent.inserts)
            found = rounds_of(programs, data, expected, extent.rounds)
            lines += compare(keys.name, expected.total, expected.rows, found, targets)
    return lines


def compare(
    case: str, inserts: int, unique: int, found: dict[str, Medians], targets: Targets | None
) -> list[Comparison]:
    """A case's lines: speed on one core against everyone and on two against Google's maps, then memory.

    Only `sparse_hash_map` has targets.
    """
    google = (SPARSE, SPARSE_STRING, DENSE)
    speeds = {name: inserts / medians.seconds / 1e6 for name, medians in found.items() if medians.seconds}
    tracked = {name: m.tracked_bytes / unique for name, m in found.items() if m.tracked_bytes is not None}
    resident = {name: m.resident_bytes / unique for name, m in found.items() if m.resident_bytes is not None}
    lines: list[Comparison] = []
    for program, rivals, target in (
        (ONE_CORE, (*google, UNORDERED, PER_EVENT, PER_BATCH), targets and targets.one_core),
        (TWO_CORES, google, targets and targets.two_cores),
    ):
        label = f"{program.name}: {case}"
        for rival in rivals:
            aim = target if rival == SPARSE else None
            name, value = _named(rival, found), speeds.get(rival)
            lines.append(throughput("cbt", label, speeds[program.name], SPEED_UNIT, name, value, aim))
    for what, bytes_, target in (("tracked", tracked, targets and targets.memory), ("resident", resident, None)):
        for rival in google:
            aim = target if rival == SPARSE else None
            name, value = _named(rival, found), bytes_.get(rival)
            lines.append(smaller(f"{what}: {case}", bytes_[ONE_CORE.name], MEMORY_UNIT, name, value, aim))
    return lines


def smaller(
    case: str, value: float, unit: str, rival: str, rival_value: float | None, target: float | None
) -> Comparison:
    """A comparison where less is better; `ratio` is the rival's figure over ELF's."""
    ratio = None if rival_value is None else rival_value / value
    met = None if target is None else ratio is not None and ratio >= target
    return Comparison("cbt", case, value, unit, rival, rival_value, ratio, target, met)


def _programs(folder: Path) -> list[Program]:
    def slate(name: str, how: str) -> Program:
        return Program(name, lambda: [sys.executable, "-m", f"{_MODULE}.slate", how])

    return [
        ONE_CORE,
        TWO_CORES,
        hash_map(SPARSE, "sparse", folder),
        hash_map(SPARSE_STRING, "sparse-string", folder),
        hash_map(DENSE, "dense", folder),
        hash_map(UNORDERED, "unordered", folder),
        slate(PER_EVENT, "event"),
        slate(PER_BATCH, "batch"),
    ]


def _named(rival: str, found: dict[str, Medians]) -> str:
    return f"{rival} (not run: {found[rival].reason})" if found[rival].reason else rival
