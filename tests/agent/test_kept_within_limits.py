"""What agents keep, at its limit, one beyond it, and at ten times as much."""

from __future__ import annotations

import polars as pl
import pytest

from agent.parsing.known_fields import COLUMNS_MAX, KnownFields
from agent.runtime.ingest.panes import pane_log
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.master.results import result_log
from agent.runtime.master.results.job_log import JobLog
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.messages.programs import LOG_LINES_MAX, Line
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.incomplete import Publication
from agent.runtime.model.panes import Run
from agent.runtime.reduce import snapshot
from agent.runtime.reduce.snapshot import EarlySnapshots
from overlay import Id

APP = Id(7)
BEYOND = [0, 1, 9 * 10]
"""How many more than ten there are."""


def early(number: int) -> Snapshot:
    return Snapshot(APP, JobEpoch(0, 1, APP), 1, number, number + 1, b"\1", b"x" * 100, [])


@pytest.mark.parametrize("more", BEYOND)
def test_early_snapshots_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(snapshot, "EARLY_BYTES_MAX", 10 * early(0).size)
    held = EarlySnapshots()
    taken = [held.hold(1, early(number)) for number in range(10 + more)]
    assert taken == [True] * 10 + [False] * more
    assert len(held.take()) == 10
    assert held.hold(1, early(0)), "there is room again"


def run(pane: int) -> Run:
    return Run(pane - 1, pane, 1, pl.DataFrame({"pane": [pane] * 100}))


@pytest.mark.parametrize("more", BEYOND)
def test_the_oldest_published_panes_go_first(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    size = int(run(0).state.estimated_size())
    monkeypatch.setattr(pane_log, "RETAINED_BYTES_MAX", 10 * size)
    kept = PaneLog()
    for pane in range(10 + more):
        kept.append(run(pane))
        kept.commit(Publication(pane), retention_pane=-1)
    assert [one.upto for one in kept.after(-1)] == list(range(more, 10 + more))
    assert kept.memory_bytes <= 10 * size


@pytest.mark.parametrize("more", BEYOND)
def test_the_oldest_results_go_first(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(result_log, "BYTES_MAX", 1_000)
    log = ResultLog((pane, b"x" * 100) for pane in range(10 + more))
    assert [pane for pane, _ in log] == list(range(more, 10 + more))
    assert (log.lost >= 0) == (more > 0), "what is gone is said"
    log.append(1_000, b"x" * 10_000)
    assert [pane for pane, _ in log] == [1_000], "the newest stays whatever its size"


def test_of_a_stage_more_results_are_kept_and_given_whole() -> None:
    most = result_log.STAGE_RESULTS_MAX
    log = ResultLog(((pane, b"x") for pane in range(most + 2)), is_of_stage=True)
    log.append(most + 2, large := b"x" * (result_log.GIVEN_RESULT_BYTES_MAX + 1))
    assert [pane for pane, _ in log] == list(range(3, most + 3))
    assert log.to_give(most) == [(most + 1, b"x"), (most + 2, large)]


def test_packed_results_are_the_same_and_go_in_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_log, "BYTES_MAX", 1_000)
    results = [(pane, f"{pane}".encode() * 50) for pane in range(10)]
    published, replicated = ResultLog(results[:8]), ResultLog(results)
    packed = published.pack()
    replicated.pack(packed)
    assert list(replicated) == results
    assert replicated.to_give(3) == replicated.last_results(6) == list(replicated.after(3)) == results[4:]
    assert list(published) == results[:8]
    assert published.pack() == packed, "nothing is packed twice"
    replicated.append(10, b"x" * 600)
    assert list(replicated) == [*results[2:], (10, b"x" * 600)], "sizes are those of the results"


@pytest.mark.parametrize("more", BEYOND)
def test_the_oldest_lines_of_a_log_are_left_out_and_counted(more: int) -> None:
    log = JobLog()
    for number in range(LOG_LINES_MAX + more):
        log.add([Line(0, "a", str(number))])
    answer = log.answer(APP, "shop", LOG_LINES_MAX)
    assert [line.text for line in answer.lines] == [str(number) for number in range(more, LOG_LINES_MAX + more)]
    assert answer.dropped == more


@pytest.mark.parametrize("more", [0, 1, 9 * COLUMNS_MAX])
def test_so_many_fields_of_json_lines_are_columns(more: int) -> None:
    fields = KnownFields()
    fields.learn([{f"f{number}": number for number in range(COLUMNS_MAX + more)}])
    assert fields.columns == [(f"f{number}",) for number in range(COLUMNS_MAX)]
    assert fields.is_complete == (more == 0)
