"""Rehearsed stages: which rows groupings are given, when, and when these are done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agent.grouping import Assignment, Grouping, Report
from elf.rehearsal.comparison import grouping_maker
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.in_flight import serve_in_flight
from elf.rehearsal.key_stream import Hashes
from elf.rehearsal.plant import SERVICE_S, Crew, Plant, Relief, worker_names
from elf.rehearsal.queues import Floats, Places
from elf.rehearsal.stage import REPORTED_ROWS

ROWS = 6_000


class Recording(Grouping):
    """Deals in turn, and keeps what it is given."""

    name = "recording"

    def __init__(self, assignment: Assignment, source: int, rows: list[tuple[int, Hashes, float]]) -> None:
        super().__init__(assignment, source)
        self.rows = rows
        self.reports: list[tuple[Report, float]] = []
        self._next = source

    @property
    def waits(self) -> Floats:
        return np.zeros(len(self.assignment.workers))

    def assign(self, hashes: Hashes, now: float) -> Places:
        self.rows.append((self.source, hashes.copy(), now))
        return super().assign(hashes, now)

    def heard(self, report: Report, now: float) -> None:
        self.reports.append((report, now))

    def _assign(self, hashes: Hashes) -> Places:
        self._next += len(hashes)
        return (np.arange(self._next - len(hashes), self._next) % len(self.assignment.workers)).astype(np.int16)


class Recorded:
    """The groupings of a run, and what they were given in order."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Hashes, float]] = []
        self.groupings: list[Recording] = []

    def __call__(self, assignment: Assignment, source: int) -> Recording:
        self.groupings.append(Recording(assignment, source, self.rows))
        return self.groupings[-1]

    def of(self, source: int) -> list[int]:
        """The rows that a source was given, by their hashes."""
        return [one for given, hashes, _ in self.rows if given == source for one in hashes.tolist()]


def numbers(rows: int = ROWS) -> Hashes:
    return np.arange(rows, dtype=np.uint64)


@pytest.mark.parametrize("sources", [1, 3, 32])
@pytest.mark.parametrize("rows", [1, 100, ROWS])
def test_events_are_dealt_to_sources_in_turn_and_routed_once_in_blocks(sources: int, rows: int) -> None:
    recorded, plant = Recorded(), Plant.even(4, sources, block_rows=50)
    served = serve_at_full_load(numbers(rows), plant, recorded)
    assert [recorded.of(source) for source in range(sources)] == [
        list(range(source, rows, sources)) for source in range(sources)
    ]
    assert max(len(hashes) for _, hashes, _ in recorded.rows) <= 50
    assert all(now == pytest.approx(int(hashes[0]) * SERVICE_S / 4) for _, hashes, now in recorded.rows)
    assert np.bincount(served.servers, minlength=4).sum() == rows
    assert (served.finished_s >= served.arrivals_s + SERVICE_S * 0.999).all()


def test_an_even_deal_takes_the_time_of_its_rows_and_one_key_that_of_one_worker() -> None:
    plant = Plant.even(8, 4)
    even = serve_at_full_load(numbers(), plant, grouping_maker("shuffle"))
    alone = serve_at_full_load(np.zeros(ROWS, np.uint64), plant, grouping_maker("fields"))
    assert even.makespan_s == pytest.approx(ROWS / 8 * SERVICE_S, rel=0.01)
    assert alone.makespan_s == pytest.approx(ROWS * SERVICE_S)
    assert alone.entries(np.zeros(ROWS, np.int32)) == 1


def test_routing_delays_rows_by_what_it_costs() -> None:
    free, charged = (
        serve_at_full_load(numbers(), Plant.even(8, 4, routing_s), grouping_maker("shuffle")) for routing_s in (0, 1e-5)
    )
    assert np.allclose(charged.finished_s - free.finished_s, 1e-5, atol=1e-9)
    slow = serve_at_full_load(numbers(), Plant.even(8, 4, SERVICE_S), grouping_maker("shuffle"))
    assert slow.makespan_s == pytest.approx(ROWS / 4 * SERVICE_S, rel=0.01)


def test_workers_tell_sources_their_speed_and_the_share_of_their_rows() -> None:
    recorded = Recorded()
    speeds_s = np.array([SERVICE_S, SERVICE_S / 2])
    plant = Plant(4, Crew.of(worker_names(2)), speeds_s)
    serve_at_full_load(numbers(), plant, recorded)
    for grouping in recorded.groupings:
        assert {report.worker for report, _ in grouping.reports} == {0, 1}
        for report, _ in grouping.reports:
            assert report.seconds == speeds_s[int(report.worker)]
            assert report.share == pytest.approx(1 / 4, abs=0.1)
    times = [now for report, now in recorded.groupings[0].reports if report.worker == 0]
    rows_between = np.diff([0.0, *times]) * plant.full_load
    assert (rows_between >= REPORTED_ROWS * 4 * 2 - 1).all()
    assert len(times) > 1
    recorded = Recorded()
    plant = Plant(4, Crew.of(worker_names(2)), speeds_s, told_s=np.full(2, 7.0))
    serve_at_full_load(numbers(), plant, recorded)
    assert {report.seconds for report, _ in recorded.groupings[0].reports} == {7.0}


@pytest.mark.parametrize("row", [1, 2_999, ROWS - 1])
def test_rows_go_to_the_crew_of_their_time_and_each_is_routed_once(row: int) -> None:
    recorded = Recorded()
    crew = Crew(Assignment(1, 2, worker_names(3, "newcomer")), np.array([4, 2, 5], np.int16))
    plant = Plant(32, Crew.of(worker_names(4)), np.full(6, SERVICE_S), reliefs=(Relief(row, crew),))
    served = serve_at_full_load(numbers(), plant, recorded)
    assert set(served.servers[:row].tolist()) <= {0, 1, 2, 3}
    assert set(served.servers[row:].tolist()) <= {4, 2, 5}
    assert all(recorded.of(source) == list(range(source, ROWS, 32)) for source in range(32))


@pytest.mark.parametrize(("workers", "sources", "in_flight"), [(4, 3, 5), (16, 4, 25), (1, 1, 1), (2, 8, 2)])
def test_no_source_has_more_rows_in_flight_than_its_part(workers: int, sources: int, in_flight: int) -> None:
    recorded = Recorded()
    hashes = numbers(1_000)
    served = serve_in_flight(hashes, Plant.even(workers, sources), recorded, in_flight)
    window = max(1, workers * in_flight // sources)
    for source in range(sources):
        assert recorded.of(source) == hashes[source::sources].tolist()
        came, done = served.arrivals_s[source::sources], np.sort(served.finished_s[source::sources])
        assert (np.diff(came) >= 0).all()
        before = np.arange(len(came))
        assert (before - np.searchsorted(done, came, side="right") < window).all()


def test_few_rows_in_flight_keep_an_even_deal_busy_and_wait_for_one_hot_worker() -> None:
    plant = Plant.even(16, 4)
    even = serve_in_flight(numbers(), plant, grouping_maker("shuffle"), 25)
    hot = serve_in_flight(np.zeros(ROWS, np.uint64), plant, grouping_maker("fields"), 25)
    assert even.makespan_s == pytest.approx(ROWS / 16 * SERVICE_S, rel=0.02)
    assert hot.makespan_s == pytest.approx(ROWS * SERVICE_S, rel=0.02)


def test_a_run_is_the_same_each_time() -> None:
    hashes = np.random.default_rng(7).zipf(1.5, ROWS).astype(np.uint64)
    plant = replace(Plant.even(16, 4), routing_s=1e-6)

    def servers() -> list[int]:
        return serve_at_full_load(hashes, plant, grouping_maker("fish")).servers.tolist()

    assert servers() == servers()
