"""Queries with KEYED BY answer what they answer without: over files, and live on several agents."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from case_engines import local_rows
from case_files import comparable, read_cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_fleet import Fleet
from recording_client import client_of

import query
from agent import StreamOptions, Submit
from agent.parsing import Format, parser
from agent.sources import Block, Origin
from elf.explain import explained_query
from elf.local import LocalOptions, LocalRun, LocalSource
from overlay import app_id
from query.syntax import ast

GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")
USUAL = 16
"""One of so many cases is tried by default."""
BEGIN_MS = 1_750_000_000_000


def keyed(text, columns, number):
    """The query with KEYED BY one of these columns; None where it cannot have it."""
    parsed = query.parse(text)
    read, join = parsed.source, parsed.join
    if not isinstance(read, ast.Stream) or (join is not None and isinstance(join.source, ast.Stream)):
        return None
    column = columns[number % len(columns)]
    key = ast.ColumnRef((column,) if join is None and read.alias is None else (read.qualifier, column))
    workers = (None, 1, 3, 1_024)[number % 4]
    return query.format_query(replace(parsed, keyed=ast.KeyedClause((key,), GROUPINGS[number % 6], workers)))


def cases():
    for number, case in enumerate(read_cases()):
        text = keyed(case.query, [*next(iter(case.tables.values())).columns], number)
        if text is not None:
            marks = [pytest.mark.slow] if number % USUAL else []
            yield pytest.param(case, text, id=f"{case.id}: {text}", marks=marks)


@pytest.mark.parametrize(("case", "text"), [*cases()])
def test_every_case_answers_the_same_by_key(case, text, tmp_path):
    plain, found = (local_rows(one, case.tables, 3, tmp_path) for one in (case.query, text))
    assert json.dumps(comparable(found, ordered=case.ordered)) == json.dumps(comparable(plain, ordered=case.ordered))


VALUES = st.none() | st.integers(-3, 3) | st.sampled_from([1.0, 2.5, "", "a", "1", True])
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"time": st.integers(0, 9_000).map(lambda ms: BEGIN_MS + ms)},
        optional={"user": VALUES, "path": VALUES, "n": VALUES},
    ),
    min_size=1,
    max_size=40,
)
QUERIES = [
    "SELECT user, COUNT(*) AS c, SUM(n) AS s FROM web{} GROUP BY user HAVING c > 1 ORDER BY c DESC, user LIMIT 3",
    "SELECT path, COUNT(DISTINCT user) AS users, MAX(n) AS most FROM web{} WHERE n > 0 OR path IS NULL GROUP BY path",
    "SELECT window_start, COUNT(*) AS c, AVG(n) AS a FROM web{} WHERE n > 0 WINDOWING 2 SECONDS",
    "SELECT window_start, user, COUNT(*) AS c FROM web{} GROUP BY user WINDOWING 4 SECONDS EVERY 2 SECONDS",
    "SELECT window_start, user, COUNT(*) AS c FROM web{} GROUP BY user WINDOWING SESSION 1 SECOND",
    "SELECT user, path, n FROM web{} WHERE n IS NOT NULL LIMIT 1000",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings.default.max_examples // 4)
@given(
    events=EVENTS,
    text=st.sampled_from(QUERIES),
    key=st.sampled_from(["user", "path", "user, path", "missing", "n"]),
    grouping=st.sampled_from(GROUPINGS),
    workers=st.integers(1, 1_024),
    agents=st.integers(1, 4),
)
def test_values_of_any_type_answer_the_same_by_any_key(tmp_path, events, text, key, grouping, workers, agents):
    files = []
    for number in range(agents):
        path = tmp_path / f"{number}.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events[number::agents]))
        files.append(str(path))
    clause = f" KEYED BY {key} GROUPING {grouping} OVER {workers} WORKERS"
    answers = [answered(text.format(one), files, agents) for one in ("", clause)]
    assert answers[0] == answers[1]


def answered(text, files, agents):
    sources = [LocalSource("web", tuple(files))]
    run = LocalRun(text, sources, LocalOptions(BEGIN_MS, agents=agents, source_format="json", time_field="time"))
    rows = [[row[name] for name in run.columns] for result in run.results() for row in result.rows]
    return json.dumps(comparable(rows, ordered="ORDER BY" in text))


def network(text):
    """The lines of EXPLAIN on what goes from agent to agent, but for the partial aggregates."""
    explained = explained_query(text, once=True, max_groups=1_000, beyond_groups="other")
    return explained.network[:-1]


def test_explain_says_what_travels_and_that_plain_group_by_needs_no_shuffle():
    text = "SELECT path, SUM(bytes) FROM web KEYED BY user GROUPING pkg OVER 32 WORKERS WHERE x > 1 GROUP BY path"
    assert network(text) == [
        "each event of web (path, bytes, user), to the agent that hosts its worker, one of 32 by pkg: "
        "26 bytes and 3 of any length, compressed; how far it has come, to two standbys",
        "no shuffle is needed: plain GROUP BY combines in the trees without it, leave KEYED BY out",
    ]
    first, last = network("SELECT * FROM web KEYED BY user")
    assert first.startswith(
        "each event of web (all_columns, user), to the agent that hosts its worker, one of 64 by fish"
    )
    assert last == "no shuffle is needed: rows go up the trees without it, leave KEYED BY out"


def test_explain_says_why_keys_of_a_join_are_not_split():
    *_, last = network("SELECT COUNT(*) FROM web JOIN api WITHIN 1 SECOND ON web.user = api.user")
    assert last == (
        "join has one worker for each key, its grouping is fields: events that match meet where their key is"
    )


TEXT = "SELECT path, COUNT(*) AS n, SUM(bytes) AS bytes FROM web{} WHERE bytes > 10 GROUP BY path WINDOWING 2 SECONDS"
FORMAT = Format("json", time_field="time")


class World:
    """A job with KEYED BY on three agents, of which two log, and what the logs hold. `grace_ms`: where the query does
    not say it."""

    def __init__(self, clause, grace_ms=0):
        self.fleet = Fleet(2, streams={"web": StreamOptions()})
        self.fleet.add("idle-1", streams={})
        text = TEXT.format(clause)
        plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
        self.app_id = app_id("hits", b"")
        job = Submit(self.app_id, "hits", plan.stream, plan.to_wire(), text, bounded=False, grace_ms=grace_ms)
        client_of(self.fleet.agents[0]).submit(job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.fleet.wait_long(4.0)
        self.hits = []

    def traffic(self, chosen, seconds):
        for _ in range(seconds * 5):
            now_ms = self.fleet.wall_ms
            for agent in self.fleet.agents[:2]:
                users = [chosen.choice(["hot", "hot", "hot", f"u{chosen.randrange(50)}", None]) for _ in range(5)]
                hits = [
                    {"time": now_ms, "user": user, "path": chosen.choice("ab"), "bytes": chosen.randrange(100)}
                    for user in users
                ]
                self.write(agent, hits)
            self.let_run(0.2)

    def write(self, agent, hits):
        (feed,) = (one for one in agent.ingest.feeds() if one.stream == "web")
        data = "".join(json.dumps(hit) + "\n" for hit in hits).encode()
        self.fleet.give(
            agent, feed.key, parser(FORMAT, feed.columns, feed.clauses).parse(Block(data, Origin("log", 1), 0), 0)
        )
        self.fleet.settle()
        self.hits += hits

    def let_run(self, seconds):
        for _ in range(round(seconds / 0.05)):
            self.fleet.catch_up()
            self.fleet.wait(0.05)

    def published(self):
        rows = ((result.window_start, row) for result in self.fleet.results for row in result.rows)
        return {(start, row["path"]): (row["n"], row["bytes"]) for start, row in rows}

    def expected(self):
        n, total = Counter(), Counter()
        for hit in (one for one in self.hits if one["bytes"] > 10):
            key = (query.format_timestamp(hit["time"] // 2_000 * 2_000), hit["path"])
            n[key] += 1
            total[key] += hit["bytes"]
        return {key: (n[key], total[key]) for key in n}


@pytest.mark.parametrize("clause", [" KEYED BY user", " KEYED BY user, path GROUPING shuffle OVER 3 WORKERS"])
def test_a_live_query_by_key_counts_every_event_once_in_its_window(clause):
    world = World(clause)
    world.traffic(random.Random(3), 4)
    world.let_run(8.0)
    assert world.published() == world.expected()
    assert len(world.published()) >= 4
    assert sum(agent.keyed.get(world.app_id).statistics()["hosted"] for agent in world.fleet.agents) > 0


def test_late_events_are_waited_for_as_long_as_without_keys():
    world, chosen = World(" KEYED BY user", grace_ms=5_000), random.Random(6)
    world.traffic(chosen, 6)
    late = [{"time": world.fleet.wall_ms - 3_000, "user": "slow", "path": "a", "bytes": 50}]
    world.write(world.fleet.agents[0], late)
    world.traffic(chosen, 2)
    world.let_run(14.0)
    assert world.published() == world.expected()
    assert sum(result.late for result in world.fleet.results) == 0


@pytest.mark.slow
def test_a_host_that_leaves_loses_no_event():
    world, chosen = World(" KEYED BY user"), random.Random(4)
    world.traffic(chosen, 3)
    leaving = next(one for one in world.fleet.agents if one.name == "idle-1")
    leaving.drain.begin(world.fleet.now)
    world.traffic(chosen, 3)
    assert leaving.drain.is_complete
    leaving.node.leave(world.fleet.now)
    world.fleet.agents.remove(leaving)
    world.let_run(12.0)
    assert world.published() == world.expected()


@pytest.mark.slow
def test_of_a_host_that_dies_no_event_counts_twice_and_what_is_lacking_is_named():
    world, chosen = World(" KEYED BY user"), random.Random(5)
    world.traffic(chosen, 3)
    dead = next(one for one in world.fleet.agents if one.name == "idle-1")
    world.fleet.agents.remove(dead)
    world.fleet.network.remove(dead.node)
    world.traffic(chosen, 3)
    world.let_run(40.0)
    found, expected = world.published(), world.expected()
    assert all(n <= expected[key][0] for key, (n, _) in found.items())
    lacking = {start for start, path in expected if found.get((start, path)) != expected[start, path]}
    named = {result.window_start for result in world.fleet.results if "idle-1" in (*result.missing, *result.partial)}
    assert lacking <= named
    assert max(expected)[0] not in lacking
