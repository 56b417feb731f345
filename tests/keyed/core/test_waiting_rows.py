"""Elements that answer at once take rows together under load, and at once where little comes; programs take together
what comes within a moment; rows at an agent that is not the host of their node wait or go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from fleet_of_elements import APP, Fleet, graph_of, type_
from fleet_of_elements import element as counted

import cbt
from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import Emitted
from agent.runtime.keyed.hosting.host import PARKED_S
from agent.runtime.keyed.hosting.slot import MERGED_ROWS_MAX, PROGRAM_REST_S, REST_S, ElementSlot
from agent.runtime.messages.elements import ElementRows
from query import Schema, analyze, parse

HIT = EventType("Hit", [("key", "string")])
PLAN = analyze(parse("SELECT key, COUNT(*) AS n FROM Hit GROUP BY key"), {"Hit": Schema({"key": "string"}, open=False)})
COUNT = Element("Counted", "aggregate", [ElementInput("Hit", ["key"])], "Counted", options={"plan": PLAN.to_wire()})
ROWS = 8192


def counting_slot(sizes: list[int]) -> ElementSlot:
    """A count whose emissions tell how many rows it was given at once."""

    def note(_slot: ElementSlot, emitted: list[Emitted], _type: str) -> None:
        sizes.extend(one.rows.height for one in emitted)

    return ElementSlot(0, declared.runtime_of(COUNT, {"Hit": HIT}, None), lambda: True, note)


def hits(count: int) -> pl.DataFrame:
    zeros = pl.Series("@time", [0] * count, dtype=pl.Int64)
    node = zeros.cast(pl.UInt16).alias("@node")
    return pl.DataFrame([zeros, zeros.alias("@source"), zeros.alias("@seq"), node, zeros.cast(pl.String).alias("key")])


def test_many_rows_are_taken_at_once_and_those_that_follow_together() -> None:
    sizes: list[int] = []
    slot = counting_slot(sizes)
    for number in range(20):
        slot.rows("Hit", hits(ROWS))
        slot.run(number / 1000)
    assert sizes == [ROWS, MERGED_ROWS_MAX, MERGED_ROWS_MAX]
    due = slot.rests_until
    assert due is not None
    assert due <= 0.02 + REST_S
    slot.run(due)
    assert sum(sizes) == 20 * ROWS
    assert slot.is_idle
    assert slot.rests_until is None


def test_few_rows_do_not_wait() -> None:
    sizes: list[int] = []
    slot = counting_slot(sizes)
    for number in range(20):
        slot.rows("Hit", hits(10))
        slot.run(number / 1000)
    assert sizes == [10] * 20


def test_a_cut_waits_for_nothing() -> None:
    sizes: list[int] = []
    slot = counting_slot(sizes)
    cuts: list[object] = []
    for _ in range(2):
        slot.rows("Hit", hits(ROWS))
        slot.run(0.0)
    slot.cut(cuts.append)
    slot.run(0.0)
    assert (sizes, len(cuts)) == ([ROWS, ROWS], 1)


class Program:
    """A runtime that answers when it is told to. `calls`: the rows of each call, or the time."""

    def __init__(self) -> None:
        self.calls: list[int | str] = []
        self._answers: list[Callable[[list[Emitted]], None]] = []

    def process(self, _type: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:
        self.calls.append(rows.height)
        self._answers.append(done)

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        self.calls.append(f"time {watermark_ms}")
        self._answers.append(done)

    def answer(self) -> None:
        while self._answers:
            self._answers.pop(0)([])


def test_batches_that_come_within_a_moment_are_one_call_of_a_program() -> None:
    program: Any = Program()
    slot = ElementSlot(0, program, lambda: True, lambda *_: None)
    for number in range(8):
        slot.rows("Hit", hits(10))
        slot.run(number / 1000)
        program.answer()
    assert program.calls == [10]
    due = slot.rests_until
    assert due == PROGRAM_REST_S
    slot.run(due)
    assert program.calls == [10, 70]
    program.answer()
    slot.run(1.0)
    assert slot.is_idle


def test_rows_for_a_program_do_not_wait_where_time_comes_after_them() -> None:
    program: Any = Program()
    slot = ElementSlot(0, program, lambda: True, lambda *_: None)
    for _ in range(3):
        slot.rows("Hit", hits(10))
        slot.run(0.0)
        program.answer()
    slot.advance(1000)
    slot.run(0.0)
    assert program.calls == [10, 20, "time 1000"]


def test_rows_at_an_agent_that_is_not_the_host_go_on_one_by_one_and_those_that_nobody_takes_are_named() -> None:
    fleet = Fleet(graph_of([type_("S", guaranteed=False)], [counted("Count", ("S", ["a"]))], ["S"]), 2)
    here, there = fleet.agents.values()
    fleet.insert(here, "S", [(f"k{number}", "x", 1) for number in range(40)])
    fleet.settle()
    keys = {key: node for key, (node, *_) in there.runtimes["Count"].state.items()}
    waits, goes_on = next((a, b) for a in keys for b in keys if keys[a] != keys[b])
    here.job._emitter.host_of[keys[waits]] = here.job._emitter.index_of(here.me)
    layout = here.job._layout.by_name["S"]
    columns = {
        "@time": [1] * 2,
        "@source": [-7] * 2,
        "@seq": [1, 2],
        "a": [waits, goes_on],
        "b": ["x"] * 2,
        "v": [1, 1],
    }
    data = cbt.encode_frame(layout.numbered(pl.DataFrame(columns)))
    here.job.handle(ElementRows(APP, layout.place, 1 << 60, 0, 0, data), there.me, fleet.now)
    fleet.run(2)
    counts = fleet.states("Count")
    assert (counts[goes_on][0], counts[waits][0]) == (2, 1)
    assert here.job.statistics()["lost_rows"] == 0
    fleet.run(PARKED_S, 0.5)
    assert here.job.lost_nodes() == {keys[waits]}
    assert (here.job.statistics()["lost_rows"], here.job.statistics()["lost"]) == (1, 1)
