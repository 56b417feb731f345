"""Jobs that drive themselves: no event is lost or counted twice, whenever it comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from memory_fleet import WALL_MS, events
from program_fleet import ProgramFleet

from agent import Agent
from agent.parsing import Parsed
from agent.programs import calls
from agent.runtime.ingest.self_paced import SelfPacedPipeline
from agent.runtime.model.panes import Counts, Run
from agent.runtime.reduce.straggler import HOLDBACK_S

BATCHES = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Update:
        pane: int

    class Batches(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product"
        drives = True
        timer_s = 2.0

        def on_timer(self):
            if self.is_root:
                self.multicast(Update(self.now_ms))

        def on_multicast(self, app, message):
            self.send_to(self.parent, self.cbt.flush(), message.pane)
            self.cbt.empty()
"""
MAPPED = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Update:
        pane: int

    class Lengths(elf.Job):
        reads = {"product": "string"}
        query = "SELECT length, COUNT(*) AS n, MAX(at) AS at FROM web GROUP BY length"
        drives = True
        timer_s = 2.0

        def on_timer(self):
            if self.is_root:
                self.multicast(Update(self.now_ms))

        def map(self, event):
            if event["product"]:
                return {"length": len(event["product"]), "at": event["@time"]}

        def on_multicast(self, app, message):
            self.cbt.insert({"length": 100})
            self.send_to(self.parent, self.cbt.flush(), message.pane)
            self.cbt.empty()
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProgramFleet]:
    made = ProgramFleet(tmp_path, 2)
    yield made
    made.close()


def rows(fleet: ProgramFleet) -> list[list[dict[str, object]]]:
    return [[dict(row) for row in result.rows] for result in fleet.results]


def test_what_is_read_between_a_flush_and_the_end_of_its_callback_is_in_the_next_batch(fleet: ProgramFleet) -> None:
    fleet.submit_code(BATCHES)
    fleet.insert(0, events("a", "a", at_ms=WALL_MS))
    said: list[str] = []

    def write(agent: Agent, frame: bytes) -> None:
        """A line comes after each thing that the first agent's program says in its first batch."""
        kind = type(calls.read_act(frame)).__name__
        if agent is fleet.agents[0] and len(said) < 4 and (said or kind == "FlushCall"):
            said.append(kind)
            fleet.insert(0, events("b", at_ms=WALL_MS))

    fleet.meanwhile = write
    fleet.wait_long(4.5)
    assert said == ["FlushCall", "SendCall", "EmptyCall", "CallbackReturned"]
    assert rows(fleet) == [[{"product": "a", "n": 2}], [{"product": "b", "n": 4}]]
    assert [result.events for result in fleet.results] == [2, 4]


def test_code_that_drives_itself_can_map_events_too(fleet: ProgramFleet) -> None:
    fleet.submit_code(MAPPED)
    for number in range(2):
        fleet.insert(number, events("a", "bb", None, "c", at_ms=WALL_MS + 5))
    fleet.wait_long(2.5)
    fleet.insert(0, events("ddd", at_ms=WALL_MS + 7))
    fleet.wait_long(2.0)
    own = {"length": 100, "n": 2, "at": None}
    first = [{"length": 1, "n": 4, "at": WALL_MS + 5}, {"length": 2, "n": 2, "at": WALL_MS + 5}, own]
    assert rows(fleet) == [first, [{"length": 3, "n": 1, "at": WALL_MS + 7}, own]]
    assert [result.contributors for result in fleet.results] == [2, 2]


@pytest.mark.parametrize("panes", [[], [0], [0, 1]])
def test_code_may_send_on_what_a_child_has_sent_whatever_was_counted_there(
    fleet: ProgramFleet, panes: list[int]
) -> None:
    """That counts events twice, which is its own affair: no agent ends of it."""
    key = fleet.submit_code(BATCHES + "\n        def on_recv(self, node, paos):\n            pass\n")
    part = next(part for agent in fleet.agents for part in agent.jobs if part.app_id == key and part.root)
    assert part.pipeline is not None
    assert part.versions is not None
    state = part.versions.newest.function.empty_state
    run = Run(WALL_MS, WALL_MS + 1, 2, state, {WALL_MS + pane: Counts(events=3) for pane in panes})
    part._show(7, run)
    ((_, token),) = part.paos.received()
    assert isinstance(part.pipeline, SelfPacedPipeline)
    assert part.pipeline.send(token, WALL_MS + 50, fleet.wall_ms) is None
    assert [run.counted[WALL_MS + 50].events for run in part.pipeline.after(WALL_MS)] == [3 * len(panes)]


@pytest.mark.parametrize("drives", [True, False])
def test_what_was_read_before_the_columns_were_wanted_is_not_mapped(fleet: ProgramFleet, drives: bool) -> None:
    """As where another job has been reading the stream: its last block comes without them."""
    windowed = MAPPED.replace("drives = True", "").replace("GROUP BY length", "GROUP BY length WINDOWING 1 SECOND")
    key = fleet.submit_code(MAPPED if drives else windowed.replace("timer_s = 2.0", ""))
    fleet.catch_up()
    before = Parsed((pl.DataFrame({"@time": [WALL_MS + 1200], "another": ["a"]}),), malformed=0)
    fleet.insert(0, before)
    fleet.settle()
    for number in range(2):
        fleet.insert(number, events("bb", at_ms=WALL_MS + 2200))
    fleet.wait_long(2.5)
    for number in range(2):
        fleet.insert(number, events("last", at_ms=WALL_MS + 9500))
    fleet.settle()
    fleet.work()
    # The master waits for what the first agent does not know of the window in which that was.
    fleet.wait_long(2 * HOLDBACK_S + 1)
    fleet.work()
    assert fleet.log(key) == []
    assert [row["n"] for row in rows(fleet)[0] if row["length"] == 2] == [2]
