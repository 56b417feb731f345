"""The demo of latency in parts: what it makes of results and of a master's statistics."""

from __future__ import annotations

import io

from rich.console import Console

from agent.control.observation.latency_entries import DurationEntry, JobLatency
from elf.demo.latency.latency_board import LatencyBoard, SeenResult, claims


def durations(what: str, mean_ms: float) -> DurationEntry:
    return DurationEntry(what, 100, mean_ms, mean_ms, mean_ms)


def statistics(sum_ms: float, latency_ms: float, deliver_ms: float) -> JobLatency:
    phases = [durations("seal", sum_ms - 50), durations("commit", 50), durations("deliver", deliver_ms)]
    total, skew = durations("", latency_ms), durations("", abs(latency_ms - sum_ms))
    return JobLatency(
        "top", "web-1", "SELECT 1", 500, 99.0, 100, 99, 1, total, skew, phases, [], [], latency_ms, {"seal": 150.0}
    )


def results(late: int, way_ms: float) -> list[SeenResult]:
    soon = [SeenResult(200, is_met=True, seen_ms=200 + way_ms)] * (100 - late)
    return soon + [SeenResult(800, is_met=False, seen_ms=800 + way_ms, slowest="seal, web-3")] * late


def test_results_in_time_that_came_soon_and_are_accounted_for_are_right() -> None:
    found = claims(results(late=1, way_ms=12.0), statistics(200.0, 201.5, deliver_ms=3.0), 99.0)
    assert [one.is_right for one in found] == [True, True, True]
    assert found[0].text == "99 of 100 results were in time: 99.0 % (99 % asked for)"
    assert "12.0 ms after the time that they tell, at p50 (12.0 at p99); 3.0 ms of that are deliver" in found[1].text
    assert "phases sum up to 200.0 ms, and they took 201.5 ms" in found[2].text


def test_each_claim_fails_by_itself() -> None:
    fine = statistics(200.0, 201.0, deliver_ms=3.0)
    assert [one.is_right for one in claims(results(2, 5.0), fine, 99.0)] == [False, True, True]
    assert [one.is_right for one in claims(results(0, 13.5), fine, 99.0)] == [True, False, True]
    unlike = statistics(200.0, 203.0, deliver_ms=3.0)
    assert [one.is_right for one in claims(results(0, 5.0), unlike, 99.0)] == [True, True, False]


def test_one_result_is_judged_as_well() -> None:
    assert claims(results(0, 5.0)[:1], statistics(200.0, 201.0, 3.0), 99.0)[0].is_right


def test_the_picture_has_every_phase_and_the_share_in_time() -> None:
    board = LatencyBoard(60.0, elapsed_s=12.0, requests=7_000, results=results(1, 5.0))
    console = Console(file=io.StringIO(), width=100)
    console.print(board.render())
    board.found = statistics(200.0, 201.0, 3.0)
    console.print(board.render())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "no result has been out yet" in shown
    assert all(word in shown for word in ("00:12 of 01:00", "7,000 requests", "met 99.0 %", "seal", "deliver", "skew"))
    assert board.progress() == "99 of 100 results were in time; the last one took 800 ms, mostly seal, web-3"
