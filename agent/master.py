"""A job's master (paper §3.1): the roster, the windows, the results and the word that a pane is out."""

from __future__ import annotations

import polars as pl

import query
from agent import contributors
from agent.function import JobFunction
from agent.messages import Enrolled, Submit
from agent.panes import COUNTERS, END, FIRST_PANE, Run
from agent.result import NAMES_MAX, Result
from agent.roster import Roster

VERSION = 1
EPOCH = 1


class Master:
    """Lives on the agent whose id is closest to the appId; turns combined runs into results.

    `totals` sums the counters of everything published. Raises `query.PlanError` for a job whose plan is not one.
    """

    def __init__(self, job: Submit) -> None:
        self.job = job
        self.function = JobFunction.from_wire(job.plan, job.since_ms, job.until_ms)
        self.roster = Roster()
        self.frontier = FIRST_PANE
        self.acknowledged = 0
        self.totals: dict[str, int] = dict.fromkeys(COUNTERS, 0)

    def enrol(self, node_id: int, name: str, *, works: bool) -> Enrolled:
        """Puts a worker on the roster from the next pane on, and tells it or a forwarder the function in force."""
        first_pane = self.frontier + 1 if self.frontier > FIRST_PANE else FIRST_PANE
        number = self.roster.enrol(node_id, name, first_pane).number if works else None
        job = self.job
        return Enrolled(job.app_id, number, VERSION, self.frontier, job.plan, job.since_ms, job.until_ms)

    def publish(self, run: Run) -> list[Result]:
        """The windows a combined run completes, in order; the run must continue where the last one ended."""
        assert run.after == self.frontier, "runs reach the master in sequence"
        self.frontier = run.upto
        counted = {row["pane"]: row for row in run.counters.iter_rows(named=True)}
        for row in counted.values():
            for name in COUNTERS:
                self.totals[name] += row[name]
        untimed = counted.pop(END, None)
        if self.function.plan.window_ms is None and run.after < 0 <= run.upto:
            counted.setdefault(0, dict.fromkeys(COUNTERS, 0))
        if untimed and counted:
            counted[max(counted)]["malformed"] += untimed["malformed"]
        rows = self.function.windows(run.state.filter(pl.col("pane").is_in(list(counted))), counted)
        return [self._result(pane, rows[pane], counted[pane], run.contributors) for pane in sorted(counted)]

    def _result(self, pane: int, rows: query.Rows, counted: dict[str, int], present: int) -> Result:
        size = self.function.plan.window_ms
        expected = self.roster.expected(pane)
        present &= expected
        return Result(
            app=self.job.name,
            window_start=query.format_timestamp(pane) if size else None,
            window_end=query.format_timestamp(pane + size) if size else None,
            rows=rows,
            contributors=present.bit_count(),
            expected=expected.bit_count(),
            missing=self.roster.names(expected & ~present)[:NAMES_MAX],
            partial=[],
            leaped=0,
            events=counted["events"],
            late=counted["late"],
            malformed=counted["malformed"],
            coerced=counted["coerced"],
            dropped=0 if self.function.aggregates else max(0, counted["matched"] - len(rows)),
            error=None,
            version=VERSION,
            epoch=EPOCH,
        )

    def everyone_runs(self) -> bool:
        """Whether every agent on the roster has acknowledged the function ("n of n")."""
        everyone = contributors.everyone(len(self.roster))
        return self.acknowledged & everyone == everyone
