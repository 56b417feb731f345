"""Groupings under changes, stopped workers, hostile reports and chosen keys."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from grouping_models import MODELS, assignment, zipf
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.grouping import WORKERS_MAX, Assignment, FishOptions, PublishedFish, Report, make_grouping
from agent.grouping.dealing import Queues, deal_many

NAMES = [name for name in MODELS if name != "published"]


def test_the_shortest_wait_is_chosen_not_the_fewest_events() -> None:
    """FISH, section 4.2.3."""
    everyone = np.arange(4, dtype=np.int16)[None, :]
    unprocessed, seconds = np.array([50.0, 40.0, 50.0, 30.0]), np.array([1.0, 1.0, 2.0, 2.0])
    going = np.zeros(4, bool)
    one, four = np.array([1]), np.array([4])
    assert deal_many(one, four, everyone, Queues(unprocessed * seconds, seconds, going), 4).tolist() == [1]
    assert deal_many(one, four, everyone, Queues(unprocessed.copy(), np.ones(4), going), 4).tolist() == [3]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), min_size=1, max_size=6),
    st.lists(st.floats(0, 50), min_size=6, max_size=6),
    st.lists(st.sampled_from([0.25, 1.0, 3.0]), min_size=6, max_size=6) | st.just([1.0] * 6),
)
def test_each_key_goes_where_waits_are_least(
    keys: list[tuple[int, int]], waits: list[float], slots: list[float]
) -> None:
    """Keys that choose alone, one after the other: no event waits longer than it would at another worker of its key; of
    workers that are unequally fast, than it would there behind one event more."""
    counts, parts = np.array(keys).T
    orders = np.array([np.roll(np.arange(6, dtype=np.int16), number) for number in range(len(keys))])
    queues = Queues(np.array(waits), np.array(slots), np.zeros(6, bool))
    dealt = deal_many(counts, parts, orders, queues, 1)
    assert len(dealt) == counts.sum()
    final = np.array(waits) + np.bincount(dealt, minlength=6) * np.array(slots)
    assert queues.waits == pytest.approx(final)
    ends = np.cumsum(counts)
    last = int(np.argsort(parts, kind="stable")[-1])
    mine = dealt[ends[last] - counts[last] : ends[last]]
    own = set(orders[last, : parts[last]].tolist())
    assert set(mine.tolist()) <= own
    for worker in set(mine.tolist()):
        spare = 0.0 if len(set(slots)) == 1 else 1.0
        assert final[worker] - slots[worker] <= min(final[other] + spare * slots[other] for other in own) + 1e-6


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(data=st.data())
def test_each_event_has_a_worker_that_is_there(name: str, data: st.DataObject) -> None:
    workers, now = data.draw(st.integers(1, 9)), 0.0
    grouping = make_grouping(name, assignment(workers), data.draw(st.integers(0, 40)))
    for counter in range(2, data.draw(st.integers(3, 7))):
        hashes = zipf(data.draw(st.integers(0, 300)), 50, 1.0, counter)
        now += data.draw(st.floats(0, 20))
        places = grouping.assign(hashes, now)
        assert places.dtype == np.int16
        assert len(places) == len(hashes)
        assert all(0 <= place < workers for place in places)
        for place in set(places.tolist()):
            grouping.heard(Report(place, data.draw(st.floats()), data.draw(st.floats())), now)
        workers = data.draw(st.integers(1, 9))
        grouping.change(assignment(workers, counter), now)
        grouping.exclude(data.draw(st.lists(st.sampled_from(grouping.assignment.workers))))


@pytest.mark.parametrize("told", [(1e307, 1.0), (1e300, 1e-300), (5e-324, 1.0), (1.0, 5e-324), (1e13, 0.5)])
def test_times_and_shares_that_cannot_be_are_refused_whoever_tells_them_first(told: tuple[float, float]) -> None:
    grouping = make_grouping("fish", assignment(4), 0)
    grouping.assign(zipf(1000, 50, 1.0, 1), 0.0)
    for _ in range(3):
        grouping.heard(Report(1, *told), 1.0)
    assert grouping.refused_reports == 3
    assert np.isfinite(grouping.waits).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_later_assignment_keeps_all_others_and_a_stale_one_is_refused(name: str) -> None:
    grouping = make_grouping(name, assignment(5), 0)
    grouping.assign(zipf(4000, 200, 1.2, 1), 1.0)
    hot, sent, waits = grouping.hot_keys(), grouping.sent, grouping.waits
    grouping.change(assignment(6, 2), 1.0)
    for stale in (assignment(4, 2), assignment(4, 1), Assignment(0, 9, (b"other",))):
        grouping.change(stale, 1.0)
    assert grouping.refused_assignments == 3
    assert len(grouping.assignment.workers) == 6
    assert grouping.sent.tolist() == [*sent, sent.min()]
    assert grouping.waits.tolist() == pytest.approx([*waits, waits.min()], nan_ok=True)
    assert set(hot.hashes[:3].tolist()) <= set(grouping.hot_keys().hashes.tolist()) or not len(hot.hashes)


def test_a_new_worker_takes_keys_and_moves_no_other() -> None:
    keys = np.random.default_rng(4).integers(0, 2**64, 2000, dtype=np.uint64)
    few, more = (make_grouping("fields", assignment(workers), 0).assign(keys, 0.0) for workers in (8, 9))
    assert (few == more)[more != 8].all()
    assert 0.05 < (more == 8).mean() < 0.2


@pytest.mark.parametrize("name", NAMES)
def test_stopped_workers_keep_their_own_keys_and_get_no_events_of_split_ones(name: str) -> None:
    grouping = make_grouping(name, assignment(6), 0)
    split = zipf(3000, 1, 1.0, 5)
    grouping.assign(split, 0.0)
    grouping.exclude([b"worker 2", b"worker 3"])
    places = grouping.assign(np.concatenate((split, zipf(300, 300, 0.0, 6))), 0.0)
    if name not in ("fields", "pkg"):
        assert not {2, 3} & set(places[:3000].tolist())
    if name != "shuffle":
        assert {2, 3} & set(places[3000:].tolist())
    grouping.exclude(grouping.assignment.workers)
    assert len(grouping.assign(split, 0.0)) == 3000


@pytest.mark.parametrize(
    "report",
    [(0, -1.0, 0.5), (0, nan, 0.5), (0, inf, 0.5), (0, 0.0, 0.5), (0, 1.0, nan), (0, 1.0, -0.1), (0, 1.0, 1.5),
     (9, 1.0, 0.5), (-1, 1.0, 0.5), (b"nobody", 1.0, 0.5), (b"idle", 1.0, 0.5)],
)  # fmt: skip
def test_reports_that_cannot_be_are_refused(report: tuple[int | bytes, float, float]) -> None:
    grouping = make_grouping("fish", Assignment(1, 1, (b"busy", b"idle")), 0)
    grouping.assign(np.array([0], np.uint64), 0.0)
    busy = int(grouping.sent.argmax())
    worker = busy if report[0] == 0 else grouping.assignment.workers[1 - busy] if report[0] == b"idle" else report[0]
    before = grouping.waits
    grouping.heard(Report(worker, *report[1:]), 0.0)
    assert grouping.refused_reports == 1
    assert grouping.waits.tolist() == before.tolist()


def test_reports_far_from_the_median_are_clamped() -> None:
    grouping = make_grouping("fish", assignment(4), 0)
    grouping.assign(zipf(4000, 1000, 0.0, 1), 0.0)
    for place in range(3):
        grouping.heard(Report(place, 1.0, 0.25), 0.0)
    waits = grouping.waits
    grouping.heard(Report(b"worker 3", 1e9, 0.25), 0.0)
    assert grouping.refused_reports == 1
    assert grouping.waits[3] == pytest.approx(16 * waits[3])


def test_a_slow_worker_gets_fewer_events() -> None:
    grouping = make_grouping("fish", assignment(4), 0)
    hashes = zipf(8000, 20, 0.5, 2)
    for start in range(0, 8000, 100):
        grouping.assign(hashes[start : start + 100], start / 4)
        for place in np.flatnonzero(grouping.sent):
            grouping.heard(Report(int(place), 4.0 if place == 0 else 1.0, 1.0), start / 4)
    assert grouping.sent[0] < 0.5 * grouping.sent[1:].min()


@pytest.mark.parametrize("name", ["fish", "published"])
def test_swapped_keys_are_hot_within_two_epochs(name: str) -> None:
    workers = assignment(16)
    grouping = PublishedFish(workers, 0) if name == "published" else make_grouping(name, workers, 0)
    hashes = zipf(20_000, 500, 1.2, 7)
    grouping.assign(hashes, 0.0)
    before = set(grouping.hot_keys().hashes[:5].tolist())
    grouping.assign(~hashes[:2000], 1.0)
    assert {~np.uint64(key) for key in before} <= set(grouping.hot_keys().hashes.tolist())
    assert not before & set(grouping.hot_keys().hashes[:5].tolist())
    assert grouping.hot_keys().split_keys >= 5
    assert grouping.hot_keys().mean_parts > 1


@pytest.mark.parametrize("name", NAMES)
def test_chosen_keys_grow_no_table(name: str) -> None:
    grouping = make_grouping(name, assignment(8), 0)
    hashes = np.random.default_rng(3).integers(0, 2**64, 60_000, dtype=np.uint64)

    def bytes_held() -> int:
        held = [
            value for owner in (grouping, *vars(grouping).values()) for value in getattr(owner, "__dict__", {}).values()
        ]
        return sum(value.nbytes for value in held if isinstance(value, np.ndarray))

    grouping.assign(hashes[:30_000], 0.0)
    before = bytes_held()
    grouping.assign(hashes[30_000:], 0.0)
    assert bytes_held() == before


def test_options_change_who_is_hot() -> None:
    hashes = zipf(5000, 300, 1.0, 8)
    hot = []
    for divisor in (0.5, 8.0):
        grouping = PublishedFish(assignment(16), 0, FishOptions(divisor=divisor))
        grouping.assign(hashes, 0.0)
        hot.append(len(grouping.hot_keys().hashes))
    assert hot[0] < hot[1]


@pytest.mark.parametrize("workers", [(), (b"twice", b"twice"), tuple(b"%d" % n for n in range(WORKERS_MAX + 1))])
def test_assignments_have_some_workers_each_once(workers: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match=r"workers|once"):
        Assignment(1, 1, workers)


def test_unknown_groupings_are_named() -> None:
    with pytest.raises(ValueError, match="no grouping random: groupings are fish, shuffle"):
        make_grouping("random", assignment(2), 0)


def test_a_thousand_workers_are_dealt_to() -> None:
    grouping = make_grouping("fish", assignment(WORKERS_MAX), 0)
    places = grouping.assign(zipf(20_000, 10_000, 1.2, 9), 0.0)
    assert len(np.unique(places)) > 900
    assert grouping.sent.max() < 12 * grouping.sent.mean()
