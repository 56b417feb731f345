"""A stream that is configured anew while it is read: no line is lost or read twice, and what is old stays old."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from test_feeds import DAY_MS, JOB, FakeAgent, bounded, live, make_feeds, stream, until, write
from test_table_files import lookup, told

from agent.configuration.config import TableConfig
from agent.feeding.table_files import TableFiles
from agent.runtime.durable.feed_memory import FeedNeeds
from agent.runtime.ingest.event_clock import MAX_SKEW_MS
from agent.runtime.upstream.tables import FileTables

pytestmark = pytest.mark.trio
WEB = ("web", None)


async def test_files_of_both_go_on_where_they_were_and_others_begin_at_their_ends(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    kept, gone, new = tmp_path / "kept.log", tmp_path / "gone.log", tmp_path / "new.log"
    for path in (kept, gone, new):
        write(path, [0])
    agent = FakeAgent(live())
    agent.needed[WEB] = FeedNeeds(DAY_MS, {JOB: DAY_MS})
    feeds = make_feeds(agent, stream(kept, gone))
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 2)
    write(kept, [1])
    write(gone, [10])
    await until(lambda: sorted(agent.numbers(WEB)) == [1, 10])
    write(kept, [2, 3])
    feeds.change_streams([stream(kept, new)], MAX_SKEW_MS)
    await until(lambda: feeds.statistics()["web"].files == 2 and {2, 3} <= set(agent.numbers(WEB)))
    said = len(agent.said)
    await until(lambda: len(agent.said) > said + 2)
    write(kept, [4])
    write(gone, [11])
    write(new, [20])
    await until(lambda: {4, 20} <= set(agent.numbers(WEB)))
    assert sorted(agent.numbers(WEB)) == [1, 2, 3, 4, 10, 20]
    await feeds.pause()
    (position,) = feeds.last_positions()
    assert {Path(file.path).name: file.offset for file in position.files} == {
        path.name: path.stat().st_size for path in (kept, new)
    }


async def test_another_format_counts_from_the_next_line_on(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "a.log"
    write(log, [0])
    agent = FakeAgent(live())
    feeds = make_feeds(agent, stream(log, kind="combined"))
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 2)
    write(log, [1, 2])
    await until(lambda: feeds.statistics()["web"].malformed == 2)
    feeds.change_streams([stream(log, kind="json")], MAX_SKEW_MS)
    write(log, [3])
    await until(lambda: agent.numbers(WEB) == [3])


async def test_a_bounded_reading_ends_as_it_began_though_its_stream_has_gone(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    log = tmp_path / "a.log"
    write(log, range(1000))
    agent = FakeAgent(bounded())
    feeds = make_feeds(agent, stream(log))
    nursery.start_soon(feeds.run)
    await until(lambda: bool(feeds._readings))
    feeds.change_streams([], MAX_SKEW_MS)
    await until(lambda: ("end", ("web", 1)) in agent.said or len(agent.numbers(("web", 1))) == 1000)
    assert agent.numbers(("web", 1)) == list(range(1000))


async def test_a_feed_of_a_stream_that_has_gone_is_not_begun(tmp_path: Path, nursery: trio.Nursery) -> None:
    log = tmp_path / "a.log"
    write(log, [0])
    agent = FakeAgent(live("gone"), live())
    feeds = make_feeds(agent, stream(log))
    nursery.start_soon(feeds.run)
    await until(lambda: len(agent.said) > 2)
    assert {key for _, key in agent.said} == {WEB}


async def test_tables_come_and_go(tmp_path: Path, nursery: trio.Nursery) -> None:
    products = tmp_path / "products.csv"
    products.write_text("id,title\n1,a\n")
    tables, one = FileTables([], lambda *_: None), lookup()
    files = TableFiles(tables, [], pump=lambda: None)
    nursery.start_soon(files.run)
    assert told(tables, one) == (True, True)
    files.change([TableConfig("products", str(products), "auto")])
    await until(lambda: told(tables, one) == (True, False))
    files.change([])
    assert told(tables, one) == (True, True), "its rows stay, and windows say so"
