"""Panes of older versions in runs of the version in force: cut, merged, sent and stored with them, counted once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_combiner import add_up, run_of

import query
from agent.daemon.sealed_groups import KeptRuns, Loaded, SealedGroup, group_of
from agent.runtime.durable.feed_memory import Resumption
from agent.runtime.durable.records import Chain, SealedAt, SealedRun
from agent.runtime.durable.restoring import SealedPast, identity_of
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Beside, FunctionCache, Versions
from agent.runtime.messages.jobs import CODEC, Snapshot, Submit
from agent.runtime.messages.versions import Version
from agent.runtime.model.epoch import JobEpoch, JobTerm
from agent.runtime.model.panes import END, FIRST_PANE, SELF, Counts, OldPanes, Run
from agent.runtime.reduce.combiner import Combiner
from agent.runtime.reduce.snapshot import run_of as decoded
from agent.runtime.reduce.snapshot import snapshot_of
from overlay import Id

APP = Id(7)
EPOCH = JobEpoch(1, 1, Id(1))
SECOND = 1000
FIELDS = ("WINDOWING 8 SECONDS EVERY 2 SECONDS", "WINDOWING 3 SECONDS", "WINDOWING 1 SECOND", "WINDOWING 20 SECONDS")
OLD_FIELDS = ("WINDOWING 8 SECONDS EVERY 2 SECONDS", "WINDOWING 9 SECONDS EVERY 3 SECONDS")


def plan_of(windowing: str, shown: str = "") -> dict[str, Any]:
    text = f"SELECT product, COUNT(*) AS n FROM web {shown} GROUP BY product {windowing}"
    return query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}).to_wire()


def versions_of(*windowings: tuple[str, str], starts: tuple[int, ...], finishes: str = "own") -> Versions:
    """Versions one after the other, which begin at these times."""
    plans = [plan_of(windowing, shown) for windowing, shown in windowings]
    job = Submit(APP, "one", "web", plans[0], "", bounded=False)
    found = [Version(1, FIRST_PANE, FIRST_PANE, plans[0], "")]
    for number, (plan, start) in enumerate(zip(plans[1:], starts, strict=True), 2):
        before = query.Plan.from_wire(plans[number - 2]).pane_ms
        assert before is not None
        found.append(Version(number, (start - 1) // before * before, start, plan, "", None, finishes))  # type: ignore[arg-type]
    return Versions(found, job, FunctionCache())


def old_of(run: Run, beside: Beside, contributors: int, counts: dict[int, int]) -> OldPanes:
    """What goes with a run of an old version that has counted so much in its panes."""
    after, upto = beside.frontier(run.after), beside.frontier(run.upto)
    inside = {pane: n for pane, n in counts.items() if after < pane <= upto}
    schema = {"pane": pl.Int64, "n": pl.Int64}
    state = pl.DataFrame({"pane": list(inside), "n": list(inside.values())}, schema=schema)
    carrier_ms = beside.main.function.pane_ms
    assert carrier_ms is not None
    counted = {pane: Counts(n) for pane, n in inside.items()}
    return OldPanes(run.after, run.upto, beside.number, beside.pane_ms, carrier_ms, state, counted, contributors)


@given(
    st.sampled_from([2, 3, 4]),
    st.sampled_from([1, 2, 6]),
    st.integers(0, 2**16),
    st.lists(st.integers(1, 40), max_size=4),
)
def test_cuts_part_old_panes_as_they_end(old_s: int, new_s: int, bits: int, cuts: list[int]) -> None:
    """Each goes with the pane that contains its last instant, however a run is cut."""
    panes = {pane * old_s: 1 + (bits >> pane & 1) for pane in range(1, 12)}
    state = pl.DataFrame({"pane": list(panes), "n": list(panes.values())})
    whole = OldPanes(-1, 60, 1, old_s, new_s, state, {pane: Counts(n) for pane, n in panes.items()}, SELF)
    bounds = [-1, *sorted(set(cuts)), 60]
    parts = [whole.within(after, upto) for after, upto in pairwise(bounds)]
    seen = [pane for part in parts for pane in part.state["pane"]]
    assert seen == list(panes)
    for part in parts:
        assert list(part.counted) == list(part.state["pane"])
        assert all(part.after < (pane + old_s - 1) // new_s * new_s <= part.upto for pane in part.counted)
        assert part.is_sound(SELF)


@given(
    st.lists(st.tuples(st.sets(st.integers(4, 15), max_size=4), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 2**16),
    st.data(),
)
def test_old_panes_of_many_agents_count_once(
    agents: list[tuple[set[int], bool]], bits: int, data: st.DataObject
) -> None:
    """Whoever has them, and however runs are cut and come: sums and contributors are those of a simple count."""
    versions = versions_of((FIELDS[0], ""), (FIELDS[2], "WHERE product = 'a'"), starts=(4 * SECOND,))
    (beside,) = versions.beside(END)
    combiner = Combiner(lambda states, upto, _number=1: add_up(states, upto))
    expected, members, queue = Counter[int](), dict[int, int](), list[tuple[int, Run]]()
    for number, (cuts, has_old) in enumerate(agents):
        combiner.add_source(number)
        counts = {pane * 2 * SECOND: 1 + (bits >> (pane + number) & 3) for pane in range(2, 8)}
        ends = [3 * SECOND + 999, *sorted(cut * SECOND for cut in cuts), 15 * SECOND]
        for after, upto in pairwise(sorted(set(ends))):
            run = run_of(after, upto, 1 << number, {})
            old = old_of(run, beside, 1 << number, counts)
            queue.append((number, run.with_before([old]) if has_old else run))
        for pane, n in counts.items() if has_old else ():
            if pane <= beside.frontier(15 * SECOND):
                expected[pane] += n
                members[pane] = members.get(pane, 0) | 1 << number
    order = data.draw(st.permutations(range(len(agents))))
    out = list[Run]()
    for source in order:
        for number, run in queue:
            if number == source:
                combiner.add(number, run)
                out += combiner.ready()
    found, seen = Counter[int](), dict[int, int]()
    for run in out:
        assert run.is_sound(SECOND)
        for old in run.before:
            for pane, n in old.state.select("pane", "n").iter_rows():
                found[pane] += n
                seen[pane] = old.contributors
                assert old.counted[pane].events == n
    assert (found, seen) == (expected, members)


def test_an_old_version_needs_its_panes_until_its_last_window_is_out() -> None:
    versions = versions_of((FIELDS[0], ""), (FIELDS[2], "WHERE product = 'a'"), starts=(20 * SECOND,))
    (beside,) = versions.beside(END)
    assert (beside.old.upto, beside.upto) == (18 * SECOND, 24 * SECOND)
    assert beside.frontier(20 * SECOND) == 18 * SECOND
    assert beside.frontier(21 * SECOND) == 20 * SECOND
    assert versions.retention_pane(21 * SECOND) == 16 * SECOND - 1
    assert not versions.forget(24 * SECOND)
    assert versions.retention_pane(25 * SECOND) == 25 * SECOND
    assert versions.forget(25 * SECOND)
    assert [one.version.number for one in versions] == [2]


@pytest.mark.parametrize("finishes", ["", "own", "same"])
def test_versions_go_on_as_their_successor_says(finishes: str) -> None:
    versions = versions_of((FIELDS[0], ""), (FIELDS[0], ""), starts=(20 * SECOND,), finishes=finishes)
    found = [(one.number, one.is_carried) for one in versions.beside(END)]
    assert found == {"": [], "own": [(1, True)], "same": [(1, False)]}[finishes]


@given(st.sampled_from(OLD_FIELDS), st.sampled_from(FIELDS), st.integers(1, 90), st.data())
def test_old_panes_are_reached_one_after_the_other(old: str, new: str, at: int, data: st.DataObject) -> None:
    """Frontiers of old panes never go back, reach the last one, and say what is over."""
    versions = versions_of((old, ""), (new, "WHERE product = 'a'"), starts=(at * SECOND,))
    for beside in versions.beside(END):
        pane_ms = beside.main.function.pane_ms
        assert pane_ms is not None
        instants = sorted(data.draw(st.lists(st.integers(0, 130 * SECOND), max_size=9)))
        reached = [beside.frontier(instant) for instant in instants]
        assert reached == sorted(reached)
        for instant, pane in zip(instants, reached, strict=True):
            if instant > beside.main.after:
                over_ms = max(instant // pane_ms * pane_ms + pane_ms, beside.begun_ms + 1)
                assert pane + beside.pane_ms <= over_ms
        assert beside.frontier(200 * SECOND) == beside.upto


def sealed_run(versions: Versions, beside: Beside) -> Run:
    """A run of the newest version with a pane, and an old pane that goes with it."""
    function, old = versions.newest.function, beside.old.function
    layout, old_layout = function.layout, old.layout
    assert layout is not None
    assert old_layout is not None
    state, old_state = (store.empty() for store in (layout, old_layout))
    upto = beside.main.version.starts + 3 * SECOND
    counted = {beside.main.version.starts: Counts(5, 5)}
    run = Run(beside.main.after, upto, SELF, state, counted)
    carrier_ms = function.pane_ms
    assert carrier_ms is not None
    pane = beside.frontier(beside.main.after) + beside.pane_ms
    old_panes = OldPanes(
        run.after, upto, beside.number, beside.pane_ms, carrier_ms, old_state, {pane: Counts(7, 6)}, SELF, SELF
    )
    return run.with_before([old_panes])


def of_test() -> tuple[Versions, Beside]:
    versions = versions_of((FIELDS[0], ""), (FIELDS[2], "WHERE product = 'a'"), starts=(20 * SECOND,))
    (beside,) = versions.beside(END)
    return versions, beside


def test_old_panes_travel_and_come_back_from_the_disk() -> None:
    versions, beside = of_test()
    run = sealed_run(versions, beside)
    message = snapshot_of(run.by(3), versions, APP, EPOCH, detached=False)
    read = CODEC.decode(CODEC.encode(message), 1 << 20)
    assert isinstance(read, Snapshot)
    back = decoded(read, versions, TreePlacement(1), None)
    assert back is not None
    (old,) = back.before
    assert (old.counted, old.contributors, old.partial) == (run.before[0].counted, 8, 8)
    term = JobTerm(APP, 1)
    chain, names = Chain(term, 2), {1: identity_of(beside.old.function)}
    sealed = SealedRun(chain, identity_of(versions.newest.function), run, SealedAt().with_run(run), 3, 1, names)
    kept, loaded = KeptRuns(), Loaded()
    stored = msgspec.msgpack.encode(group_of(None, [sealed], 1))
    kept.take(msgspec.msgpack.decode(stored, type=SealedGroup), 1, loaded)
    past = SealedPast(Resumption(term, 0, FIRST_PANE, -1, number=3, sealed=kept.chains(loaded)[term]), FIRST_PANE)
    restored = past.of(versions.newest, [beside])
    assert restored is not None
    (again,) = (one for one in restored.runs if one.contributors)
    assert [one.counted for one in again.before] == [run.before[0].counted]
    other = beside._replace(old=replace(beside.old, function=versions.newest.function))
    changed = past.of(versions.newest, [other])
    assert changed is not None
    assert not any(one.before for one in changed.runs), "another query has that number by now"


@pytest.mark.parametrize("fault", ["outside", "twice", "not a pane", "not a member", "too late"])
def test_old_panes_that_no_honest_agent_sends_are_refused(fault: str) -> None:
    versions, beside = of_test()
    run = sealed_run(versions, beside).by(0)
    (old,) = run.before
    (pane,) = old.counted
    wrong = {
        "outside": [replace(old, upto=run.upto + 1)],
        "twice": [old, old],
        "not a pane": [replace(old, counted={pane + 1: Counts(1)})],
        "not a member": [replace(old, contributors=2)],
        "too late": [replace(old, counted={beside.upto + beside.pane_ms: Counts(1)})],
    }[fault]
    message = snapshot_of(run.with_before(wrong), versions, APP, EPOCH, detached=False)
    assert decoded(message, versions, TreePlacement(1), None) is None


def test_a_release_without_old_panes_reads_runs_and_versions() -> None:
    """What it does not know it ignores; what it sends has none."""
    versions, beside = of_test()
    message = snapshot_of(sealed_run(versions, beside).by(0), versions, APP, EPOCH, detached=False)
    fields = msgspec.msgpack.decode(CODEC.encode(message))
    del fields["before"], fields["old_windows"]
    earlier = CODEC.decode(msgspec.msgpack.encode(fields), 1 << 20)
    assert isinstance(earlier, Snapshot)
    assert decoded(earlier, versions, TreePlacement(1), None) is not None

    class EarlierVersion(msgspec.Struct, array_like=True):
        number: int
        after: int
        starts: int
        plan: dict[str, Any]
        text: str
        bundle: None = None

    version = versions.newest.version
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(version), type=EarlierVersion)
    assert (read.number, read.after, read.starts) == (version.number, version.after, version.starts)
    six = msgspec.msgpack.decode(msgspec.msgpack.encode(version))[:6]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(six), type=Version).finishes == ""
