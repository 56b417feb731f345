"""Draws the fleet for `elf top`: agents and jobs in two tables, no longer than the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.control.messages import AgentEntry, Fleet, JobEntry
from elf.output.job_lag import lag_s
from elf.output.listing import Cell, plain_table
from elf.terminal.terminal import printable

AGENT_TITLES = ("AGENT", "EVENTS/S", "EVENTS", "MALFORMED", "JOBS", "LEADS", "LAG", "MEMORY", "UP")
JOB_TITLES = ("JOB", "STREAM", "AGENTS", "LAG", "VERSION", "MASTER", "QUERY")
ROWS = 50
"""Rows of each table where no terminal bounds them."""
LINES_AROUND = 10
"""Lines beside the rows: both heads, the summary, what is left out, and the cursor's own."""
QUERY_CHARACTERS = 60
RELEASES_SHOWN = 3


def fleet_table(fleet: Fleet, jobs: Sequence[JobEntry], now_s: float, height: int | None) -> RenderableType:
    """The fleet as of now (epoch seconds), in at most `height` lines."""
    room = 2 * ROWS if height is None else max(2, height - LINES_AROUND)
    agents_shown = min(len(fleet.agents), max(1, room - min(len(jobs), room // 2)))
    jobs_shown = min(len(jobs), max(1, room - agents_shown))
    busiest = sorted(fleet.agents, key=lambda one: -one.events_per_s)[:agents_shown]
    lags = {id(job): lag_s(job, now_s) for job in jobs}
    slowest = sorted(jobs, key=lambda job: -(lags[id(job)] or 0.0))[:jobs_shown]
    parts: list[RenderableType] = [Text(_summary(fleet, jobs), no_wrap=True, overflow="ellipsis")]
    if busiest:
        parts.append(_one_line(_agents(busiest), "AGENT"))
    if slowest:
        parts.append(_one_line(plain_table(JOB_TITLES, [_job(job, lags[id(job)]) for job in slowest]), "QUERY"))
    if rest := _rest(len(fleet.agents) - len(busiest), len(jobs) - len(slowest)):
        parts.append(Text(rest, style="dim", no_wrap=True))
    return Group(*parts)


def _agents(agents: Sequence[AgentEntry]) -> Table:
    """The agents, and the processing elements that they host where there are any."""
    if not any(one.elements for one in agents):
        return plain_table(AGENT_TITLES, [_agent(one) for one in agents])
    return plain_table((*AGENT_TITLES, "ELEMENTS"), [[*_agent(one), one.elements] for one in agents])


def _one_line(table: Table, narrowed: str) -> Table:
    """The table with each row on one line, so that its height is known; the column of this title is cut first."""
    for column in table.columns:
        column.no_wrap, column.overflow = str(column.header) != narrowed, "ellipsis"
        for cell in column.cells:
            if isinstance(cell, Text):
                cell.no_wrap = True
    return table


def _summary(fleet: Fleet, jobs: Sequence[JobEntry]) -> str:
    rate = sum(one.events_per_s for one in fleet.agents)
    silent = f", {fleet.silent} silent" if fleet.silent else ""
    return f"{len(fleet.agents):,} agents{silent}{_releases(fleet)} · {rate:,.0f} events/s · {len(jobs):,} jobs"


def _releases(fleet: Fleet) -> str:
    """The releases of ELF in a fleet that has several, as during an upgrade: of each, the number of its agents."""
    found = Counter(one.version for one in fleet.agents)
    if len(found) < 2:
        return ""
    shown = [f"{count:,} of {printable(name[:20])}" for name, count in sorted(found.items())[:RELEASES_SHOWN]]
    return f" ({', '.join(shown)}{', …' if len(found) > len(shown) else ''})"


def _rest(agents: int, jobs: int) -> str:
    left = [f"{count:,} more {what}" for count, what in ((agents, "agents"), (jobs, "jobs")) if count]
    return f"and {', '.join(left)}" if left else ""


def _agent(one: AgentEntry) -> list[Cell]:
    name = f"{one.agent} (leaving)" if one.leaving else one.agent
    memory = f"{one.memory_bytes / 2**20:,.0f} MiB"
    return [name, one.events_per_s, one.events, one.malformed, one.jobs, one.masters, _seconds(one.lag_s), memory,
            _seconds(one.uptime_s)]  # fmt: skip


def _job(job: JobEntry, lag: float | None) -> list[Cell]:
    query = " ".join(job.query.split())
    query = query if len(query) <= QUERY_CHARACTERS else f"{query[: QUERY_CHARACTERS - 1]}…"
    agents = f"{job.agents} of {job.expected}"
    return [printable(job.app), job.stream, agents, _seconds(lag), job.version, job.master, query]


def _seconds(seconds: float | None) -> str | None:
    """A time in two figures and a unit.

    >>> [_seconds(one) for one in (0.25, 12, 90, 7200, 200_000, None)]
    ['0.2 s', '12 s', '90 s', '120 min', '2.3 d', None]
    """
    if seconds is None:
        return None
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 4 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"
