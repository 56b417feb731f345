"""ELF's own program in the comparisons: the machine behind `elf local`, with one agent, in the case named last."""

import sys
from typing import cast

from agent import WindowResult
from benchmarks.contender import Answer, measure
from elf.local import LocalOptions, LocalRun, LocalSource

CLICKS = "SELECT product, SUM(clicks_count) AS clicks FROM events GROUP BY product WINDOWING 30 SECONDS"
QUERIES = {
    "sums": CLICKS,
    "malformed": CLICKS,
    "where": CLICKS.replace("GROUP", "WHERE buys_count = 1 GROUP"),
    "nested": (
        "SELECT order.item.product AS product, SUM(order.item.clicks) AS clicks FROM events "
        "GROUP BY product WINDOWING 30 SECONDS"
    ),
    "combined": "SELECT path, COUNT(*) AS hits, SUM(body_bytes_sent) AS bytes FROM events GROUP BY path",
}
"""The query of each case."""
TIME_FIELDS = {"nested": "meta.time"}
"""The field with the time, where nobody would guess it."""


def results(case: str, paths: list[str]) -> list[WindowResult]:
    """The windows of a case over these files."""
    options = LocalOptions(arrival_ms=0, agents=1, time_field=TIME_FIELDS.get(case))
    return list(LocalRun(QUERIES[case], [LocalSource("events", tuple(paths))], options).results())


def answer(results: list[WindowResult]) -> Answer:
    """What the numbers of all windows come to."""
    numbers = (cast(int, value) for result in results for row in result.rows for value in tuple(row.values())[1:])
    return Answer.of(list(numbers))


def main(case: str) -> None:
    """Measures one case."""
    measure(lambda paths: results(case, paths), answer)


if __name__ == "__main__":
    main(sys.argv[3])
