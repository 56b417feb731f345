"""When windows of live jobs close, what is in them, and what comes too late for them."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events

from agent import Agent, StreamOptions
from agent.control.status_report import described_job
from agent.parsing import Parsed
from agent.runtime.ingest import operator, operator_pool
from agent.runtime.ingest.event_clock import FUTURE_MS
from agent.runtime.ingest.panes import pane_log
from agent.runtime.master import job_masters
from agent.runtime.master.job_master import PAST_S
from agent.runtime.reduce.straggler import HOLDBACK_S
from overlay import app_id

GRACE_MS = 2000


def live(size: int = 1, *, read_from: str = "end", text: str = COUNT) -> Fleet:
    """A fleet that runs a live job and whose feeds are open; the clock stands half a second before its first pane."""
    fleet = Fleet(size, streams={"web": StreamOptions(read_from)})  # type: ignore[arg-type]
    fleet.wait(0.5)
    fleet.submit(text, bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up()
    assert fleet.now == 0.5
    return fleet


def shown(fleet: Fleet) -> list[tuple[float, int, int]]:
    """Every window so far: its start in seconds after the first instant, its events and its contributors."""
    starts = [pl.Series([result.window_start]).str.to_datetime(time_zone="UTC") for result in fleet.results]
    seconds = [(start.dt.epoch("ms")[0] - WALL_MS) / 1000 for start in starts]
    return [(s, r.events, r.contributors) for s, r in zip(seconds, fleet.results, strict=True)]


def test_a_window_closes_by_the_events_that_follow_it() -> None:
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.insert(0, events("b", at_ms=WALL_MS + 3999))
    fleet.work()
    assert shown(fleet) == []
    fleet.insert(0, events("c", at_ms=WALL_MS + 4000))
    fleet.work()
    assert shown(fleet) == [(1.0, 1, 1)]
    assert fleet.results[0].rows == [{"product": "a", "n": 1}]


def test_an_idle_stream_closes_windows_by_the_clock_and_a_backlog_does_not() -> None:
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(60.0)
    fleet.work()
    assert shown(fleet) == [], "nobody knows what is still to be read"
    fleet.catch_up()
    assert shown(fleet) == [(1.0, 1, 1)]


def test_a_backlog_of_large_windows_is_published_in_pieces_between_which_other_work_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_masters, "PIECE_BYTES", 1)
    fleet = live(size=2, text=COUNT.replace("1 SECOND", "2 SECONDS EVERY 1 SECOND"))
    master = next(state for agent in fleet.agents if (state := agent.masters.state(KEY)) is not None)
    for second in range(20):
        fleet.insert(second % 2, events(f"a{second}", "b", at_ms=WALL_MS + 1500 + 1000 * second))
    turns: list[int] = []
    work = Agent.work
    monkeypatch.setattr(Agent, "work", lambda agent, *at: (turns.append(master.frontier), work(agent, *at))[1])
    fleet.wait(60.0)
    fleet.catch_up()
    assert [second for second, _, _ in shown(fleet)] == [float(second) for second in range(21)]
    assert {result.contributors for result in fleet.results} == {2}
    assert {WALL_MS + 1000 * second for second in range(1, 20)} <= set(turns), "each pane has a turn of its own"


def test_a_window_in_which_nobody_saw_anything_is_not_shown() -> None:
    fleet = live(size=3)
    fleet.wait(10.0)
    fleet.catch_up()
    fleet.insert(1, events("a", at_ms=WALL_MS + 10_000))
    fleet.wait(10.0)
    fleet.catch_up()
    assert shown(fleet) == [(10.0, 1, 3)]


def test_what_comes_for_a_closed_window_is_late_and_counted_in_the_next() -> None:
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(5.0)
    fleet.catch_up()
    fleet.insert(0, events("late", "late", at_ms=WALL_MS + 1600))
    fleet.insert(0, events("b", at_ms=WALL_MS + 5000))
    fleet.wait(5.0)
    fleet.catch_up()
    assert shown(fleet) == [(1.0, 1, 1), (5.0, 1, 1), (7.0, 0, 1)]
    assert [result.late for result in fleet.results] == [0, 0, 2]
    assert fleet.agents[0].status().jobs[0].late == 2


def test_what_was_logged_before_the_job_began_is_not_for_it() -> None:
    fleet = live()
    fleet.insert(0, events("before", at_ms=WALL_MS - 5))
    fleet.insert(0, events("a", at_ms=WALL_MS + 1000))
    fleet.wait(9.0)
    fleet.catch_up()
    assert shown(fleet) == [(1.0, 1, 1)]
    assert fleet.results[0].late == 0


def test_a_server_whose_clock_is_an_hour_slow_does_not_go_unnoticed() -> None:
    fleet = live()
    fleet.insert(0, events("slow", "slow", at_ms=WALL_MS - 3_600_000))
    fleet.insert(0, events("a", at_ms=WALL_MS + 1000))
    fleet.wait(9.0)
    fleet.catch_up()
    assert sum(result.late for result in fleet.results) == 2
    assert [result.events for result in fleet.results if result.events] == [1]


def test_events_of_the_far_future_are_not_believed() -> None:
    fleet = live()
    fleet.insert(0, events("x", at_ms=fleet.wall_ms + FUTURE_MS + 1))
    fleet.insert(0, events("a", at_ms=WALL_MS + 1000))
    fleet.work()
    assert shown(fleet) == [], "nor do they close windows"
    fleet.wait(4.0)
    fleet.catch_up()
    (result,) = fleet.results
    assert (result.events, result.malformed, result.rows) == (1, 1, [{"product": "a", "n": 1}])


def test_malformed_lines_make_a_window_appear() -> None:
    fleet = live()
    fleet.insert(0, Parsed((), malformed=3))
    fleet.wait(5.0)
    fleet.catch_up()
    assert [(r.malformed, r.events, r.contributors) for r in fleet.results] == [(3, 0, 1)]


def test_nobody_waits_for_an_agent_that_has_just_come() -> None:
    """It belongs from its first whole pane on, and is then waited for."""
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 4300))
    fleet.wait(3.5)
    fleet.add("agent-new")
    fleet.wait(0.8)
    assert [len(agent.ingest.feeds()) for agent in fleet.agents] == [1, 1]
    fleet.catch_up()
    fleet.insert(1, events("not yet", at_ms=WALL_MS + 4900))
    for number in (0, 1):
        fleet.insert(number, events("b", at_ms=WALL_MS + 5100))
    fleet.wait_long(4.0)
    fleet.catch_up(0)
    assert shown(fleet) == [(4.0, 1, 1)]
    fleet.catch_up()
    assert [(r.contributors, r.expected, r.events) for r in fleet.results] == [(1, 1, 1), (2, 2, 2)]


def test_a_feed_that_opens_late_begins_later() -> None:
    fleet = Fleet(2)
    fleet.wait(0.5)
    fleet.submit(bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up(0)
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(2.0)
    fleet.catch_up()
    fleet.insert(0, events("a", at_ms=WALL_MS + 3500))
    fleet.insert(1, events("a", at_ms=WALL_MS + 3500))
    fleet.wait(9.0)
    fleet.catch_up()
    assert [(r.contributors, r.expected, r.events) for r in fleet.results] == [(1, 1, 1), (2, 2, 2)]


def test_reading_from_the_beginning_replays_what_was_logged() -> None:
    fleet = live(read_from="beginning")
    assert [(feed.start, feed.app_id is None) for feed in fleet.agents[0].ingest.feeds()] == [("beginning", False)]


@pytest.mark.parametrize("read_from", ["end", "beginning"])
def test_history_comes_window_by_window_only_from_the_beginning(read_from: str) -> None:
    fleet = Fleet(1, streams={"web": StreamOptions(read_from)})  # type: ignore[arg-type]
    fleet.wait(0.5)
    fleet.submit(bounded=False, grace_ms=GRACE_MS)
    fleet.wait(PAST_S)
    for second in range(10):
        fleet.insert(0, events("old", at_ms=1000 * second))
        fleet.work()
    assert len(fleet.results) == (7 if read_from == "beginning" else 0)
    fleet.catch_up()
    assert len(fleet.results) == (10 if read_from == "beginning" else 0)


def test_jobs_share_one_reading_with_the_columns_of_all() -> None:
    fleet = live()
    fleet.submit("SELECT page, COUNT(*) FROM web GROUP BY page WINDOWING 1 SECOND", "pages", bounded=False)
    (feed,) = fleet.agents[0].ingest.feeds()
    assert feed.key == ("web", None)
    assert [column.name for column in feed.columns] == ["product", "page"]
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.insert(0, events("b", at_ms=WALL_MS + 1600, page=["/"]))
    fleet.insert(0, events("c", at_ms=WALL_MS + 2500, page=["/"]))
    fleet.wait(20.0)
    fleet.catch_up()
    fleet.wait_long(HOLDBACK_S + 0.5)
    shared = sorted((r.app, r.events) for r in fleet.results)
    assert shared == [("pages", 1), ("shop", 1), ("shop", 2)], "what was read without its columns is not whole for it"


def test_jobs_that_need_a_column_as_different_types_read_it_twice() -> None:
    fleet = live(text="SELECT SUM(price) FROM web WINDOWING 1 SECOND")
    fleet.submit("SELECT COUNT(*) FROM web WHERE price = 'free' WINDOWING 1 SECOND", "free", bounded=False)
    (feed,) = fleet.agents[0].ingest.feeds()
    assert [(column.field, column.type) for column in feed.columns] == [("price", "number"), ("price", "string")]
    assert len({column.name for column in feed.columns}) == 2


def test_a_bounded_job_reads_by_itself_and_ends() -> None:
    fleet = live()
    fleet.submit(name="once")
    shared, own = fleet.agents[0].ingest.feeds()
    assert (shared.bounded, own.bounded, own.start) == (False, True, "beginning")
    agent = fleet.agents[0]
    fleet.give(agent, own.key, events("a", "b", at_ms=5))
    agent.ingest.end_of_feed(own.key, fleet.now, fleet.wall_ms)
    fleet.work()
    fleet.wait(1.0)
    assert [(r.app, r.events) for r in fleet.results] == [("once", 2)]
    assert fleet.agents[0].ingest.feeds() == (shared,)


def test_sealing_goes_in_slices_and_events_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_pool, "ROWS_PER_RUN", 2)
    fleet = Fleet(1, streams={"web": StreamOptions("beginning")})
    fleet.submit(bounded=False)
    agent, (feed,) = fleet.agents[0], fleet.agents[0].ingest.feeds()
    history = [events("a", "b", at_ms=1000 * second).frames[0] for second in range(20)]
    fleet.give(agent, feed.key, Parsed((pl.concat(history),), malformed=0))
    for second in range(20, 30):
        assert agent.work(fleet.now, fleet.wall_ms)
        fleet.give(agent, feed.key, events("c", at_ms=1000 * second))
        fleet.give(agent, feed.key, events("late", at_ms=0))
    fleet.catch_up()
    fleet.wait(PAST_S)
    assert [r.events for r in fleet.results if r.events] == [2] * 20 + [1] * 10
    assert sum(r.late for r in fleet.results) == 10


@pytest.mark.parametrize("more", [-1, 0, 1, 90])
def test_so_many_events_wait_for_a_sealing_under_way(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(operator_pool, "ROWS_PER_RUN", 2)
    monkeypatch.setattr(operator, "WAITING_ROWS_MAX", 10)
    fleet = Fleet(1, streams={"web": StreamOptions("beginning")})
    fleet.submit(bounded=False)
    agent, (feed,) = fleet.agents[0], fleet.agents[0].ingest.feeds()
    history = [events("a", "b", at_ms=1000 * second).frames[0] for second in range(20)]
    fleet.give(agent, feed.key, Parsed((pl.concat(history),), malformed=0))
    sealing = agent.ingest.turn()
    assert sealing is not None, "panes are being sealed"
    before = sealing.job.frontier
    for _ in range(10 + more):
        fleet.give(agent, feed.key, events("c", at_ms=20_000))
    assert (sealing.job.frontier > before) == (more >= 0), "the sealing is finished first"
    fleet.work()
    fleet.wait(10.0)
    fleet.catch_up()
    assert [r.events for r in fleet.results if r.events] == [2] * 20 + [10 + more]


def test_a_worker_waits_when_too_much_of_it_is_not_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other agent does not seal, so nothing is committed."""
    monkeypatch.setattr(pane_log, "UNCOMMITTED_BYTES_MAX", 10_000)
    fleet = live(size=2)
    hasty = fleet.agents[0]
    (feed,) = hasty.ingest.feeds()
    for second in range(1, 200):
        hasty.ingest.insert(
            feed.key, events(*"abcdefgh", at_ms=WALL_MS + 1000 * second), fleet.now, WALL_MS + 1000 * second
        )
        fleet.work()
    assert hasty.status().jobs[0].memory_bytes < 200_000
    behind = hasty.status().jobs[0].sealed_upto
    assert behind is not None
    assert behind < WALL_MS + 150_000
    fleet.wait(210.0)
    fleet.catch_up()
    for _ in range(20):
        fleet.catch_up()
    assert sum(result.events for result in fleet.results) == 199 * 8


def test_panes_never_run_backwards() -> None:
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 30_000))
    fleet.work()
    fleet.insert(0, events("b", at_ms=WALL_MS + 1000))
    fleet.catch_up()
    fleet.wait(60.0)
    fleet.catch_up()
    assert [(r.events, r.late) for r in fleet.results] == [(1, 0), (0, 1)]


def test_results_are_json_with_their_epoch() -> None:
    fleet = live()
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(9.0)
    fleet.catch_up()
    result = msgspec.json.decode(fleet.results[0].to_json())
    assert (result["window_start"], result["epoch"], result["version"]) == ("2023-11-14T22:13:21Z", 1, 1)


def test_a_result_too_large_to_be_sent_loses_its_last_rows() -> None:
    fleet = live()
    fleet.insert(0, events(*map(str, range(1000)), at_ms=WALL_MS + 1500))
    fleet.wait(9.0)
    fleet.catch_up()
    (result,) = fleet.results
    cut = msgspec.json.decode(result.to_bytes(5000))
    assert len(result.to_bytes(5000)) <= 5000
    assert (cut["dropped"] + len(cut["rows"]), cut["events"]) == (1000, 1000)
    assert cut["dropped"] > 0


def test_a_query_says_itself_how_long_late_events_are_waited_for() -> None:
    """Whatever the job's own grace is."""
    prompt = live(text=f"{COUNT} GRACE 0 SECONDS")
    prompt.insert(0, events("a", at_ms=WALL_MS + 1500))
    prompt.insert(0, events("b", at_ms=WALL_MS + 2000))
    prompt.work()
    assert shown(prompt) == [(1.0, 1, 1)]
    patient = live(text=f"{COUNT} GRACE 10 SECONDS")
    patient.insert(0, events("a", at_ms=WALL_MS + 1500))
    patient.insert(0, events("b", at_ms=WALL_MS + 11_999))
    patient.insert(0, events("late", at_ms=WALL_MS + 1600))
    patient.work()
    assert shown(patient) == []
    patient.insert(0, events("c", at_ms=WALL_MS + 12_000))
    patient.work()
    assert shown(patient) == [(1.0, 2, 1)]


def test_windows_that_overlap_come_every_slide_and_a_new_job_says_what_it_lacks() -> None:
    fleet = live(text="SELECT COUNT(*) AS n FROM web WINDOWING 3 SECONDS EVERY 1 SECOND GRACE 0 SECONDS")
    for second in range(1, 7):
        fleet.insert(0, events("a", at_ms=WALL_MS + 1000 * second))
    fleet.work()
    assert shown(fleet) == [(-1.0, 1, 1), (0.0, 2, 1), (1.0, 3, 1), (2.0, 3, 1), (3.0, 3, 1)]
    assert [result.partial for result in fleet.results] == [["agent-0"], ["agent-0"], [], [], []]


def test_the_window_in_which_an_agent_leaves_says_that_it_has_a_part_of_it() -> None:
    fleet = live(size=3)
    leaver = next(number for number, agent in enumerate(fleet.agents) if not agent.masters.state(app_id("shop", b"")))
    for number in range(3):
        fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
        fleet.insert(number, events("a", at_ms=WALL_MS + 3200))
    agent = fleet.agents[leaver]
    agent.drain.begin(fleet.now)
    agent.process_events(fleet.now, fleet.wall_ms)
    fleet.work()
    assert agent.drain.is_complete
    agent.node.leave(fleet.now)
    fleet.agents.remove(agent)
    for number in range(2):
        fleet.insert(number, events("b", "b", at_ms=WALL_MS + 3400))
    for _ in range(20):
        fleet.wait(0.5)
        fleet.catch_up()
    assert shown(fleet) == [(1.0, 3, 3), (3.0, 7, 3)]
    whole, cut = fleet.results
    assert whole.partial == []
    assert cut.partial == [agent.name]


def test_the_announcement_counts_the_events_of_published_windows() -> None:
    fleet = live()
    fleet.insert(0, events("a", "b", at_ms=WALL_MS + 1500))
    fleet.insert(0, events("c", at_ms=WALL_MS + 4000))
    fleet.work()
    fleet.wait_long(10.0)
    fleet.catch_up()
    fleet.wait_long(10.0)
    announced = fleet.agents[0].directory.get(KEY)
    assert announced is not None
    assert [(r.events, r.contributors) for r in fleet.results] == [(2, 1), (1, 1)]
    assert announced.events == 3
    described = described_job(announced)
    assert described.contributors == 1
    assert described.frontier == "2023-11-14T22:13:28Z", "the end of a window, not its first instant"
    without = msgspec.structs.replace(
        announced, incomplete=((announced.frontier - 1000, announced.frontier, b"\x02"),), members=b"\x03", expected=2
    )
    assert described_job(without).contributors == 1, "one of two is not in the newest window"
    older = ((0, announced.frontier - 1000, b"\x02"),)
    assert described_job(msgspec.structs.replace(without, incomplete=older)).contributors == 2
