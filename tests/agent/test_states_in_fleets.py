"""Stages that merge states go on as they do with rows when their master dies, and when a job is updated."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import polars as pl
import pytest
from memory_fleet import WALL_MS
from program_fleet import ProgramFleet
from recording_client import client_of
from seeds import seeds
from stage_reading import feed, reading

from agent import StreamOptions, Update

STREAMS = {"buys": StreamOptions("beginning")}
AGENTS, SECONDS = 6, 24
CODE = """
import elf

class Nested(elf.Job):
    stages = {{
        "first":
            "SELECT product, stars, COUNT(*) AS n, MAX(stars) AS m FROM buys GROUP BY product, stars "
            "WINDOWING 1 SECONDS",
        "second": "SELECT product, SUM(n) AS n, MAX(m) AS m FROM app('first') GROUP BY product {second}",
    }}
    query = "SELECT {last} FROM app('second') GROUP BY product {windows}"
"""
SECOND, LAST, WINDOWS = (
    "WINDOWING 2 SECONDS EVERY 1 SECONDS",
    "product, SUM(n) AS n, MAX(m) AS m",
    "WINDOWING 8 SECONDS",
)


def shown(
    directory: Path, seed: int, *, dies_at: int | None, new: str | None, as_json: bool
) -> tuple[dict[object, bytes], int]:
    """The rows of each window of the job and its stages, and the number of those that were read as states. `dies_at`:
    the second of the log at which their master does; `new`: the code from half of it on."""
    with reading(as_json=as_json, dice=random.Random(seed), share=0.8):
        fleet = ProgramFleet(directory, AGENTS, streams=STREAMS)
        try:
            key = fleet.submit_code(CODE.format(second=SECOND, last=LAST, windows=WINDOWS))
            fleet.wait_long(4.0)
            taken = 0
            for second in range(0, SECONDS, 2):
                if second == dies_at:
                    taken += states_taken(fleet)
                    fleet.network.remove(fleet.agents.pop(master(fleet, key)).node)
                    fleet.wait_long(25.0)
                if new is not None and second == SECONDS // 2:
                    update(fleet, key, new)
                for agent in fleet.agents:
                    feed(fleet, agent, log_of(seed, agent.name, second))
                fleet.wait(0.5)
            for agent in fleet.agents:
                feed(fleet, agent, pl.DataFrame({"@time": [WALL_MS + 60_000], "product": ["z"], "stars": [0]}))
            fleet.wait_long(10.0)
            found: dict[object, bytes] = {}
            for one in fleet.results:
                place = (one.app, one.window_start, one.window_end)
                assert place not in found, f"twice: {place}"
                told = msgspec.json.decode(one.to_bytes())
                found[place] = msgspec.json.encode((told["rows"], told["events"], told["late"], told["version"]))
            return found, taken + states_taken(fleet)
        finally:
            fleet.close()


def log_of(seed: int, agent: str, second: int) -> pl.DataFrame:
    """The events of an agent in two seconds, in the order of time."""
    dice = random.Random(f"{seed} {agent} {second}")
    times = sorted(dice.randrange(2000) for _ in range(8))
    rows = [(WALL_MS + 4000 + second * 1000 + at, dice.choice("abcd"), dice.randrange(5)) for at in times]
    return pl.DataFrame(rows, {"@time": pl.Int64, "product": pl.String, "stars": pl.Int64}, orient="row")


def master(fleet: ProgramFleet, key: int) -> int:
    return next(number for number, agent in enumerate(fleet.agents) if agent.masters.state(key) is not None)


def states_taken(fleet: ProgramFleet) -> int:
    return sum(agent.upstream.statistics()["rows_as_states"] for agent in fleet.agents)


def update(fleet: ProgramFleet, key: int, code: str) -> None:
    state = next(found for agent in fleet.agents if (found := agent.masters.state(key)) is not None)
    before = state.versions.newest.version.bundle
    assert before is not None
    _, _, bundle = fleet.bundle(code, after=(1, before.digest(key)))
    function = bundle.contents.functions[0]
    message = Update(key, function.plan, function.text, False, 0, bundle)
    client_of(fleet.agents[0]).update(message, fleet.now, fleet.wall_ms)
    fleet.settle()
    fleet.wait_long(3.0)


UPDATES = {
    "other windows": CODE.format(second=SECOND, last=LAST, windows="WINDOWING 4 SECONDS EVERY 2 SECONDS"),
    "what does not nest": CODE.format(second=SECOND, last="product, AVG(n) AS n, MAX(m) AS m", windows=WINDOWS),
    "another order": CODE.format(second=SECOND, last="product, MAX(m) AS m, SUM(n) AS n", windows=WINDOWS),
}


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 8)))
def test_a_take_over_loses_nothing_of_what_was_taken_as_states(tmp_path: Path, seed: int) -> None:
    dies_at = random.Random(seed).choice(range(6, 18, 2))
    (expected, none), (found, taken) = (
        shown(tmp_path / str(as_json), seed, dies_at=dies_at, new=None, as_json=as_json) for as_json in (True, False)
    )
    assert found == expected
    assert (none, taken > 100) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "new"), seeds((1, "other windows"), (2, "what does not nest"), slow=[(3, "another order")])
)
def test_an_update_goes_on_with_what_was_taken_as_states(tmp_path: Path, seed: int, new: str) -> None:
    (expected, _), (found, taken) = (
        shown(tmp_path / str(as_json), seed, dies_at=None, new=UPDATES[new], as_json=as_json)
        for as_json in (True, False)
    )
    assert found == expected
    assert {version for *_, version in map(msgspec.json.decode, found.values())} == {1, 2}
    assert taken > 100
