"""Rows that one core routes in a second."""

from statistics import median

from benchmarks.report import Comparison

from .lines import OURS, RIVALS, WORKERS, at_least, at_most, more
from .runs import CONTENDERS, routing_s
from .streams import Stream

BATCH_ROWS = 8_192
"""Rows of a batch of keyed events, as agents route them."""
BLOCKS = (256, 1_024, 65_536)
"""Rows of other blocks, for which the rate is printed."""
RATE = 2.0
OF_SINGLE_ROWS = 10.0
SINGLE_ROWS = 5_000
UNIT = "M rows/s"
ROUTED = "rows routed on one core"
"""Beginning of the label of these lines."""


def run(stream: Stream, rows: int, rounds: int) -> list[Comparison]:
    """Millions of rows a second of one source, whose keys are hashed already."""
    hashes = stream.rows_of_run(0).hashes[:rows]

    def rate(name: str, block_rows: int, most: int = rows) -> float:
        return median(1e-6 / routing_s(CONTENDERS[name], hashes[:most], WORKERS, block_rows) for _ in range(rounds))

    label = f"{ROUTED}, {WORKERS} workers, {stream.name}"
    case = f"{label}: batches of {BATCH_ROWS:,}"
    ours = rate(OURS, BATCH_ROWS)
    single = rate("published", 1, SINGLE_ROWS)
    return [
        at_least(case, ours, UNIT, RATE),
        more(case, ours, UNIT, "published, one row at a time", single, OF_SINGLE_ROWS),
        *(more(case, ours, UNIT, name, rate(name, BATCH_ROWS), None) for name in RIVALS),
        *(at_most(f"{label}: blocks of {block_rows:,}", rate(OURS, block_rows), UNIT) for block_rows in BLOCKS),
    ]
