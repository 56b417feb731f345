"""What masters publish, as lines of a log: each result with what it takes to compute it again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from memory_fleet import COUNT, WALL_MS, Fleet, events

import query
from agent.runtime.master import state as master
from agent.runtime.master.results import result_archive as result_records
from agent.runtime.master.results.result_archive import ResultRecord


def running(size: int = 3, text: str = COUNT, **options: Any) -> tuple[Fleet, list[ResultRecord]]:
    """A fleet with a live job, whose masters record what they publish."""
    fleet, records = Fleet(size), list[ResultRecord]()
    for agent in fleet.agents:
        agent.masters.record = records.append
    fleet.wait(0.5)
    fleet.submit(text, **({"bounded": False, "grace_ms": 0} | options))
    fleet.catch_up()
    return fleet, records


def say(fleet: Fleet, second: int, *products: str) -> None:
    """Each agent sees these, and then the next second begins."""
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=WALL_MS + 1000 * second))
        fleet.insert(number, events(at_ms=WALL_MS + 1000 * (second + 1)))
    fleet.wait(1.0)
    fleet.catch_up()


def read(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


def test_a_line_is_the_result_with_its_job_and_its_roster() -> None:
    fleet, records = running()
    for second in range(1, 5):
        say(fleet, second, "a", "b")
    assert len(records) == len(fleet.results) >= 2
    for record, result in zip(records, fleet.results, strict=True):
        line, (version, roster) = read(record.line), map(read, record.context)
        assert {name: line[name] for name in read(result.to_bytes())} == read(result.to_bytes())
        assert (line["kind"], version["kind"], roster["kind"]) == ("result", "version", "roster")
        assert line["app_id"] == version["app_id"]
        assert line["born_ms"] == version["born_ms"] > 0
        assert line["roster"] == roster["roster"]
        assert roster["agents"] == ["agent-0", "agent-1", "agent-2"]
        assert (version["app"], version["version"], version["text"]) == ("shop", 1, COUNT)
        assert (version["has_code"], version["drives"], version["maps"]) == (False, False, False)
    one = next(one for agent in fleet.agents for one in agent.masters.held.values())
    plan = one.state.versions.newest.function.plan
    assert query.Plan.from_wire(read(records[0].context[0])["plan"]) == plan


def test_jobs_over_what_logs_hold_are_not_recorded() -> None:
    fleet, records = running(bounded=True)
    fleet.insert(0, events("a", at_ms=0))
    assert fleet.finish()
    assert records == []


def test_all_names_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "NAMES_MAX", 1)
    monkeypatch.setattr(result_records, "NAMES_MAX", 1)
    fleet, records = running()
    for second in range(1, 3):
        say(fleet, second, "a")
    silent = [agent for agent in fleet.agents if not agent.masters.held]
    fleet.agents = [agent for agent in fleet.agents if agent.masters.held]
    for agent in silent:
        fleet.network.remove(agent.node)
    for second in range(3, 60):
        say(fleet, second, "a")
    last = read(records[-1].line)
    assert len(last["missing"]) == 1
    assert last["all_missing"] == sorted(agent.name for agent in silent)


def test_of_a_large_result_there_are_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_records, "ROWS_BYTES_MAX", 600)
    fleet, records = running()
    for second in range(1, 4):
        say(fleet, second, *[f"product {number}" for number in range(100)])
    line = read(records[0].line)
    assert 0 < len(line["rows"]) < 100
    assert line["rows_cut"] == 100 - len(line["rows"])
    assert line["rows"] == [dict(row) for row in fleet.results[0].rows][: len(line["rows"])]


def test_the_next_master_records_what_the_one_before_has_said_last() -> None:
    fleet, records = running(size=5)
    for second in range(1, 5):
        say(fleet, second, "a")
    before = [read(record.line)["window_start"] for record in records]
    old = next(agent for agent in fleet.agents if agent.masters.held)
    fleet.agents.remove(old)
    fleet.network.remove(old.node)
    records.clear()
    for second in range(5, 60):
        say(fleet, second, "a")
    lines = [read(record.line) for record in records]
    epochs = {line["epoch"]: [one["window_start"] for one in lines if one["epoch"] == line["epoch"]] for line in lines}
    assert epochs[1] == before
    assert before[-1] < epochs[2][0]
    assert all("roster" not in line for line in lines if line["epoch"] == 1)
    assert {read(record.context[0])["text"] for record in records} == {COUNT}
