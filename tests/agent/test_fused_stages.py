"""Random jobs of stages that run together: their results are those of the same queries run one by one on one agent."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_fleet import WALL_MS, Fleet
from program_fleet import ProgramFleet
from stage_reading import feed, reading

from agent import StreamOptions, WindowResult

STREAMS = {"buys": StreamOptions("beginning")}
SECONDS = 16
"""Length of the logs; all windows of up to 8 seconds in it are compared."""
LAST = "last"
FROM_BUYS = ("COUNT(*)", "SUM(stars)", "MIN(price)", "MAX(stars)", "AVG(price)", "SUM(price)", "COUNT(DISTINCT stars)")
FROM_ROWS = ("COUNT(*)", "SUM(n)", "MIN(n)", "MAX(n)", "AVG(n)", "SUM(m)", "MAX(m)", "MIN(product)")
Windows = dict[tuple[str, str | None, str | None], bytes]
"""The rows of each window as JSON, by job, start and end."""


@dataclass(frozen=True)
class StagedJob:
    """The queries of a job, each over a stream or over an earlier one; the last is the job's own. `moves`: whether key
    groups move while it runs."""

    queries: dict[str, str]
    seed: int
    moves: bool

    @property
    def code(self) -> str:
        stages = {name: text for name, text in self.queries.items() if name != LAST}
        return f"import elf\n\nclass Staged(elf.Job):\n    stages = {stages!r}\n    query = {self.queries[LAST]!r}\n"


@st.composite
def staged_jobs(draw: st.DrawFn) -> StagedJob:
    """Two to four queries in a chain, or a tree."""
    names = [*("first", "second", "third")[: draw(st.integers(1, 3))], LAST]
    queries: dict[str, str] = {}
    for name in names:
        read = draw(st.sampled_from([*queries])) if queries and draw(st.integers(0, 4)) else None
        read = [*queries][-1] if read is None and name == LAST else read
        columns = FROM_BUYS if read is None else FROM_ROWS
        source = "buys" if read is None else f"app('{read}')"
        shown = [f"{draw(st.sampled_from(columns))} AS {column}" for column in "nm"]
        by_product = draw(st.booleans())
        select = ", ".join(["product" if by_product else "'all' AS product", *shown])
        least = draw(st.integers(-2, 3))
        where = "" if least < 0 else f" WHERE {'stars' if read is None else 'n'} > {least}"
        sizes = draw(st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=3, unique=True))
        every = draw(st.sampled_from(("", f" EVERY {min(sizes)} SECONDS")))
        windowing = ", ".join(f"{size} SECONDS{every}" for size in sorted(sizes))
        trees = draw(st.sampled_from(("", " TREES 2"))) if by_product and read is None else ""
        group = " GROUP BY product" if by_product else ""
        queries[name] = f"SELECT {select} FROM {source}{where}{group} WINDOWING {windowing}{trees}"
    return StagedJob(queries, draw(st.integers(0, 2**16)), draw(st.booleans()))


def log_of(seed: int, number: int) -> pl.DataFrame:
    """The events of an agent, in the order of time."""
    dice = random.Random(f"{seed} {number}")
    times = sorted(dice.randrange(SECONDS * 1000) for _ in range(60))
    rows = [
        (WALL_MS + 4000 + at, dice.choice("abcd"), dice.randrange(5), dice.choice((0.1, 2.5, 7.0, 1e15)))
        for at in times
    ]
    schema = {"@time": pl.Int64, "product": pl.String, "stars": pl.Int64, "price": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def play(fleet: Fleet, logs: Sequence[Sequence[pl.DataFrame]], then: Callable[[int], object] = lambda _: None) -> None:
    """Agents read their logs, two seconds at a time, and a last event by which all windows close. `then` is called
    with the beginning of each two seconds, when they are read."""
    for begin in range(0, SECONDS, 2):
        first = WALL_MS + 4000 + begin * 1000
        for agent, frames in zip(fleet.agents, logs, strict=True):
            for frame in frames:
                feed(fleet, agent, frame.filter(pl.col("@time").is_between(first, first + 2000, closed="left")))
        fleet.wait(0.5)
        then(begin)
    end = pl.DataFrame({"@time": [WALL_MS + 60_000], "product": ["z"], "stars": [0], "price": [0.0]})
    for agent in fleet.agents:
        feed(fleet, agent, end)
    fleet.wait_long(8.0)


def move_groups(fleet: Fleet) -> None:
    """Moves some key groups of each job with several trees to another owner."""
    for agent in fleet.agents:
        for master in agent.masters.held.values():
            if master.state.trees > 1 and 1 in master.placement.roots:
                master.placement.move(range(8), 1, "instant", fleet.now)
    fleet.settle()


def windows_of(results: Sequence[WindowResult], prefix: str = "") -> Windows:
    """The windows that lie within the logs."""
    found: Windows = {}
    for one in results:
        name = one.app.removeprefix(prefix) if one.app != "staged" else LAST
        key = (name, one.window_start, one.window_end)
        assert key not in found, f"a window twice: {key}"
        assert not one.missing, key
        if (one.window_end or "") <= "2023-11-14T22:13:41Z":
            found[key] = msgspec.json.encode(msgspec.json.decode(one.to_bytes())["rows"])
    return found


def alone(job: StagedJob, logs: Sequence[pl.DataFrame]) -> Windows:
    """The windows of queries that are jobs of their own, on one agent that has all logs."""
    with reading(as_json=True):
        fleet = Fleet(1, streams=STREAMS)
        for name, text in job.queries.items():
            fleet.submit(text, name, bounded=False)
            fleet.wait(1.5)
        fleet.wait_long(3.0)
        play(fleet, [logs])
        return windows_of(fleet.results)


def together(job: StagedJob, logs: Sequence[pl.DataFrame], directory: Path) -> tuple[Windows, int]:
    """The windows of the job with its stages on several agents, and the rows that went in columns."""
    fleet = ProgramFleet(directory, len(logs), streams=STREAMS)
    try:
        fleet.submit_code(job.code)
        fleet.wait_long(4.0)
        play(fleet, [[log] for log in logs], lambda second: job.moves and second == SECONDS // 2 and move_groups(fleet))
        (master,) = {announced.master.node_id for announced in fleet.agents[0].directory.all()}
        agent = next(agent for agent in fleet.agents if agent.node.peer.node_id == master)
        rows = {job.name: job.read for job in agent.status().jobs}
        assert {read.rows_sent for read in rows.values()} == {0}
        return windows_of(fleet.results, "staged."), rows["staged"].rows_here
    finally:
        fleet.close()


@given(staged_jobs())
@settings(max_examples=1, suppress_health_check=list(HealthCheck), deadline=None)
def test_stages_that_run_together_show_what_they_show_alone(job: StagedJob) -> None:
    check(job)


@pytest.mark.slow
@given(staged_jobs())
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
def test_many_jobs_show_what_they_show_alone(job: StagedJob) -> None:
    check(job)


def check(job: StagedJob) -> None:
    logs = [log_of(job.seed, number) for number in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        found, rows = together(job, logs, Path(directory))
    expected = alone(job, logs)
    assert {name for name, _, _ in expected} == set(job.queries)
    assert found == expected
    assert rows > 0
