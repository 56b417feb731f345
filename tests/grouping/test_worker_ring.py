"""Keys' orders of workers: a worker more or less enters or leaves them and changes nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.grouping import HashRing

WORKERS = st.lists(st.binary(min_size=1, max_size=4), min_size=2, max_size=9, unique=True)
HASHES = st.integers(0, 2**64 - 1)


@given(WORKERS, HASHES, st.data())
def test_a_worker_leaves_each_order_and_changes_nothing_else(
    workers: list[bytes], key: int, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(workers))
    left = [worker for worker in workers if worker != gone]
    before = [workers[place] for place in HashRing(tuple(workers)).order(key, len(workers))]
    after = [left[place] for place in HashRing(tuple(left)).order(key, len(left))]
    assert sorted(before) == sorted(workers)
    assert after == [worker for worker in before if worker != gone]


@given(WORKERS, HASHES, st.integers(1, 9))
def test_workers_of_a_key_are_a_prefix_of_its_order(workers: list[bytes], key: int, count: int) -> None:
    few = HashRing(tuple(workers)).order(key, count)
    ring = HashRing(tuple(workers))
    everyone = ring.order(key, len(workers))
    assert few.tolist() == everyone[:count].tolist() == ring.order(key, count).tolist()
    first, second = ring.first_two(np.array([key], np.uint64))
    assert [first[0], second[0]] == everyone[:2].tolist()
    assert ring.first(np.array([key], np.uint64)) == first


def test_one_worker_is_first_and_second() -> None:
    first, second = HashRing((b"alone",)).first_two(np.array([0, 2**63, 2**64 - 1], np.uint64))
    assert first.tolist() == second.tolist() == [0, 0, 0]


def test_workers_have_like_parts_of_the_keys() -> None:
    hashes = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    parts = np.bincount(HashRing(tuple(b"%d" % number for number in range(128))).first(hashes)) / len(hashes) * 128
    assert 0.6 < parts.min() <= parts.max() < 1.4


def test_orders_of_many_keys_are_not_remembered_for_ever() -> None:
    ring = HashRing(tuple(b"%d" % number for number in range(64)))
    for key in np.random.default_rng(2).integers(0, 2**64, 9000, dtype=np.uint64):
        ring.order(int(key), 2)
    assert len(ring._orders) <= 4096
