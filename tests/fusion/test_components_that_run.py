"""A running job follows its components: each operator runs on the agents, at the owners or at the master, as told."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import ProgramFleet
from stage_reading import feed

from agent import StreamOptions
from agent.runtime.function.consolidated_windows import ConsolidatedWindows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.master.owners.balancing import Balancer
from agent.runtime.master.owners.deciding import MergingDecider
from elf.explain import explained_job
from elf.program.code import about, load_code

STREAMS = {"buys": StreamOptions("beginning"), "likes": StreamOptions("beginning")}
AGENTS, SECONDS = 6, 8
PRODUCTS = "abcdefghijkl"
OVER_STREAMS = ("", "counts", "first", "nested", "over")
EVERY = "WINDOWING 2 SECONDS EVERY 1 SECONDS"
CODE = f"""
import elf

class Asrun(elf.Job):
    stages = {{{{
        "counts": "SELECT product, COUNT(*) AS n FROM buys GROUP BY product {EVERY}{{trees}}",
        "same": "SELECT product, SUM(n) AS n FROM app('counts') GROUP BY product {EVERY}",
        "other": "SELECT n, COUNT(*) AS products FROM app('counts') GROUP BY n {EVERY}",
        "best": "SELECT product, AVG(n) AS n FROM app('same') WHERE n > 0 GROUP BY product ORDER BY n DESC LIMIT 9 "
                "{EVERY}",
        "first": "SELECT product, MAX(stars) AS m FROM buys GROUP BY product ORDER BY m DESC LIMIT 3 {EVERY}{{trees}}",
        "nested": "SELECT UPPER(product) AS product, SUM(n) AS n FROM (SELECT product, COUNT(*) AS n FROM buys "
                  "GROUP BY product) GROUP BY UPPER(product) {EVERY}{{trees}}",
        "over": "SELECT n, COUNT(*) AS products FROM (SELECT product, COUNT(*) AS n FROM buys GROUP BY product) "
                "WHERE n > 1 GROUP BY n {EVERY}{{trees}}",
    }}}}
    query = (
        "SELECT likes.product AS product, COUNT(*) AS likes FROM likes JOIN app('best') "
        "ON likes.product = best.product GROUP BY likes.product {EVERY}{{trees}}"
    )
"""
Did = dict[tuple[str, JobFunction], int]
"""Rows with which a function has done something: selected events, consolidated panes, or finished windows."""
Places = dict[tuple[str, str], set[str]]
"""Agents by what is done there, and for which stage."""


@contextmanager
def watched() -> Iterator[Did]:
    """Notes what is done with which function. Those of an agent are its own."""
    did: Did = defaultdict(int)
    of, add = ConsolidatedWindows.of, ConsolidatedWindows.add
    select, finish = JobFunction.select, JobFunction.finish_windows
    functions: dict[int, tuple[ConsolidatedWindows, JobFunction]] = {}

    def watched_of(function: JobFunction) -> ConsolidatedWindows:
        made = of(function)
        functions[id(made)] = (made, function)
        return made

    def watched_add(self: ConsolidatedWindows, pane: int, state: pl.DataFrame) -> object:
        did["consolidate", functions[id(self)][1]] += state.height
        return add(self, pane, state)

    def watched_select(self: JobFunction, events: pl.DataFrame) -> pl.DataFrame:
        did["select", self] += events.height
        return select(self, events)

    def watched_finish(self: JobFunction, state: pl.DataFrame, *args: object, **options: object) -> object:
        did["finish", self] += state.height
        return finish(self, state, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsolidatedWindows, "of", watched_of)
        patch.setattr(ConsolidatedWindows, "add", watched_add)
        patch.setattr(JobFunction, "select", watched_select)
        patch.setattr(JobFunction, "finish_windows", watched_finish)
        # Groups stay where they are.
        patch.setattr(Balancer, "look", lambda *_: None)
        patch.setattr(MergingDecider, "look", lambda *_: None)
        yield did


def log(fleet: ProgramFleet, number: int, stream: str, second: int) -> None:
    """Gives an agent what its log of a stream has of two seconds."""
    dice, agent = random.Random(f"{number} {stream} {second}"), fleet.agents[number]
    times = sorted(dice.randrange(2000) for _ in range(20))
    rows = [(WALL_MS + 4000 + second * 1000 + at, dice.choice(PRODUCTS), dice.randrange(5)) for at in times]
    frame = pl.DataFrame(rows, {"@time": pl.Int64, "product": pl.String, "stars": pl.Int64}, orient="row")
    feed(fleet, agent, frame, stream)


def play(fleet: ProgramFleet) -> None:
    """All agents read what is bought and then, when they have heard what is best, what is liked."""
    fleet.wait_long(4.0)
    for stream, begin in (("buys", 0), ("likes", 2 * SECONDS)):
        for second in range(begin, begin + SECONDS, 2):
            for number in range(AGENTS):
                log(fleet, number, stream, second)
            fleet.wait(0.5)
        fleet.wait_long(8.0)


def short(app: str) -> str:
    """The name of a stage, "" for the job itself."""
    return app.partition(".")[2]


def where_done(fleet: ProgramFleet, did: Did) -> Places:
    """The agents on which something was done, by that and the stage."""
    known: dict[JobFunction, tuple[str, str]] = {}
    for agent in fleet.agents:
        for job in agent.jobs:
            announced, state = agent.directory.get(job.app_id), agent.masters.state(job.app_id)
            assert announced is not None
            for versions in (job.versions, None if state is None else state.versions):
                if versions is not None:
                    known[versions.newest.function] = (agent.name, short(announced.name))
    found: Places = defaultdict(set)
    for (what, function), rows in did.items():
        # The query over a sub-query is a function in the one that is known.
        if rows and function in known:
            agent_name, stage = known[function]
            found[what, stage].add(agent_name)
    return found


def roots(fleet: ProgramFleet, master: str) -> dict[str, set[str]]:
    """The agents that are roots of trees of each stage."""
    return {
        short(job.name): {
            agent.name for agent in fleet.agents for one in agent.status().jobs
            if one.name == job.name and (one.roots or agent.name == master)
        }
        for job in fleet.agents[0].status().jobs
    }  # fmt: skip


def ran(operator: str, done: Places) -> set[str]:
    """The agents on which an operator ran, by its name in EXPLAIN."""
    stage, _, kind = operator.rpartition(".")
    if operator.startswith("map "):  # of a stream, of queries that keep the same events
        return set.union(*(done["select", one] for one in OVER_STREAMS))
    if kind.endswith(" 2") or kind in ("merge", "top"):  # a query over a sub-query is of its finished windows
        return done["finish", stage]
    return done["consolidate" if kind == "consolidate" else "select", stage]


@pytest.mark.parametrize("trees", [1, 3])
def test_operators_run_where_explain_says(tmp_path: Path, trees: int) -> None:
    source = CODE.format(trees="" if trees == 1 else f" TREES {trees}")
    with watched() as did:
        fleet = ProgramFleet(tmp_path, AGENTS, streams=STREAMS)
        try:
            fleet.submit_code(source)
            play(fleet)
            (master,) = {one.name for one in fleet.agents if any(one.masters.state(job.app_id) for job in one.jobs)}
            done, owners = where_done(fleet, did), roots(fleet, master)
            read = {short(job.name): job.read for one in fleet.agents for job in one.status().jobs if any(job.read)}
            shown = {short(one.app) for one in fleet.results if one.rows}
        finally:
            fleet.close()
    explained = explained_job(about(load_code(source.encode()).kind), "asrun")
    assert shown == {"", *explained.stages}
    agents = {f"agent-{number}" for number in range(AGENTS)}
    told: set[str] = set()
    for line in explained.components:
        place, _, operators = line.partition(": ")
        if place == "between them":
            continue
        for operator in operators.split(", "):
            told.add(operator)
            if place == "beside every agent":
                expected = agents
            elif place.startswith(f"at {trees} owners of "):
                expected = owners[operator.rpartition(".")[0]]
                assert len(expected) > 1
            else:
                assert place.endswith(", at the master" if place.startswith("in one") else ", the master")
                expected = {master}
            assert ran(operator, done) == expected, (operator, place)
    assert told == {line.partition(" of ")[0] for line in explained.operators}
    # What they read has not left the master: some of it as states, where EXPLAIN says so.
    assert {stage for stage, rows in read.items() if rows.rows_here} == {"same", "other", "best"}
    assert not any(rows.rows_sent for rows in read.values())
    as_states = {line.partition(".")[0] for line in explained.operators if "merges states" in line}
    assert {stage for stage, rows in read.items() if rows.rows_as_states} == as_states - {"nested"} == {"same"}
