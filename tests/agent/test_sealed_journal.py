"""The journal of sealed runs, whatever the disk does: each run leaves once, in order and soon, and what the disk has of
a job has no gap."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.durable.journal import RETRY_S, STORE_S, NoDisk, SealedJournal
from agent.runtime.durable.records import Chain, SealedAt, SealedRun
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import SELF, Run

NOTHING = pl.DataFrame({"pane": []}, schema={"pane": pl.Int64})


class Disk(NoDisk):
    """Is there."""

    keeps_sealed = True


class Owner:
    """The worker of one job. `left` and `on_disk`: panes, in the order of the calls; `committed` is needed no more."""

    def __init__(self, number: int) -> None:
        self.term = JobTerm(number, 1)
        self.sealed: list[int] = []
        self.at: dict[int, float] = {}
        self.left: list[int] = []
        self.on_disk: list[int] = []
        self.committed = 0

    def release(self, sealed: SealedRun) -> None:
        self.left.append(sealed.run.upto)

    def kept(self, sealed: SealedRun) -> None:
        self.on_disk.append(sealed.run.upto)

    def seal(self, journal: SealedJournal, now: float) -> None:
        upto = len(self.sealed) + 1
        self.sealed.append(upto)
        self.at[upto] = now
        journal.seal(SealedRun(Chain(self.term, 1), b"", Run(upto - 1, upto, SELF, NOTHING), SealedAt()), self)


def never(job: object, error: BaseException) -> None:
    raise AssertionError(job) from error


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1), st.floats(0.0, 1.5)), max_size=60)


@given(STEPS)
def test_each_run_leaves_once_in_order_and_the_disk_has_no_gaps(steps: list[tuple[int, int, float]]) -> None:
    journal, owners, now, given_ = (
        SealedJournal(Disk(), JobContainment(never, lambda: 0.0)),
        [Owner(0), Owner(1)],
        0.0,
        0,
    )
    for kind, number, pause_s in steps:
        owner = owners[number]
        now += pause_s
        if kind <= 2:
            owner.seal(journal, now)
        elif kind == 3 and not given_:
            given_ = len(journal.take())
        elif kind in (4, 5) and given_:
            count, given_ = given_, 0
            journal.stored(count, now, are_kept=kind == 4)
        elif kind == 6 and owner.left:
            owner.committed = owner.left[-1] - 1
            journal.free(owner.term, owner.committed)
        journal.tick(now)
        for one in owners:
            assert one.left == one.sealed[: len(one.left)]
            assert all(now - one.at[upto] < STORE_S + 1.5 for upto in one.sealed[len(one.left) :])
            assert one.on_disk == sorted(set(one.on_disk))
            gaps = set(range(1, max(one.on_disk, default=0))) - set(one.on_disk)
            assert all(upto <= one.committed for upto in gaps), "what the disk lacks in between is published"
    for _ in range(3):
        now += RETRY_S
        journal.tick(now)
        journal.stored(given_ + len(journal.take()), now, are_kept=True)
        given_ = 0
    for one in owners:
        assert one.left == one.sealed
        assert one.on_disk[-1:] == one.sealed[-1:] or one.committed >= one.sealed[-1], (
            "a disk that is well again has all"
        )
    assert journal.is_empty


def test_where_one_run_has_waited_too_long_those_behind_it_leave_as_well() -> None:
    journal, owner = SealedJournal(Disk(), JobContainment(never, lambda: 0.0)), Owner(0)
    owner.seal(journal, 0.0)
    journal.tick(0.0)
    journal.take()
    owner.seal(journal, 1.9)
    journal.tick(1.9)
    assert owner.left == []
    journal.tick(STORE_S)
    assert owner.left == [1, 2]
    owner.seal(journal, 2.1)
    assert owner.left == [1, 2, 3]
    assert journal.statistics() == {"kept": 0, "unkept": 3}
    journal.stored(1, 2.2, are_kept=True)
    owner.seal(journal, 2.3)
    assert owner.left == [1, 2, 3], "the disk answers again"
