"""Tables of how long results take, of all jobs and of one phase by phase, for `elf latency`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.control.messages import JobLatency
from agent.control.observation.latency_entries import DurationEntry, PlanEntry
from elf.output.listing import Cell, plain_table
from elf.terminal.terminal import printable

JOB_TITLES = ("APP", "WITHIN", "RESULTS", "MET %", "MEAN MS", "P50 MS", "P99 MS", "SLOWEST PHASE", "SLOWEST AGENT")
PHASE_TITLES = ("PHASE", "MEAN MS", "P50 MS", "P99 MS", "SHARE %", "LAST MS", "ALL MEAN", "ALL P99", "PLAN")
AGENT_TITLES = ("SLOWEST AGENTS", "MEAN MS", "PARTS", "LAST")
LINES_AROUND = 5
"""Lines beside the rows of jobs: the head, its rule, blanks, what is left out, and the cursor's own."""
AFTER_PUBLICATION = "deliver"
"""The phase that is no part of a result's latency."""


def met_percent(found: JobLatency) -> float | None:
    """The share of results that were in time; None where no limit is stated, or no result has been out."""
    judged = found.met + found.missed
    return 100 * found.met / judged if judged else None


def jobs_table(jobs: Sequence[JobLatency], height: int | None) -> RenderableType:
    """A row for each job, those first that miss their limits most, and then the slowest, in at most `height` lines."""
    every = sorted(jobs, key=lambda one: (101.0 if (met := met_percent(one)) is None else met, -one.total.p99_ms))
    shown = every if height is None else every[: max(1, height - LINES_AROUND)]
    table = plain_table(JOB_TITLES, [_job(one) for one in shown])
    if height is not None:
        for column in table.columns:
            column.no_wrap, column.overflow = True, "ellipsis"
    left = len(every) - len(shown)
    return Group(table, Text(f"and {left:,} more jobs", style="dim")) if left else table


def _job(one: JobLatency) -> list[Cell]:
    total: list[Cell] = [one.total.mean_ms, one.total.p50_ms, one.total.p99_ms] if one.total.count else [None] * 3
    agent = one.agents[0].agent if one.agents else None
    limit = limit_text(one.within_ms, one.percent)
    return [one.app, limit, one.results, met_percent(one), *total, one.slowest_phase or None, agent]


def limit_text(within_ms: int, percent: float | None) -> str | None:
    """The limit of a job, as its query states it; None where it states none.

    >>> limit_text(0, None), limit_text(500, 99.9), limit_text(120_000, None)
    (None, '500 ms at 99.9 %', '2 min on average')
    """
    if not within_ms:
        return None
    units = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
    size, unit = next((size, unit) for size, unit in units if within_ms % size == 0)
    share = "on average" if percent is None else f"at {percent:g} %"
    return f"{within_ms // size:,} {unit} {share}"


def latency_table(found: JobLatency) -> RenderableType:
    """Everything that is known of one job's results."""
    head = [Text(printable(f"{found.app}: {' '.join(found.query.split())}")), Text(printable(_summary(found)))]
    if found.plan is not None:
        head += [Text(printable(line)) for line in _planned(found.plan)]
    if found.clipped:
        head.append(Text(f"{found.clipped:,} durations could not be, and count as the nearest that can"))
    parts: list[RenderableType] = [*head, _phases(found)]
    if found.agents:
        rows = [[one.agent, one.mean_ms if one.parts else None, one.parts, one.last] for one in found.agents]
        parts.append(plain_table(AGENT_TITLES, rows))
    return Group(*parts)


def _summary(found: JobLatency) -> str:
    limit, met = limit_text(found.within_ms, found.percent), met_percent(found)
    said = [f"within {limit}" if limit else "no limit is stated (WITHIN)"]
    if met is not None:
        said.append(f"met {met:.1f} % ({found.met:,} of {found.met + found.missed:,}), {found.missed:,} missed")
    else:
        said.append(f"{found.results:,} results")
    if found.slowest_phase:
        said.append(f"slowest phase: {found.slowest_phase}")
    return " · ".join([*said, f"master {found.master}"])


def _planned(plan: PlanEntry) -> Iterator[str]:
    """Lines on the plan in force, against what is measured, and on what has come of that."""
    setting = f"GRACE {plan.grace_ms:,} ms" + (f", panes cut in {plan.cuts:,}" if plan.cuts > 1 else "")
    setting += f", looks each {plan.look_ms:,} ms"
    if not plan.mean_ms:
        yield f"{setting} · not planned yet: too few results"
        return
    said = f"planned {plan.mean_ms:,.0f} ms on average, {plan.quantile_ms:,.0f} at the limit's share"
    yield f"{said} · the last results {plan.now_ms:,.0f} · drift {plan.drift_ms:+,.0f} ms · {setting}"
    if plan.remark:
        yield plan.remark


def phases_ms(found: JobLatency) -> float:
    """The mean of what all phases of a result take up to its publication (ms)."""
    before = (one for one in found.phases if one.what != AFTER_PUBLICATION)
    return sum(one.mean_ms * one.count for one in before) / max(1, found.total.count)


def _phases(found: JobLatency) -> Table:
    """The phases in their order, their sums, and the results' latency and what no phase accounts for."""
    own = {one.what: one for one in found.parts}
    whole_ms = found.total.mean_ms * found.total.count
    rows: list[Sequence[Cell]] = []
    for one in found.phases:
        share = 100 * one.mean_ms * one.count / whole_ms if whole_ms and one.what != AFTER_PUBLICATION else None
        last = found.last.get(one.what) if one.what != AFTER_PUBLICATION else None
        of_all = own.get(one.what)
        every: list[Cell] = [of_all.mean_ms, of_all.p99_ms] if of_all is not None and of_all.count else [None, None]
        planned = None if found.plan is None else found.plan.phases.get(one.what)
        rows.append([one.what, *_durations(one), share if one.count else None, last, *every, planned])
    last_sum_ms = sum(ms for what, ms in found.last.items() if what != AFTER_PUBLICATION)
    has_last = bool(found.last)
    planned_ms = None if found.plan is None else found.plan.mean_ms
    rows += [
        ["sum", phases_ms(found), None, None, None, last_sum_ms if has_last else None, None, None, None],
        ["latency", *_durations(found.total), None, found.last_ms if has_last else None, None, None, planned_ms],
        ["skew", *_durations(found.skew), None, found.last_ms - last_sum_ms if has_last else None, None, None, None],
    ]
    titles = PHASE_TITLES if found.plan is not None and found.plan.mean_ms else PHASE_TITLES[:-1]
    table = plain_table(titles, [[*map(_short, row[: len(titles)])] for row in rows])
    table.columns[0].no_wrap, table.padding = True, (0, 0, 0, 1)  # nine columns are to fit into a terminal
    return table


def _short(value: Cell) -> Cell:
    """A number as a cell, from a thousand on without tenths."""
    return round(value) if isinstance(value, float) and abs(value) >= 1000 else value


def _durations(one: DurationEntry) -> tuple[Cell, Cell, Cell]:
    return (one.mean_ms, one.p50_ms, one.p99_ms) if one.count else (None, None, None)
