"""ELF's own program in the comparison: the machine behind `elf local`, with one agent."""

from typing import cast

from agent import WindowResult
from benchmarks.contender import Answer, measure
from elf.local import LocalOptions, LocalRun, LocalSource

QUERY = "SELECT product, SUM(clicks_count) AS clicks FROM events GROUP BY product WINDOWING 30 SECONDS"


def clicks_per_window(paths: list[str]) -> list[WindowResult]:
    run = LocalRun(QUERY, [LocalSource("events", tuple(paths))], LocalOptions(arrival_ms=0, agents=1))
    return list(run.results())


def answer(results: list[WindowResult]) -> Answer:
    return Answer.of([cast(int, clicks) for result in results for clicks in result.rows.column("clicks")])


if __name__ == "__main__":
    measure(clicks_per_window, answer)
