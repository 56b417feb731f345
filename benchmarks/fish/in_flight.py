"""Throughput of sources with few rows in flight (Figure 19 of the paper)."""

from collections.abc import Mapping

from benchmarks.report import Comparison
from elf.rehearsal.comparison import EVEN
from elf.rehearsal.in_flight import serve_in_flight
from elf.rehearsal.plant import Plant

from .lines import OURS, WORKERS, more
from .runs import CONTENDERS, Run, charged_s, figures_of, over_runs
from .streams import Rows, Stream

IN_FLIGHT = 25
"""Rows for each worker, under way or in its queue."""
ZIPF_SHARE, BURSTS_SHARE = 0.97, 0.9
"""Least throughput in that of an even deal: of Zipf streams, and of the stream whose keys come in bursts."""
BURSTS = "retail customers"
GAINS = {"wchoices": 1.3, "dchoices": 3.0}
"""Least geometric means, over Zipf streams, of throughputs in those of rivals."""
THROUGHPUT = f"throughput over an even deal's, {IN_FLIGHT} rows in flight a worker, {WORKERS} workers"


def run(stream: Stream) -> list[Comparison]:
    """Throughputs of all contenders over a stream, once."""
    found = over_runs(stream, 1, _once)
    return _lines(stream, {name: found[EVEN].makespan / run.makespan for name, run in found.items()})


def _once(rows: Rows) -> dict[str, Run]:
    found = {}
    for name, make in CONTENDERS.items():
        plant = Plant.even(WORKERS, rows.sources, charged_s(make, rows))
        found[name] = figures_of(serve_in_flight(rows.hashes, plant, make, IN_FLIGHT), rows)
    return found


def _lines(stream: Stream, throughputs: Mapping[str, float]) -> list[Comparison]:
    case = f"{THROUGHPUT}: {stream.name}"
    target = ZIPF_SHARE if stream.random else BURSTS_SHARE if stream.name == BURSTS else None
    rivals = [name for name in throughputs if name not in (OURS, EVEN)]
    return [
        more(case, throughputs[OURS], "times", EVEN, 1.0, target),
        *(more(case, throughputs[OURS], "times", name, throughputs[name], None) for name in rivals),
    ]
