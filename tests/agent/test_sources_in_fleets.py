"""Several streams, sub-queries, unions and look-up tables in fleets, and what a fleet says of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from memory_fleet import Fleet
from recording_client import client_of

from agent import Feed, StreamOptions
from agent.feeding.table_reading import read_table
from agent.parsing import Parsed
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.descriptions import DescribedColumn, StreamDescription
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.requests.events import DryRunAsked, DryRunsDone, StreamAsked, StreamSurveyed
from agent.runtime.requests.stream_survey import DEADLINE_S, OPEN_MAX

STREAMS = {"web-a": StreamOptions(), "web-b": StreamOptions(), "api": StreamOptions()}


def block(feed: Feed, products: str) -> Parsed:
    """Events with the columns that a feed wants: all of them hold the product."""
    columns = {one.name: pl.Series(list(products)) for one in feed.columns}
    return Parsed((pl.DataFrame({"@time": pl.Series([0] * len(products), dtype=pl.Int64), **columns}),), 0)


def answer(fleet: Fleet, **products: str) -> list[dict[str, Any]]:
    """The rows of a job over what each agent has in its streams."""
    for agent in fleet.agents:
        for feed in agent.ingest.feeds():
            text = products[feed.stream.replace("-", "_")]
            fleet.give(agent, feed.key, block(feed, text))
    (result,) = fleet.finish()
    assert result.contributors == result.expected
    return list(result.rows)


def test_agents_read_the_streams_that_fit() -> None:
    fleet = Fleet(2, streams=STREAMS)
    fleet.add("other", streams={"api": StreamOptions()})
    fleet.submit('SELECT product, COUNT(*) AS n FROM "web-*" GROUP BY product')
    assert answer(fleet, web_a="xy", web_b="xx") == [{"product": "x", "n": 6}, {"product": "y", "n": 2}]
    assert fleet.results[0].expected == 2, "an agent without such a stream is none of the job's"


def test_the_master_computes_over_the_groups_of_all() -> None:
    fleet = Fleet(3, streams=STREAMS)
    fleet.submit(
        "SELECT MAX(n) AS most, COUNT(*) AS groups FROM (SELECT product, COUNT(*) AS n FROM api GROUP BY product)"
    )
    assert answer(fleet, api="xxy") == [{"most": 6, "groups": 2}]


def test_what_is_left_out_above_a_sub_query_is_said() -> None:
    fleet = Fleet(2, streams=STREAMS)
    fleet.submit("SELECT COLLECT(product, 1) AS some FROM (SELECT product, COUNT(*) AS n FROM api GROUP BY product)")
    answer(fleet, api="xxy")
    assert fleet.results[0].limited == {"COLLECT(product, 1)": 1}
    assert fleet.results[0].dropped == 0


def test_each_stream_of_a_union_is_read_in_its_own_way() -> None:
    fleet = Fleet(2, streams=STREAMS)
    fleet.submit(
        "SELECT what, COUNT(*) AS n FROM (SELECT LOWER(page) AS what FROM \"web-*\" WHERE page <> 'Y' "
        "UNION ALL SELECT call FROM api) AS u GROUP BY what"
    )
    wanted = {feed.stream: [column.field for column in feed.columns] for feed in fleet.agents[0].ingest.feeds()}
    assert wanted == {"web-a": ["page"], "web-b": ["page"], "api": ["call"]}
    assert answer(fleet, web_a="XY", web_b="X", api="xz") == [{"what": "x", "n": 6}, {"what": "z", "n": 2}]


def test_an_agent_without_the_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "titles.csv").write_text("id,title\nx,An x\n")
    fleet = Fleet(2, streams=STREAMS)
    fleet.agents[0].tables.hold("titles", read_table(str(tmp_path / "titles.csv")))
    fleet.submit(
        "SELECT t.title, COUNT(*) AS n FROM api LEFT JOIN table('titles') AS t ON api.id = t.id GROUP BY t.title"
    )
    fleet.wait_long(1.0)
    assert answer(fleet, api="xy") == [{"title": "An x", "n": 1}, {"title": None, "n": 3}]
    assert fleet.results[0].partial == ["agent-1"]


def survey(fleet: Fleet, silent: int = 0) -> StreamSurveyed:
    """What agent-0 hears of a stream; so many agents, of those after it, say nothing."""
    fleet.agents[0].discovery.ask("web", client_of(fleet.agents[0]).reply, fleet.now)
    told: list[StreamSurveyed] = []
    for _ in range(round(2 * DEADLINE_S / 0.25)):
        fleet.settle()
        for number, agent in enumerate(fleet.agents):
            for notice in client_of(agent).notices():
                if isinstance(notice, StreamAsked) and not 0 < number <= silent:
                    seen = StreamDescription(
                        FLEET_GROUP,
                        notice.question,
                        number % 2 == 0,
                        [DescribedColumn("a", "integer", "1")],
                        open=False,
                    )
                    agent.discovery.answer(notice, seen, fleet.now)
                elif isinstance(notice, StreamSurveyed):
                    told.append(notice)
        fleet.wait(0.25)
    (found,) = told
    return found


def test_all_agents_say_what_a_stream_holds() -> None:
    found = survey(Fleet(5))
    assert (len(found.answers), found.silent) == (5, 0)
    assert sum(one.has_stream for one in found.answers.values()) == 3


def test_some_agents_are_asked_for_dry_runs_and_no_others() -> None:
    fleet = Fleet(5)
    peers = [agent.node.peer for agent in fleet.agents]
    told: list[DryRunsDone] = []
    asker = fleet.agents[0].discovery
    asker.ask_dry_runs(peers[:3], lambda number: DryRun(FLEET_GROUP, number, {"a": 1}, "ann@a"), told.append, fleet.now)
    asked = []
    for _ in range(round(2 * DEADLINE_S / 0.25)):
        fleet.settle()
        for number, agent in enumerate(fleet.agents):
            for notice in client_of(agent).notices():
                if isinstance(notice, DryRunAsked):
                    asked.append(number)
                    assert (notice.message.plan, notice.message.owner) == ({"a": 1}, "ann@a")
                    view = DryRunView(FLEET_GROUP, notice.message.question, agent.name)
                    if number != 1:
                        agent.discovery.give_dry_run(notice, view, fleet.now)
        fleet.wait(0.25)
    assert asked == [0, 1, 2]
    (found,) = told
    assert found.answers.keys() == {peers[0].node_id, peers[2].node_id}
    assert found.silent == 1
    assert asker.is_empty


def test_who_does_not_answer_is_counted() -> None:
    found = survey(Fleet(5), silent=2)
    assert (len(found.answers), found.silent) == (3, 2)


def test_a_fleet_of_which_nobody_knows_who_was_asked_is_not_taken_for_one_that_has_answered() -> None:
    fleet = Fleet(5)
    fleet.agents[0].discovery.acknowledged = lambda _event: None  # type: ignore[method-assign] # it comes too late
    found = survey(fleet, silent=4)
    assert (len(found.answers), found.silent) == (1, 1)


def test_questions_beyond_the_limit_are_answered_by_nobody() -> None:
    agent = Fleet(2).agents[0]
    told: list[StreamSurveyed] = []
    for _ in range(OPEN_MAX + 1):
        agent.discovery.ask("web", told.append, 0.0)
    assert [(len(one.answers), one.silent) for one in told] == [(0, 1)]
