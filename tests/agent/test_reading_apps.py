"""Jobs that read another job's results: FROM app('shop')."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
from memory_fleet import WALL_MS, Fleet, events
from recording_client import client_of
from seeds import seeds
from test_following_jobs import SECOND, live, log, without_acknowledgements

import query
from agent import Ended, PublishedWindow, Submit, SubmitRefused, Update, Updated, UpdateRefused, WindowResult
from agent.runtime.fleet.job_names import ITSELF, no_job
from agent.runtime.messages import jobs as messages
from agent.runtime.messages.jobs import CODEC, WindowMessage
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, app_id
from query.model.timestamps import parse_timestamp

PER_PRODUCT = "SELECT product, SUM(n) AS n FROM app('shop') GROUP BY product WINDOWING {} SECONDS"
SHOP, TOP = app_id("shop", b""), app_id("top", b"")


def start_of(result: WindowResult) -> int:
    start = parse_timestamp(result.window_start or "")
    assert start is not None
    return start


def of(fleet: Fleet, name: str) -> list[WindowResult]:
    return [result for result in fleet.results if result.app == name]


def counted(results: list[WindowResult], size_ms: int) -> dict[int, Counter[str]]:
    """What the rows of another job's results add up to, by the start of the windows that they lie in."""
    windows: dict[int, Counter[str]] = {}
    for result in results:
        of_window = windows.setdefault(start_of(result) // size_ms * size_ms, Counter())
        for row in result.rows:
            of_window[row["product"]] += row["n"]
    return windows


def read(fleet: Fleet, text: str = PER_PRODUCT.format(2), name: str = "top", by: int = 0, **options: Any) -> Id:
    key = fleet.submit(text, name, by, **{"bounded": False, **options})
    fleet.wait(0.5)
    return key


def write(fleet: Fleet, seconds: int) -> None:
    for second in range(seconds):
        log(fleet, *"abcab"[second % 3 :])


def check(fleet: Fleet, size_s: int, name: str = "top") -> None:
    """Every window of the reader holds what the other job's windows in it do, and none is left out between two."""
    expected = counted(of(fleet, "shop"), size_s * SECOND)
    found = of(fleet, name)
    assert len(found) >= 2
    for result in found:
        assert {row["product"]: row["n"] for row in result.rows} == expected[start_of(result)]
        assert (result.contributors, result.expected, result.missing) == (1, 1, [])
        assert (result.late, result.malformed) == (0, 0)
    starts = [start_of(result) for result in found]
    assert starts == [start for start in sorted(expected) if starts[0] <= start <= starts[-1]]


USUAL = [(1, 0), (2, 1), (5, 2), (2, 3)]


@pytest.mark.parametrize(
    ("size_s", "by"), seeds(*USUAL, slow=[one for one in product((1, 2, 5), range(4)) if one not in USUAL])
)
def test_windows_of_the_same_or_a_multiple_length_take_whole_windows(size_s: int, by: int) -> None:
    fleet = live()
    read(fleet, PER_PRODUCT.format(size_s), by=by)
    write(fleet, 18)
    check(fleet, size_s)
    assert all(result.partial == [] for result in of(fleet, "top"))


def test_one_agent_reads_where_the_master_is() -> None:
    fleet = live()
    read(fleet)
    workers = [agent for agent in fleet.agents for job in agent.status().jobs
               if job.app_id == TOP and "worker" in job.roles]  # fmt: skip
    assert len(workers) == 1
    assert workers[0].masters.state(TOP) is not None
    assert all(feed.stream == "web" for agent in fleet.agents for feed in agent.ingest.feeds()), (
        "there is no file to read"
    )
    (listing,) = [one for one in fleet.agents[0].directory.all() if one.name == "top"]
    assert (listing.stream, listing.agents, listing.expected) == ("app('shop')", 1, 1)


def test_rows_have_the_columns_and_the_window_of_their_result() -> None:
    fleet = live()
    text = "SELECT t.window_start AS s, t.window_end AS e, product FROM app('shop') AS t WHERE n > 4 WINDOWING 1 SECOND"
    read(fleet, text)
    write(fleet, 4)
    results = of(fleet, "top")
    assert len(results) >= 2
    assert [dict(row) for row in results[0].rows] == [
        {"s": results[0].window_start, "e": results[0].window_end, "product": product} for product in "ab"
    ]


def test_who_lacked_something_there_makes_the_window_here_partial() -> None:
    fleet = live()
    read(fleet)
    write(fleet, 4)
    unsure = next(number for number, agent in enumerate(fleet.agents) if not agent.masters.state(SHOP))
    for feed in fleet.agents[unsure].ingest.feeds():
        fleet.agents[unsure].ingest.lacks(feed.key, True)
    write(fleet, 3)
    for feed in fleet.agents[unsure].ingest.feeds():
        fleet.agents[unsure].ingest.lacks(feed.key, False)
    write(fleet, 6)
    short = {start_of(one) // 2000 * 2000 for one in of(fleet, "shop") if one.partial}
    assert len(short) in (1, 2)
    (reader,) = {name for one in of(fleet, "top") for name in one.partial}
    assert {start_of(one) for one in of(fleet, "top") if one.partial} == short
    assert any(not one.partial for one in of(fleet, "top"))
    assert fleet.agents[[agent.name for agent in fleet.agents].index(reader)].masters.state(TOP)
    check(fleet, 2)


def test_windows_close_though_the_other_job_has_nothing_to_tell() -> None:
    fleet = live()
    read(fleet)
    write(fleet, 5)
    if start_of(of(fleet, "shop")[-1]) % 2000:
        write(fleet, 1)
    last = start_of(of(fleet, "shop")[-1])
    assert start_of(of(fleet, "top")[-1]) < last // 2000 * 2000, "its second half may come"
    for _ in range(12):
        fleet.wait(0.5)
        fleet.catch_up()
    assert start_of(of(fleet, "shop")[-1]) == last, "nothing was logged meanwhile"
    assert start_of(of(fleet, "top")[-1]) == last // 2000 * 2000


def test_several_read_the_same_job_beside_clients_that_follow_it() -> None:
    fleet = live()
    for number in range(3):
        read(fleet, PER_PRODUCT.format(number + 1), f"top-{number}", by=number)
    for number in range(4):
        client_of(fleet.agents[number]).follow(SHOP, None, fleet.now)
    fleet.settle()
    write(fleet, 13)
    for number in range(3):
        check(fleet, number + 1, f"top-{number}")
    for number in range(4):
        shown = [one.pane for app, one in fleet.by_job(number) if isinstance(one, PublishedWindow) and app == SHOP]
        assert shown == [start_of(one) for one in of(fleet, "shop") if start_of(one) >= shown[0]]
        assert len(shown) >= 10


def test_a_job_reads_one_that_reads_another() -> None:
    fleet = live()
    read(fleet)
    read(fleet, "SELECT SUM(n) AS n, COUNT(*) AS products FROM app('top') WINDOWING 4 SECONDS", "sum", by=2)
    write(fleet, 18)
    check(fleet, 2)
    totals = {start: sum(counts.values()) for start, counts in counted(of(fleet, "shop"), 4000).items()}
    sums = of(fleet, "sum")
    assert len(sums) >= 2
    assert all(one.rows[0]["n"] == totals[start_of(one)] for one in sums)


# How it ends.


def ended(fleet: Fleet, by: int, key: Id = TOP) -> Ended:
    for _ in range(20):
        fleet.wait(0.5)
        fleet.work()
        for app, notice in fleet.by_job(by):
            if isinstance(notice, Ended) and app == key:
                return notice
    raise AssertionError("it has not ended")


def test_the_end_of_the_other_job_is_the_end_of_this_one() -> None:
    fleet = live()
    read(fleet)
    client_of(fleet.agents[1]).follow(TOP, None, fleet.now)
    write(fleet, 5)
    client_of(fleet.agents[2]).stop(SHOP, fleet.now)
    assert ended(fleet, 1) == Ended("finished")
    check(fleet, 2)
    last = start_of(of(fleet, "shop")[-1])
    assert start_of(of(fleet, "top")[-1]) == last // 2000 * 2000, "what was read is shown"
    whole = last % 2000 == 1000
    assert (of(fleet, "top")[-1].partial == []) == whole, "without its second half a window is not whole"


def test_what_a_job_over_what_logs_hold_finds_is_read_to_its_end() -> None:
    fleet = Fleet(4)
    fleet.wait(0.5)
    fleet.submit("SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND")
    read(fleet, "SELECT SUM(n) AS n, COUNT(*) AS rows, MAX(window_start) AS last FROM app('shop')")
    read(fleet, PER_PRODUCT.format(2), "live")
    for number in range(4):
        fleet.insert(number, events("a", "b", at_ms=3500))
        fleet.insert(number, events("a", "b", "c", at_ms=5500))
    fleet.finish()
    for _ in range(20):
        fleet.wait(0.5)
        fleet.work()
    (top,) = of(fleet, "top")
    assert list(top.rows) == [{"n": 20, "rows": 5, "last": "1970-01-01T00:00:05Z"}]
    assert counted(of(fleet, "live"), 2000) == {2000: Counter(a=4, b=4), 4000: Counter(a=4, b=4, c=4)}
    assert fleet.agents[0].directory.all() == []


def test_a_query_without_windows_is_over_the_results_that_are_there() -> None:
    fleet = live()
    write(fleet, 6)
    there = sum(counted(of(fleet, "shop"), 1000).values(), Counter())
    client_of(fleet.agents[1]).follow(
        read(fleet, "SELECT product, SUM(n) AS n FROM app('shop') GROUP BY product"), None, fleet.now
    )
    assert ended(fleet, 1).reason == "finished"
    (top,) = of(fleet, "top")
    assert {row["product"]: row["n"] for row in top.rows} == there
    assert len(fleet.agents[0].directory.all()) == 1


# What is refused.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT n FROM app('shops') WINDOWING 1 DAY", no_job(name="shops")),
        ("SELECT web.n FROM web JOIN app('Shop') AS s ON web.n = s.n WINDOWING 1 DAY", no_job(name="Shop")),
        ("SELECT a.n FROM app('shop') AS a JOIN app('b') ON a.n = b.n WINDOWING 1 DAY", no_job(name="b")),
        ("SELECT n FROM app('top') WINDOWING 1 DAY", ITSELF.format(name="top")),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(text: str, reason: str) -> None:
    fleet = live()
    fleet.submit(text, "top", by=1, bounded=False)
    assert fleet.notices(1) == [SubmitRefused(TOP, reason, unavailable=False)]
    assert len(fleet.agents[1].directory.all()) == 1


def changed(fleet: Fleet, key: Id, text: str, meanwhile: Callable[[], object] | None = None) -> Updated | UpdateRefused:
    """The answer to an update; time goes on `meanwhile`."""
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
    client_of(fleet.agents[0]).update(Update(key, plan.to_wire(), text, False, 0), fleet.now, fleet.wall_ms)
    for _ in range(12):
        for notice in fleet.notices(0):
            if isinstance(notice, Updated | UpdateRefused):
                return notice
        (meanwhile or (lambda: log(fleet, "a", "b")))()
    raise AssertionError("nobody answered")


def test_no_job_is_changed_to_read_in_a_circle() -> None:
    """FROM cannot change at all; two jobs that JOIN each other do not wait for each other."""
    fleet = live()
    read(fleet)
    itself = "SELECT web.n FROM web JOIN app('shop') AS s ON web.n = s.n WINDOWING 1 SECOND"
    assert changed(fleet, SHOP, itself) == UpdateRefused(SHOP, ITSELF.format(name="shop"), "usage")
    for text in ("SELECT n FROM app('top') WINDOWING 1 SECOND", "SELECT n FROM web WINDOWING 1 SECOND"):
        refused = changed(fleet, SHOP if "top" in text else TOP, text)
        assert isinstance(refused, UpdateRefused)
        assert "stream" in refused.reason


def test_two_jobs_that_join_each_other_go_on() -> None:
    fleet = live()
    read(fleet)
    circle = (
        "SELECT web.product, COUNT(*) AS n FROM web LEFT JOIN app('top') ON web.product = top.product "
        "GROUP BY web.product WINDOWING 1 SECOND"
    )
    answer = changed(fleet, SHOP, circle)
    assert isinstance(answer, Updated)
    write(fleet, 8)
    assert of(fleet, "shop")[-1].version == 2
    check(fleet, 2)


def test_a_job_that_pretends_to_read_itself_says_nothing() -> None:
    """An agent that does not look would submit it."""
    fleet = live()
    text = PER_PRODUCT.format(1).replace("shop", "top")
    plan = query.analyze(query.parse(text), {})
    job = Submit(TOP, "top", plan.stream, plan.to_wire(), text, bounded=False, grace_ms=0, submitted_ms=1)
    MessageSender(fleet.agents[0].node).route(job, fleet.now)
    fleet.settle()
    write(fleet, 6)
    assert of(fleet, "top") == []
    assert of(fleet, "shop")


# How it changes.


def test_a_job_that_reads_another_can_be_changed() -> None:
    fleet = live()
    read(fleet)
    write(fleet, 5)
    answer = changed(
        fleet,
        TOP,
        "SELECT product, SUM(n) AS n, COUNT(*) AS times FROM app('shop') GROUP BY product WINDOWING 4 SECONDS",
    )
    assert isinstance(answer, Updated)
    assert (answer.agents, answer.expected, answer.laggards) == (1, 1, [])
    write(fleet, 14)
    by_version = {version: [one for one in of(fleet, "top") if one.version == version] for version in (1, 2)}
    assert min(map(len, by_version.values())) >= 2
    for version, results in by_version.items():
        expected = counted(of(fleet, "shop"), 2000 * version)
        for one in results:
            assert {row["product"]: row["n"] for row in one.rows} == expected[start_of(one)]
    starts = [(start_of(one), start_of(one) + 2000 * one.version) for one in of(fleet, "top")]
    assert all(end == start for (_, end), (start, _) in pairwise(starts)), "none is left out"


def test_an_agent_that_leaves_leaves_the_reading_to_the_next_master() -> None:
    fleet = live(5)
    read(fleet, PER_PRODUCT.format(3))
    write(fleet, 7)
    reader = next(agent for agent in fleet.agents if agent.masters.state(TOP))
    reader.drain.begin(fleet.now)
    reader.process_events(fleet.now, fleet.wall_ms)
    for _ in range(20):
        if not reader.drain.is_complete:
            fleet.wait(0.5)
            fleet.catch_up()
    assert reader.drain.is_complete
    reader.node.leave(fleet.now)
    fleet.agents.remove(reader)
    fleet.settle()
    write(fleet, 12)
    assert len([agent for agent in fleet.agents if agent.masters.state(TOP)]) == 1
    check(fleet, 3)
    assert of(fleet, "top")[-1].epoch == 2
    cut_short = [one for one in of(fleet, "shop") if one.partial]
    assert [one.partial for one in cut_short] == [[reader.name]], "it also counted for the shop, until it left"
    about = [one for one in of(fleet, "top") if one.partial]
    assert [start_of(one) for one in about] == [start_of(one) // 3000 * 3000 for one in cut_short]


# Hostile results.


@pytest.mark.parametrize(
    "json",
    [b"", b"junk", b"[]", b'{"rows":[[1]]}', b"[" * 100_000, b'{"rows":[{"n":"' + b"x" * (9 << 20) + b'"}]}'],
    ids=["empty", "junk", "list", "rows", "deep", "large"],
)
def test_what_is_no_result_makes_its_window_partial(json: bytes) -> None:
    fleet = live()
    read(fleet)
    write(fleet, 4)
    source, master = next((agent, master) for agent in fleet.agents if (master := agent.masters.state(SHOP)))
    reader = next(agent for agent in fleet.agents if agent.masters.state(TOP))
    sent = start_of(of(fleet, "shop")[-1])
    refused = reader.refused
    window = WindowMessage(SHOP, master.epoch, sent, sent + SECOND, json, TOP)
    source.node.send(reader.node.peer, CODEC.encode(window), fleet.now)
    fleet.settle()
    assert reader.refused == refused + 1
    fleet.wait(1.0)
    fleet.catch_up()
    write(fleet, 6)
    bad = (sent + SECOND) // 2000 * 2000
    assert [start_of(one) for one in of(fleet, "top") if one.partial] == [bad]


def test_windows_for_a_job_that_reads_nothing_here_are_refused() -> None:
    fleet = live()
    master = next(master for agent in fleet.agents if (master := agent.masters.state(SHOP)))
    refused = fleet.agents[1].refused
    for message in (
        WindowMessage(SHOP, master.epoch, 0, 1, b"{}", TOP),
        messages.JobEnded(SHOP, master.epoch, 0, "finished", "", TOP),
        messages.Acknowledgement(SHOP, master.epoch, FIRST_PANE, 1, 1, 1, "x", WALL_MS, TOP),
    ):
        fleet.agents[2].node.send(fleet.agents[1].node.peer, CODEC.encode(message), fleet.now)
    fleet.settle()
    assert fleet.agents[1].refused == refused + 3
    assert without_acknowledgements(fleet.notices(1)) == []
