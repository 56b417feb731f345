"""Explains a query over an archive: the way it is computed, the data read, and the steps of each place."""

from __future__ import annotations

import msgspec

import query
from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchRun
from elf.batch.table.scanning import ScanPlan, explained

NATIVE = "by Spark itself, over stored columns"
JOINED = "joined by Spark, of lines that agents' code reads, and aggregated by agents' code"
COPROCESSOR = "in regions, by agents' code on the lines as they were"


class RunPlan(msgspec.Struct, frozen=True):
    """The plan of a query: `computed` names the way, and `because` why the query cannot run natively.

    `regions` and `driver` list the steps of each place; `read` describes the data read.
    """

    query: str
    computed: str
    because: str
    regions: list[str]
    driver: list[str]
    read: ScanPlan

    def text(self) -> str:
        computed = f"{self.computed} ({self.because})" if self.because else self.computed
        lines = [("query", self.query), ("computed", computed)]
        lines += [("in Spark", step) for step in self.regions] + [("driver", step) for step in self.driver]
        told, before = [], ""
        for place, what in lines:
            told.append(f"{'' if place == before else place:<10} {what}")
            before = place
        return "\n".join([*told, self.read.text()])


def explained_run(text: str, run: BatchRun) -> RunPlan:
    """The plan of a query over its archive."""
    steps, plan = query.explain(run.computed), run.execution_plan
    by_spark = isinstance(plan, NativePlan)
    frame = plan.groups if isinstance(plan, NativePlan) else plan.pieces
    computed = JOINED if run.computed.elements is not None else NATIVE if by_spark else COPROCESSOR
    return RunPlan(
        query=query.format_query(query.parse(text)),
        computed=computed,
        because=run.not_exact,
        regions=list(steps.agent),
        driver=[steps.tree[0], *steps.master[:-1]],
        read=explained(run.table, plan.wanted, frame),
    )
