"""Dry runs over the last lines of logs: what they find, what they doubt, and how little they take."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from measured_work import OF_WORK, ticking

import query as ql
from agent.access.decision import Access
from agent.access.rules import AccessRole, AccessRule
from agent.calibration import dry_run
from agent.calibration.dry_run import LOGS_MAX, DryRunResult, NoDryRunError, run_dry
from agent.calibration.log_times import CLOCK_MS, STANDSTILL_MS, LogTimes, all_times, log_times
from agent.configuration.config import StreamConfig
from agent.control.latency.dry_runs import WAITING_MAX, DryRunAnswers, DryRunClocks
from agent.control.latency.samples import clipped, late_share
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.requests.events import DryRunAsked
from agent.sources.file.source import FileSource
from overlay import Id, Peer
from query.latency import PhaseStatistics

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
SQL = "SELECT path, COUNT(*) AS n FROM web WHERE status = 200 GROUP BY path WINDOWING 1 SECOND"
Rows = Iterable[tuple[int, str, int]]


def planned(text: str) -> ql.Plan:
    return ql.analyze(ql.parse(text), {"web": ql.Schema({}, open=True)})


def written(path: Path, rows: Rows) -> str:
    lines = "".join(json.dumps({"time": time, "path": name, "status": code}) + "\n" for time, name, code in rows)
    path.write_text(lines)
    os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    return lines


def stream_of(folder: Path, kind: str = "auto") -> StreamConfig:
    return StreamConfig("web", FileSource((str(folder / "*"),)), kind, None, "end")


def rows_of(number: int, paths: int = 50, step_ms: int = 10) -> Rows:
    """A line each 10 ms up to now, half of which the query takes."""
    for one in range(number):
        yield NOW_MS - (number - one) * step_ms, f"/{one // 2 % paths}", 200 + 300 * (one % 2)


def dry(folder: Path, text: str = SQL, step: float = 1e-4, wall_ms: int = NOW_MS) -> DryRunResult:
    return run_dry(planned(text), [stream_of(folder)], None, ticking(step), ticking(step), wall_ms)


def times_of(folder: Path, wall_ms: int, written_ms: int | None = None) -> LogTimes:
    times = np.array([json.loads(line)["time"] for line in (folder / "a.log").read_text().splitlines()], np.int64)
    return log_times(times, wall_ms, wall_ms if written_ms is None else written_ms, wall_ms, 1_000)


def test_lines_groups_and_costs_are_found(tmp_path: Path) -> None:
    written(tmp_path / "a.log", rows_of(4_000))
    found = dry(tmp_path)
    assert found.lines == 4_000
    assert found.costs.keys() == set(OF_WORK)
    assert all(cost.pieces >= 2 for cost in found.costs.values())
    assert found.groups.groups(2_000) == pytest.approx(50, rel=0.3)
    assert found.group_bytes > 0


def test_groups_grow_by_heaps_law(tmp_path: Path) -> None:
    written(tmp_path / "a.log", rows_of(6_000, paths=10_000))
    assert dry(tmp_path).groups.exponent == pytest.approx(1.0, abs=0.05), "each path is another one"


def test_time_is_bounded(tmp_path: Path) -> None:
    written(tmp_path / "a.log", rows_of(6_000))
    assert 0 < dry(tmp_path, step=0.2).lines < 6_000


def test_on_the_slowest_machine_some_costs_are_found(tmp_path: Path) -> None:
    written(tmp_path / "a.log", rows_of(6_000))
    found = dry(tmp_path, step=30.0)
    assert 0 < found.lines < 6_000
    assert found.costs.keys() == set(OF_WORK)
    assert all(cost.pieces for cost in found.costs.values())


def test_only_whole_lines_of_plain_logs_are_run(tmp_path: Path) -> None:
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(b'{"time": 1, "path": "/"}\n' * 1_000))
    lines = written(tmp_path / "a.log", rows_of(300))
    (tmp_path / "a.log").write_text(lines + '{"time": 17000')
    (tmp_path / "b.log").write_bytes(b"\xff\x00 no event\n" * 20)
    found = dry(tmp_path)
    assert 300 <= found.lines <= 320


def test_of_a_long_log_its_end_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = written(tmp_path / "a.log", rows_of(4_000))
    monkeypatch.setattr(dry_run, "TAIL_BYTES", len(lines) // 4 + 10)
    found = dry(tmp_path)
    assert found.lines == 1_000
    assert found.times.rate == pytest.approx(100, rel=0.02)


def test_of_many_logs_those_are_run_that_were_written_last(tmp_path: Path) -> None:
    for number in range(LOGS_MAX + 4):
        log = tmp_path / f"{number}.log"
        written(log, rows_of(300 + number))
        os.utime(log, (NOW_MS / 1000 - number, NOW_MS / 1000 - number))
    assert dry(tmp_path).lines == sum(300 + number for number in range(LOGS_MAX))


@pytest.mark.parametrize("content", [b"", b"no event\n" * 5, b'{"path": "/a"}'])
def test_logs_that_say_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.log").write_bytes(content)
    found = dry(tmp_path)
    assert (found.times.rate, found.times.doubt) == (0.0, "few lines")
    assert not any(cost.pieces > 0 for cost in found.costs.values())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) FROM web", "windows"),
        ("SELECT SUM(n) AS n FROM app('shop') WINDOWING 1 SECOND", "other jobs"),
        ("SELECT COUNT(*) FROM web KEYED BY path WINDOWING 1 SECOND", "keyed"),
    ],
)
def test_queries_that_need_more_than_their_log_are_not_run(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(NoDryRunError, match=why):
        dry(tmp_path, text)


def test_the_rate_is_that_of_the_times(tmp_path: Path) -> None:
    written(tmp_path / "a.log", [(1, "/", 200), *rows_of(1_000), (NOW_MS + 10 * HOUR_MS, "/", 200)])
    found = times_of(tmp_path, NOW_MS)
    assert found.doubt == ""
    assert found.rate == pytest.approx(100, rel=0.02), "whatever two lines say"


@pytest.mark.parametrize(
    ("wall_ms", "written_ms", "doubt"),
    [
        (NOW_MS + 2 * STANDSTILL_MS, NOW_MS, "standstill"),
        (NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, "clock"),
        (NOW_MS + HOUR_MS, NOW_MS + HOUR_MS, "clock"),
        (NOW_MS + CLOCK_MS // 2, NOW_MS + CLOCK_MS // 2, ""),
    ],
)
def test_a_rate_that_cannot_be_believed_is_none(tmp_path: Path, wall_ms: int, written_ms: int, doubt: str) -> None:
    written(tmp_path / "a.log", rows_of(1_000))
    found = times_of(tmp_path, wall_ms, written_ms)
    assert found.doubt == doubt
    assert (found.rate > 0) == (doubt == "")


def test_lines_without_times_have_no_rate(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"path": "/a", "status": 200}\n' * 1_000)
    found = dry(tmp_path)
    assert (found.times.rate, found.times.doubt) == (0.0, "no times")
    assert found.lines == 1_000, "but its work is known"


@pytest.mark.parametrize(("logs", "doubt"), [(LOGS_MAX, ""), (LOGS_MAX + 1, "more logs")])
def test_logs_that_are_not_read_are_told_of(tmp_path: Path, logs: int, doubt: str) -> None:
    for number in range(logs):
        written(tmp_path / f"{number}.log", rows_of(300))
    times = dry(tmp_path, step=1e-6).times
    assert times.doubt == doubt
    assert times.rate == pytest.approx(100 * LOGS_MAX, rel=0.05)


def test_a_slow_log_does_not_stand_still() -> None:
    times = np.arange(500, dtype=np.int64) * 60_000 + NOW_MS - 500 * 60_000
    found = log_times(times, NOW_MS, NOW_MS - 70_000, NOW_MS, 1_000)
    assert found.doubt == ""
    assert found.rate == pytest.approx(1 / 60, rel=0.01)


def test_rates_of_logs_add_up_and_one_wrong_clock_makes_all_doubtful() -> None:
    good, still, wrong = (
        LogTimes(*one, PhaseStatistics()) for one in ((10.0, ""), (0.0, "standstill"), (0.0, "clock"))
    )
    assert all_times([good, still, good]).rate == 20.0
    assert all_times([good, wrong]) == LogTimes(0.0, "clock", PhaseStatistics())
    assert all_times([still]).doubt == "standstill"
    assert all_times([]).doubt == "few lines"


@given(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=60),
    st.integers(1, 1_000),
    st.sampled_from([0, 10, 125, 500, 3_000]),
)
def test_the_late_share_is_no_less_than_that_of_events_behind_their_panes(
    steps: list[int], pane_ms: int, grace_ms: int
) -> None:
    times = np.array(steps, np.int64) + NOW_MS
    found = log_times(times, NOW_MS, NOW_MS, NOW_MS, pane_ms)
    newest, late = times[0], 0
    for time in times:
        end = (time // pane_ms + 1) * pane_ms
        late += bool(newest - end > grace_ms)
        newest = max(newest, time)
    share = late_share(found.late, grace_ms / 1000)
    assert share is not None
    assert share >= late / len(times)
    assert late_share(found.late, 10.0) == 0.0
    assert found.late == PhaseStatistics.from_bytes(found.late.to_bytes()), "and it travels as it is"


class Fleet:
    """The core and the driver of an agent as far as answers need them, until there are so many of these."""

    name = "web-1"

    def __init__(self, wanted: int) -> None:
        self.discovery, self.wanted = self, wanted
        self.given: list[DryRunView] = []
        self.has_all = trio.Event()

    def do(self, act: Callable[[float], None]) -> None:
        act(0.0)

    def give_dry_run(self, _asked: DryRunAsked, view: DryRunView, _now: float) -> None:
        self.given.append(view)
        if len(self.given) == self.wanted:
            self.has_all.set()


def answered(folder: Path, plan: dict[str, Any], owner: str = "ann@web-2", questions: int = 1) -> list[DryRunView]:
    """The answers of an agent with one log to a question that is asked so many times at once."""
    rules = (AccessRule(AccessRole.QUERY, creators=("maria",), streams=("web",)),)
    clocks = DryRunClocks(ticking(1e-4), ticking(1e-4), lambda: NOW_MS)

    async def asked() -> list[DryRunView]:
        fleet: Any = Fleet(min(questions, WAITING_MAX))
        answers = DryRunAnswers(fleet, fleet, Access("web-1", rules), lambda: [stream_of(folder)], lambda: None, clocks)
        for _ in range(questions):
            answers.ask(DryRunAsked(Peer(Id(1), "a:1"), DryRun(FLEET_GROUP, 7, plan, owner)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answers.run)
            await fleet.has_all.wait()
            nursery.cancel_scope.cancel()
        found: list[DryRunView] = fleet.given
        return found

    return trio.run(asked)


def test_an_agent_answers_what_it_has_found(tmp_path: Path) -> None:
    written(tmp_path / "a.log", rows_of(2_000))
    views = answered(tmp_path, planned(SQL).to_wire(), questions=WAITING_MAX + 3)
    assert len(views) == WAITING_MAX, "who asks for more at once gets nothing"
    view = views[0]
    assert (view.question, view.agent, view.refusal, view.lines) == (7, "web-1", "", 2_000)
    assert view.rate == pytest.approx(100, rel=0.02)
    sample, count = clipped(view)
    assert count == 0
    assert sample.costs.keys() == set(OF_WORK)


@pytest.mark.parametrize(
    ("owner", "is_refused"), [("maria/" + "0" * 32, False), ("tom/" + "0" * 32, True), ("tom@web-2", False)]
)
def test_creators_need_the_right_at_every_agent(tmp_path: Path, owner: str, is_refused: bool) -> None:
    written(tmp_path / "a.log", rows_of(300))
    (view,) = answered(tmp_path, planned(SQL).to_wire(), owner)
    assert ("needs the right query" in view.refusal) == is_refused
    assert (view.lines == 0) == is_refused


@pytest.mark.parametrize("plan", [{}, {"version": 99}, {"stream": 7, "version": 1}])
def test_a_plan_that_is_none_is_refused(tmp_path: Path, plan: dict[str, Any]) -> None:
    (view,) = answered(tmp_path, plan)
    assert view.refusal
