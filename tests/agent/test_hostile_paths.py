"""Whatever a child says of how long its run has taken, results come, and tell times that can be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_hostile_snapshots import Root, counted

from agent.control.observation.latency_view import described_latency
from agent.runtime.master.results.latency_meter import LatencyMeter, paths_of
from agent.runtime.messages.jobs import CODEC
from agent.runtime.messages.views.latency import LatencyView
from agent.runtime.model.fields import AMOUNT_MAX
from agent.runtime.model.latency.critical_path import AT_SOURCE, LEVELS_MAX, MICROS_MAX
from agent.runtime.model.latency.part_meter import SLOWEST_MAX
from agent.runtime.model.panes import FIRST_PANE

SQL = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND WITHIN 2 SECONDS"
MICROS = st.one_of(st.integers(0, 5_000_000), st.sampled_from((0, 1, MICROS_MAX)))
NUMBERS = st.one_of(st.sampled_from((0, 1, 2, 65535)), MICROS)
PATHS = st.builds(
    lambda agent, micros: [agent, *micros], NUMBERS, st.lists(MICROS, max_size=len(AT_SOURCE) + 2 * LEVELS_MAX)
)
SLOWEST = st.lists(
    st.tuples(st.integers(0, 65535), st.integers(0, AMOUNT_MAX), st.integers(0, AMOUNT_MAX)), max_size=SLOWEST_MAX
)


class Measured(Root):
    """A master that measures how long its results take; its own agent's part of the first pane is there."""

    def __init__(self) -> None:
        super().__init__(SQL)
        self.clock = self.part.nodes.clock
        self.meter = LatencyMeter(self.master, "root", self.clock)
        self.part.opened(self.feed.key, 0)
        self.operators.end_of_feed(self.feed.key, 50.0, 5_000)
        self.operators.work_next(50.0)
        self.clock.tell(50.0, 5_000.0)

    def lines(self) -> list[dict[str, object]]:
        """The results that are published now."""
        found = []
        for run in self.part.nodes.complete_runs():
            results = self.master.publish(run)
            paths = paths_of(run.path, run.upto, 1000, results)
            made = self.meter.made(results.items(), paths)
            json_lines = [(position, result.to_bytes(1 << 20)) for position, result in results.items()]
            found += [json.loads(line) for _, line in self.meter.published(made, json_lines)]
        return found

    def view(self) -> LatencyView:
        """What it tells of its results, as others get it."""
        told = CODEC.decode(CODEC.encode(self.meter.view(self.part.nodes.parts.statistics(), ())))
        assert isinstance(told, LatencyView)
        return told


def first_line(**fields: object) -> tuple[Measured, dict[str, object]]:
    root = Measured()
    assert root.says(after=FIRST_PANE, upto=0, counted=counted(0, events=5), **fields) == 0
    (line,) = root.lines()
    assert line["events"] == 6
    return root, line


@pytest.mark.fuzz
@given(PATHS, st.binary(max_size=100), SLOWEST)
def test_no_path_harms_a_result(path: list[int], parts: bytes, slowest: list[tuple[int, int, int]]) -> None:
    root, line = first_line(path=path, parts=parts, slowest=slowest)
    found = described_latency(root.view())
    is_measured = len(path) > len(AT_SOURCE) and path[0] == 1
    assert found.results == is_measured
    assert ("latency_ms" in line) == is_measured
    if is_measured:
        assert (line["within_ms"], line["latency_ms"], line["met"]) == (2_000, 4_000.0, False)
        assert str(line["slowest"]).endswith((", child", ", root"))
        assert {one.agent for one in found.agents} <= {"child", "root"}
    assert all(0 <= milliseconds <= MICROS_MAX / 1000 for milliseconds in found.last.values())


@pytest.mark.parametrize("agent", [0, 2, 63, 65535, MICROS_MAX])
def test_nobody_answers_for_an_agent_that_is_not_in_the_run(agent: int) -> None:
    root, line = first_line(path=[agent, *[1_000_000] * len(AT_SOURCE)])
    assert "latency_ms" not in line
    assert root.view().last_parts == []


def test_who_was_last_is_named() -> None:
    root, line = first_line(path=[1, *[1_000_000] * (len(AT_SOURCE) - 1), 3_000_000])
    assert line["slowest"] == "seal, child"
    assert root.view().last_parts == [("child", 1)]


def test_agents_that_are_not_on_the_roster_are_not_among_the_slowest() -> None:
    parts = [(7, 1, AMOUNT_MAX), (1, 2, 4_000_000), (0, 1, 1_000_000), (65535, 1, 1)]
    root = Measured()
    root.says(after=FIRST_PANE, upto=0, parts=b"\0\0\0", slowest=parts)
    assert [(one.agent, one.parts, one.spent_us) for one in root.view().slowest] == [
        ("child", 2, 4_000_000), ("root", 1, 1_000_000),
    ]  # fmt: skip
