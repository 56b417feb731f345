"""ELF's own program in the comparison: the machine behind `elf local`, with one agent."""

from benchmarks.contender import Answer, measure
from elf.local import LocalOptions, LocalRun, Source

QUERY = "SELECT product, SUM(clicks_count) AS clicks FROM events GROUP BY product WINDOWING 30 SECONDS"


def clicks_per_window(paths: list[str]) -> list[dict[str, object]]:
    run = LocalRun(QUERY, [Source("events", tuple(paths))], LocalOptions(arrival_ms=0, agents=1))
    return [row for result in run.results() for row in result.rows]


if __name__ == "__main__":
    measure(clicks_per_window, lambda rows: Answer.of([int(str(row["clicks"])) for row in rows]))
