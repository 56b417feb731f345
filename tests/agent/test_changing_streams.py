"""Streams that come to running agents, and go: what jobs make of them, and what their windows say."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from memory_fleet import WALL_MS, Fleet, events
from program_fleet import Make

from agent import Feed, StreamOptions
from agent.parsing import Parsed

GRACE_MS = 500
TEXT = "SELECT product, COUNT(*) AS n FROM {} GROUP BY product WINDOWING 2 SECONDS"
WEB: Mapping[str, StreamOptions] = {"web": StreamOptions()}
BOTH: Mapping[str, StreamOptions] = {"web": StreamOptions(), "web2": StreamOptions()}


class ChangingFleet(Fleet):
    """Agents whose streams change. Times of windows and events are seconds after the first instant."""

    def begin(self, source: str, clauses: str = "") -> None:
        self.submit(f"{TEXT.format(source)} {clauses}", bounded=False, grace_ms=GRACE_MS)
        self.pass_time(2.0)

    def pass_time(self, seconds: float) -> None:
        pass_time(self, seconds)

    def change(self, number: int, streams: Mapping[str, StreamOptions]) -> None:
        self.agents[number].change_streams(streams, self.now, self.wall_ms)
        self.catch_up()

    def write(self, number: int, stream: str, *products: str) -> None:
        """Events of this moment."""
        found: Parsed = events(*products, at_ms=self.wall_ms)
        for feed in self.feeds(number, stream):
            self.give(self.agents[number], feed.key, found)
        self.work()

    def feeds(self, number: int, stream: str) -> list[Feed]:
        return [feed for feed in self.agents[number].ingest.feeds() if feed.stream == stream]

    def windows(self) -> dict[float, tuple[int, int, int, int]]:
        """Of each window: its events, contributors, expected agents, and partial ones."""
        found = {}
        for one in self.results:
            start = pl.Series([one.window_start]).str.to_datetime(time_zone="UTC").dt.epoch("ms")[0]
            found[(start - WALL_MS) / 1000] = (one.events, one.contributors, one.expected, len(one.partial))
        return found

    def late(self) -> int:
        return sum(one.late for one in self.results)


def test_a_stream_that_comes_is_joined_with_as_by_an_agent_that_has_just_come() -> None:
    fleet = ChangingFleet(2, bystanders=1, streams=WEB)
    fleet.begin("web")
    fleet.change(1, WEB)
    assert fleet.feeds(1, "web"), "at once, without waiting for the next announcement"
    fleet.pass_time(4.0)
    fleet.write(0, "web", "a")
    fleet.write(1, "web", "b", "b")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[6.0] == (3, 2, 2, 0)


def test_a_stream_that_goes_is_left_as_by_an_agent_that_leaves() -> None:
    fleet = ChangingFleet(2, streams=WEB)
    fleet.begin("web")
    fleet.pass_time(2.0)
    fleet.write(0, "web", "a")
    fleet.write(1, "web", "b")
    fleet.change(1, {})
    assert not fleet.agents[1].ingest.feeds()
    fleet.pass_time(1.0)
    fleet.pass_time(5.0)
    fleet.write(0, "web", "a")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[4.0] == (2, 2, 2, 1), "with its events up to then, and it says that they are not all"
    assert windows[10.0] == (1, 1, 1, 0), "nobody waits for it, or expects it"
    fleet.change(1, WEB)
    fleet.pass_time(4.0)
    fleet.write(1, "web", "b")
    fleet.pass_time(4.0)
    assert fleet.windows()[18.0] == (1, 2, 2, 0) or max(fleet.windows().items())[1][1:] == (2, 2, 0)


def test_the_master_of_a_job_may_lose_its_own_streams() -> None:
    fleet = ChangingFleet(2, streams=WEB)
    fleet.begin("web")
    (master,) = [number for number, agent in enumerate(fleet.agents) if agent.masters.held]
    fleet.pass_time(2.0)
    fleet.write(master, "web", "a")
    fleet.change(master, {})
    fleet.pass_time(4.0)
    fleet.write(1 - master, "web", "b")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[4.0][:3] == (1, 2, 2)
    assert windows[8.0] == (1, 1, 1, 0)


def test_a_job_of_several_streams_reads_a_new_one_from_the_next_pane_on_and_the_others_as_before() -> None:
    fleet = ChangingFleet(2, streams=WEB)
    fleet.begin('"web*"')
    fleet.pass_time(2.25)
    fleet.write(0, "web", "a")
    (before,) = fleet.feeds(0, "web")
    fleet.change(0, BOTH)
    assert fleet.feeds(0, "web") == [before], "it is not opened anew"
    fleet.write(0, "web", "a")
    fleet.write(0, "web2", "c")
    fleet.pass_time(2.0)
    fleet.write(0, "web", "a")
    fleet.write(0, "web2", "c", "c")
    fleet.write(1, "web", "b")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[4.0] == (2, 2, 2, 0), "the window under way is that of the stream that was there"
    assert windows[6.0] == (4, 2, 2, 0)
    assert fleet.late() == 0


def test_a_job_of_several_streams_goes_on_without_one() -> None:
    fleet = ChangingFleet(2, streams=BOTH)
    fleet.begin('"web*"')
    fleet.pass_time(2.25)
    fleet.write(0, "web", "a")
    fleet.write(0, "web2", "c")
    fleet.change(0, WEB)
    assert not fleet.feeds(0, "web2")
    fleet.write(0, "web", "a")
    fleet.pass_time(2.0)
    fleet.write(0, "web", "a")
    fleet.write(1, "web2", "b")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[4.0] == (3, 2, 2, 1), "the window under way lacks what the stream would have brought"
    assert windows[6.0] == (2, 2, 2, 0)
    fleet.change(0, BOTH)
    fleet.pass_time(2.0)
    at = fleet.now
    fleet.write(0, "web2", "c")
    fleet.pass_time(4.0)
    assert fleet.windows()[at // 2 * 2] == (1, 2, 2, 0)


def test_events_that_wait_for_their_turn_count_though_their_stream_goes() -> None:
    fleet = ChangingFleet(1, streams=BOTH)
    fleet.begin('"web*"', f"GRACE {GRACE_MS} MILLISECONDS WITHIN 1 SECOND ELSE PARTIAL")
    fleet.pass_time(2.0)
    for _ in range(3):
        for feed in fleet.feeds(0, "web2"):
            fleet.give(fleet.agents[0], feed.key, events(*["a"] * 300, at_ms=fleet.wall_ms))
    fleet.change(0, WEB)
    fleet.write(0, "web", "a")
    fleet.pass_time(4.0)
    fleet.write(0, "web", "a")
    fleet.pass_time(4.0)
    windows = fleet.windows()
    assert windows[4.0] == (901, 1, 1, 1)
    assert windows[8.0] == (1, 1, 1, 0)
    assert fleet.late() == 0


def test_two_jobs_that_read_the_same_share_their_work_again_once_a_stream_has_come() -> None:
    fleet = ChangingFleet(1, streams=WEB)
    fleet.begin('"web*"')
    fleet.submit(TEXT.format('"web*"'), "other", bounded=False, grace_ms=GRACE_MS)
    fleet.pass_time(4.0)
    (ingest,) = [agent.ingest for agent in fleet.agents]
    assert len(list(ingest)) == 1
    fleet.change(0, BOTH)
    fleet.pass_time(6.0)
    assert len(list(ingest)) == 1
    fleet.change(0, WEB)
    fleet.pass_time(4.0)
    assert len(list(ingest)) == 1


def test_a_query_of_what_is_there_ends_as_it_began() -> None:
    fleet = ChangingFleet(1, streams=WEB)
    fleet.submit("SELECT COUNT(*) AS n FROM web")
    (feed,) = fleet.feeds(0, "web")
    fleet.change(0, {})
    fleet.pass_time(5.0)
    fleet.give(fleet.agents[0], feed.key, events("a", "b", at_ms=WALL_MS))
    (result,) = fleet.finish()
    assert (result.events, result.contributors, result.expected) == (2, 1, 1)


def test_streams_that_come_and_go_all_the_time_leave_nothing_behind() -> None:
    fleet = ChangingFleet(1, streams=WEB)
    fleet.begin('"web*"')
    for _ in range(5):
        fleet.change(0, BOTH)
        fleet.pass_time(0.5)
        fleet.change(0, WEB)
        fleet.pass_time(0.5)
    fleet.pass_time(6.0)
    assert len(list(fleet.agents[0].ingest)) == 1
    at = fleet.now
    fleet.write(0, "web", "a")
    fleet.pass_time(4.0)
    assert fleet.windows()[at // 2 * 2] == (1, 1, 1, 0)


WORDS = """
    import elf

    class Words(elf.Job):
        reads = {"product": "string"}
        query = 'SELECT word, COUNT(*) AS n FROM "web*" GROUP BY word WINDOWING 2 SECONDS'

        def map(self, event):
            for word in (event["product"] or "").split():
                yield {"word": word}
"""


def test_code_may_still_get_events_of_a_stream_that_goes(fleet_of: Make) -> None:
    fleet = fleet_of(1, streams=BOTH)
    (agent,) = fleet.agents
    key = fleet.submit_code(WORDS.replace("2 SECONDS", "2 SECONDS WITHIN 1 SECOND ELSE PARTIAL"), grace_ms=GRACE_MS)
    pass_time(fleet, 4.25)
    for feed in agent.ingest.feeds():
        fleet.give(agent, feed.key, events(*["a"] * 2000, at_ms=fleet.wall_ms))
    agent.change_streams(WEB, fleet.now, fleet.wall_ms)
    pass_time(fleet, 4.0)
    assert [one.events for one in fleet.results][:1] == [2000], "of the other stream"
    assert agent.jobs.get(key) is not None


def pass_time(fleet: Fleet, seconds: float) -> None:
    """Time passes, and agents read to the ends of their streams all the time."""
    for _ in range(round(seconds / 0.25)):
        fleet.wait(0.25)
        fleet.catch_up()


def test_code_that_maps_events_gets_those_of_streams_that_come_and_go(fleet_of: Make) -> None:
    fleet = fleet_of(1, streams=WEB)
    (agent,) = fleet.agents

    def change(streams: Mapping[str, StreamOptions]) -> None:
        agent.change_streams(streams, fleet.now, fleet.wall_ms)
        fleet.catch_up()

    def write(stream: str, text: str) -> None:
        for feed in agent.ingest.feeds():
            if feed.stream == stream:
                fleet.give(agent, feed.key, events(text, at_ms=fleet.wall_ms))
        fleet.work()

    fleet.submit_code(WORDS, grace_ms=GRACE_MS)
    pass_time(fleet, 4.25)
    write("web", "a b")
    change(BOTH)
    write("web", "a")
    write("web2", "c")
    pass_time(fleet, 2.0)
    write("web", "a")
    write("web2", "c c")
    pass_time(fleet, 2.75)
    change(WEB)
    write("web", "a")
    pass_time(fleet, 4.0)
    found = {one.window_start: {row["word"]: row["n"] for row in one.rows} for one in fleet.results}
    assert list(found.values()) == [{"a": 2, "b": 1}, {"a": 1, "c": 2}, {"a": 1}]
    assert [len(one.partial) for one in fleet.results] == [0, 0, 1]
    assert sum(one.late for one in fleet.results) == 0
