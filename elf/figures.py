"""What EXPLAIN ANALYZE measures of a query while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from agent.control.messages import Ended
from elf.client.result import Result
from elf.errors import ElfError

if TYPE_CHECKING:
    from elf.client.sync_client import SyncJob
    from elf.local import LocalRun


class Figures(msgspec.Struct, frozen=True):
    """What was measured, by what it is: counts, and seconds; and what was not."""

    measured: dict[str, int | float]
    not_measured: list[str]


def measured_run(run: LocalRun) -> Figures:
    """Runs it to its end. Raises ElfError where its files cannot be read to theirs."""
    begin = time.perf_counter()
    results = list(run.results())
    total_s = time.perf_counter() - begin
    return Figures(
        {
            "windows": len(results),
            "events": sum(result.events for result in results),
            "values that do not fit their use": sum(result.coerced for result in results),
            "malformed lines": run.master.totals.malformed,
            "rows shown": sum(len(result.rows) for result in results),
            "bytes read": run.bytes_read,
            "seconds in all": total_s,
            "seconds of parsing, in a thread beside the rest": run.parsing_s,
            "seconds in the agents: conditions, expressions, aggregation": run.inserting_s,
            "seconds for the rest: opening, waiting for parsers, merging, the master": max(
                0.0, total_s - run.inserting_s
            ),
        },
        ["groups before HAVING and LIMIT", "bytes between agents: here they are in one process"],
    )


def measured_window(job: SyncJob, submitted: float, deadline: float) -> Figures:
    """Waits for the job's first window, until the deadline; both times are those of `time.monotonic`.

    Raises ElfError where none comes.
    """
    accepted_s = time.monotonic() - submitted
    while not isinstance(result := job.wait(max(0.0, deadline - time.monotonic())), Result):
        if result is None or isinstance(result, Ended):
            raise ElfError("no window came that could be measured")
    return Figures(
        {
            "agents in it": result.contributors,
            "agents expected": result.expected,
            "events": result.events,
            "late events": result.late,
            "values that do not fit their use": result.coerced,
            "malformed lines": result.malformed,
            "rows shown": len(result.rows),
            "bytes of the result, as JSON": len(result.json),
            "seconds until the job was accepted": accepted_s,
            "seconds until its first window": time.monotonic() - submitted,
        },
        ["groups before HAVING and LIMIT", "bytes between agents", "time of each stage: agents do not tell"],
    )
