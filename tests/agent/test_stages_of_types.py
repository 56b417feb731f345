"""Stages that read what elements of their job emit: each has a tree of its own, over the same events."""

from __future__ import annotations

import random
import re
from collections import Counter

import msgspec
import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import Make, ProgramFleet
from recording_client import client_of
from seeds import seeds

from agent import StreamOptions, SubmitRefused
from agent.parsing import Parsed
from elf.errors import UsageError
from elf.signing.creator import signed_bundle, stop_order
from overlay import Id
from query import QueryError

STREAMS = {"quotes": StreamOptions()}
WORDS = """
    import elf

    Quote = elf.source("SELECT text, n FROM quotes")

    @elf.event
    class Word:
        word: str

    @elf.event
    class Counted:
        word: str
        n: int

    class Split(elf.PE):
        keys = {Quote: None}

        def process_event(self, quote):
            for word in quote.text.split():
                self.emit(Word(word))

    class Count(elf.PE):
        keys = {Word: "word"}
        n: int = 0

        def process_event(self, event):
            self.n += 1
            self.emit(Counted(event.word, self.n))

    class Words(elf.Job):
        elements = [Split, Count]
        stages = {
            "heard": "SELECT word, COUNT(*) AS n FROM Word GROUP BY word WINDOWING 1 SECOND",
            "counts": "SELECT word, COUNT(*) AS n FROM Counted WHERE n > 0 GROUP BY word WINDOWING 1 SECOND",
            "twice": "SELECT word, SUM(n) AS n FROM app('heard') GROUP BY word WINDOWING 2 SECONDS",
        }
        query = "SELECT word, COUNT(*) AS n FROM Counted GROUP BY word WINDOWING 1 SECOND"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{window.stage or 'all'} {window.window_start[14:19]} {row['word']} {row['n']}")
"""
Event = tuple[float, str]
"""When (seconds), and which words."""


def put(fleet: ProgramFleet, number: int, events: list[Event]) -> None:
    """Quotations that an agent reads."""
    frame = pl.DataFrame(
        [(text, 1, WALL_MS + int(at * 1000)) for at, text in events],
        {"text": pl.String, "n": pl.Int64, "@time": pl.Int64},
        orient="row",
    )
    for feed in fleet.agents[number].ingest.feeds():
        fleet.give(fleet.agents[number], feed.key, Parsed((frame,), malformed=0))
    fleet.settle()


def play(fleet: ProgramFleet, events: dict[int, list[Event]], upto: int, begin: int = 6) -> None:
    """Agents read quotations, by their numbers, second by second, and what was to be counted is."""
    for second in range(begin, upto):
        for number in range(len(fleet.agents)):
            put(fleet, number, [event for event in events.get(number, []) if int(event[0]) == second])
        let_run(fleet, 1.0)
    put(fleet, 0, [(upto + 10.0, "")])
    let_run(fleet, 20.0)


def let_run(fleet: ProgramFleet, seconds: float) -> None:
    for _ in range(round(seconds / 0.1)):
        fleet.catch_up()
        fleet.wait(0.1)


def drawn(draw: random.Random, seconds: range) -> list[Event]:
    return [
        (second + draw.randrange(10) / 10, " ".join(draw.choices("abc", k=3))) for second in seconds for _ in range(5)
    ]


def plainly(events: list[Event]) -> set[str]:
    """What the job says of quotations, counted one by one."""
    heard = Counter((int(at), word) for at, text in events for word in text.split())
    lines, pairs = set(), Counter[tuple[int, str]]()
    for (second, word), n in sorted(heard.items()):
        pairs[second // 2 * 2, word] += n
        lines |= {f"{stage} 13:{20 + second} {word} {n}" for stage in ("heard", "counts", "all")}
    return lines | {f"twice 13:{20 + second} {word} {n}" for (second, word), n in pairs.items()}


def said(fleet: ProgramFleet, key: Id) -> list[str]:
    return [text for _, text in fleet.log(key)]


def begun(fleet: ProgramFleet, source: str = WORDS) -> Id:
    key = fleet.submit_code(source)
    fleet.wait_long(4.0)
    return key


def of_all(events: dict[int, list[Event]]) -> list[Event]:
    return [event for some in events.values() for event in some]


@pytest.mark.slow
def test_stages_over_two_types_and_one_over_another_stage_count_the_same_events_as_the_query(fleet_of: Make) -> None:
    fleet, draw = fleet_of(streams=STREAMS), random.Random(3)
    key = begun(fleet)
    events = {number: drawn(draw, range(6, 12)) for number in range(3)}
    play(fleet, events, 12)
    lines = said(fleet, key)
    assert len(lines) == len(set(lines))
    assert set(lines) == plainly(of_all(events))


@pytest.mark.parametrize("size", seeds(1, slow=[4]))
def test_agents_without_the_log_have_their_part_in_stages_too(fleet_of: Make, size: int) -> None:
    fleet, draw = fleet_of(size, bystanders=size - 1, streams=STREAMS), random.Random(4)
    key = begun(fleet)
    events = {0: drawn(draw, range(6, 10))}
    play(fleet, events, 10)
    assert set(said(fleet, key)) == plainly(of_all(events))


def test_an_agent_that_cannot_run_the_elements_does_not_hold_back_stages_of_them(fleet_of: Make) -> None:
    fleet = fleet_of(4, streams=STREAMS)
    fleet.without_programs.add("agent-3")
    source = WORDS.replace("elements = [Split, Count]", "elements = [Split]").replace("FROM Counted", "FROM Word")
    key = begun(fleet, source.replace("WHERE n > 0", ""))
    play(fleet, {0: [(6.5, "a b a")], 1: [(6.0, "b")]}, 7)
    counted = {line for line in said(fleet, key) if "13:26" in line}
    assert counted == {f"{stage} 13:26 {word} 2" for stage in ("all", "heard", "counts", "twice") for word in "ab"}


def test_keys_that_are_nearest_to_an_agent_without_the_program_are_counted_by_others(fleet_of: Make) -> None:
    fleet = fleet_of(4, streams=STREAMS)
    fleet.without_programs.add("agent-3")
    key = begun(fleet)
    words = [f"word-{number}" for number in range(40)]  # a quarter of them, or so, would be there
    play(fleet, {0: [(6.5, " ".join(words))], 1: [(6.0, " ".join(words))]}, 7)
    counted = {line for line in said(fleet, key) if line.startswith("all 13:26")}
    assert counted == {f"all 13:26 {word} 2" for word in words}


@pytest.mark.slow
def test_an_agent_that_is_drained_hands_in_what_it_has_emitted_for_stages(fleet_of: Make) -> None:
    fleet, draw = fleet_of(4, streams=STREAMS), random.Random(5)
    key = begun(fleet)
    before = {number: drawn(draw, range(6, 10)) for number in range(4)}
    for second in range(6, 10):
        for number in range(4):
            put(fleet, number, [event for event in before[number] if int(event[0]) == second])
        let_run(fleet, 1.0)
    masters = {one.master_name for one in fleet.agents[0].directory.all()}
    leaving = next(agent for agent in fleet.agents[1:] if agent.name not in masters)
    leaving.drain.begin(fleet.now)
    let_run(fleet, 5.0)
    assert leaving.drain.is_complete
    leaving.node.leave(fleet.now)
    fleet.agents.remove(leaving)
    after = {number: drawn(draw, range(20, 24)) for number in range(3)}
    play(fleet, after, 24, begin=20)
    assert set(said(fleet, key)) == plainly([*of_all(before), *of_all(after)])


def test_stages_over_types_end_with_their_job(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    begun(fleet)
    assert len(fleet.agents[0].directory.all()) == 4
    key, seal = stop_order(fleet.maria, "words", fleet.wall_ms)  # type: ignore[arg-type]
    client_of(fleet.agents[0]).stop(key, fleet.now, seal)
    fleet.wait_long(4.0)
    assert fleet.agents[0].directory.all() == []


def test_a_stage_that_is_added_while_the_job_runs_begins_with_its_next_window(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    _, contents = fleet.contents(WORDS)
    for name in ("words", "words.heard"):
        fleet.submit_bundle(name, *signed_bundle(fleet.maria, name, contents[name], fleet.wall_ms))  # type: ignore[arg-type]
        fleet.wait_long(4.0)
    key, bundle = signed_bundle(fleet.maria, "words.counts", contents["words.counts"], fleet.wall_ms)  # type: ignore[arg-type]
    fleet.submit_bundle("words.counts", key, bundle)
    fleet.wait_long(2.0)
    put(fleet, 1, [(fleet.now + 2, "a b a")])
    fleet.results.clear()
    let_run(fleet, 8.0)
    rows = [row for result in fleet.results for row in result.rows if result.app == "words.counts"]
    assert sorted((row["word"], row["n"]) for row in rows) == [("a", 2), ("b", 1)]


def test_nobody_else_reads_the_types_of_a_job(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    begun(fleet)
    _, contents = fleet.contents(WORDS)
    stage = contents["words.heard"]
    for part_of, reason in (("", "is a stage of none"),):
        made = signed_bundle(fleet.maria, "spy", msgspec.structs.replace(stage, part_of=part_of), fleet.wall_ms)  # type: ignore[arg-type]
        fleet.submit_bundle("spy", *made)
        (refused,) = [one for one in fleet.notices(0) if isinstance(one, SubmitRefused)]
        assert reason in refused.reason


@pytest.mark.parametrize(
    ("stages", "query", "says"),
    [
        ({"one": "SELECT COUNT(*) AS n FROM Word, quotes WINDOWING 1 SECOND"}, None, "reads Word, which elements"),
        ({"one": "SELECT COUNT(*) AS n FROM Word"}, None, "has no WINDOWING"),
        ({"one": "SELECT nothing FROM Word WINDOWING 1 SECOND"}, None, "nothing"),
        (
            {"one": "SELECT COUNT(*) AS n FROM Word KEYED BY word WINDOWING 1 SECOND"},
            None,
            "stage one: reads Word, which elements of the job emit, with KEYED BY",
        ),
        ({}, "SELECT COUNT(*) AS n FROM Counted KEYED BY word WINDOWING 1 SECOND", "with KEYED BY"),
        ({}, "SELECT COUNT(*) AS n FROM quotes WINDOWING 1 SECOND", "make it one of its stages"),
        (
            {"one": "SELECT COUNT(*) AS n FROM Word WINDOWING 1 SECOND"},
            "SELECT SUM(n) AS n FROM app('one') WINDOWING 1 SECOND",
            "make it one of its stages",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_does(fleet_of, stages, query, says):
    text = WORDS[: WORDS.index("stages = {")] + f"stages = {stages!r}\n"
    text += f"        query = {query or 'SELECT COUNT(*) AS n FROM Counted WINDOWING 1 SECOND'!r}\n"
    with pytest.raises((UsageError, QueryError), match=re.escape(says)):
        fleet_of(1, streams=STREAMS).contents(text)
