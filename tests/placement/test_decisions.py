"""ELF's decisions on how windows are computed: the cheapest of all ways within bounds."""

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.placement import (
    WAYS,
    Counting,
    FrameCost,
    Merging,
    Sending,
    SplitInputs,
    Way,
    WindowCounts,
    WindowJob,
    WindowWork,
    decide,
    split_cost,
    way_cost,
)
from cbt.windows import WindowSize

MINUTE = 60_000
SIZES = {
    "1 min": [WindowSize.tumbling(MINUTE)],
    "10 min every 1": [WindowSize(10 * MINUTE, MINUTE)],
    "7 and 10 min": [WindowSize.tumbling(7 * MINUTE), WindowSize.tumbling(10 * MINUTE)],
    "5, 10, 15, 20 min": [WindowSize.tumbling(one * MINUTE) for one in (5, 10, 15, 20)],
}
COUNTS = {name: WindowCounts.of(sizes, 4_200_000) for name, sizes in SIZES.items()}
FRAME_COSTS = st.builds(FrameCost, st.floats(0, 1), st.floats(0, 1e-3))
WORKS = st.builds(
    WindowWork,
    rows=st.floats(0, 1e9),
    keys=st.floats(0, 1e6),
    count=FRAME_COSTS,
    send=FRAME_COSTS,
    join=FRAME_COSTS,
    merge=FRAME_COSTS,
    show=FRAME_COSTS,
    input_keys=st.floats(0, 1e6),
    spread=st.floats(1, 100),
    growth=st.floats(0, 1),
    shown=st.floats(0, 1),
    moves=st.floats(0, 1e4),
    pause_s=st.floats(0, 10),
)
JOBS = st.builds(
    WindowJob,
    windows=st.sampled_from(list(COUNTS.values())),
    period_s=st.just(4_200.0),
    groups=st.sampled_from([1, 64]),
    agents=st.integers(1, 1_000),
    owners=st.integers(1, 64),
    is_rigid=st.booleans(),
    latency_max_s=st.one_of(st.just(inf), st.floats(0, 100)),
)
FREE = FrameCost(0, 0)
FRAME = FrameCost(1e-4, 1e-6)
WORK = WindowWork(1e6, 1_000, count=FRAME, send=FRAME, join=FRAME, merge=FRAME, show=FRAME, input_keys=1_000)


def job(name: str, **options: float) -> WindowJob:
    return replace(WindowJob(COUNTS[name], 4_200), **options)


def exceeds(one: WindowJob, work: WindowWork, way: Way) -> bool:
    cost = way_cost(one, work, way)
    return cost.latency_s > one.latency_max_s or cost.root_s > one.load_max * one.period_s


@given(JOBS, WORKS)
def test_no_way_within_the_bounds_is_cheaper(one: WindowJob, work: WindowWork) -> None:
    decisions = decide(one, work)
    costs = {way: way_cost(one, work, way) for way in WAYS if not one.is_rigid or way.counting is Counting.WINDOWS}
    chosen = costs[decisions.way]
    within = [cost.cpu_s for way, cost in costs.items() if not exceeds(one, work, way)]
    if within:
        assert not exceeds(one, work, decisions.way)
        assert chosen.cpu_s == min(within)
    for decision, choice in zip((decisions.counting, decisions.sending, decisions.merging), decisions.way, strict=True):
        assert (decision.choice, decision.cost) == (choice, chosen)


@pytest.mark.parametrize("name", COUNTS)
def test_each_decision_shows_the_best_cost_with_the_other_choice(name: str) -> None:
    one = job(name, agents=8, owners=4)
    costs = {way: way_cost(one, WORK, way) for way in WAYS}
    assert not any(exceeds(one, WORK, way) for way in WAYS)
    decisions = decide(one, WORK)
    for decision in (decisions.counting, decisions.sending, decisions.merging):
        others = [cost.cpu_s for way, cost in costs.items() if decision.choice not in way]
        assert decision.other_cost is not None
        assert decision.other_cost.cpu_s == min(others)


@given(JOBS, WORKS)
def test_costs_are_amounts(one: WindowJob, work: WindowWork) -> None:
    for way in WAYS:
        cost = way_cost(one, work, way)
        parts = (cost.count_s, cost.send_s, cost.relay_s, cost.merge_s, cost.move_s, cost.root_s, cost.latency_s)
        assert all(0 <= part < inf for part in parts)
        assert cost.cpu_s == pytest.approx(sum(parts[:5]))


@given(JOBS, WORKS)
def test_a_choice_is_kept_while_nothing_changes(one: WindowJob, work: WindowWork) -> None:
    way = decide(one, work).way
    assert decide(one, work, present=way).way == way


@given(JOBS, WORKS, st.sampled_from(WAYS))
def test_a_present_way_costs_a_twentieth_more_at_most(one: WindowJob, work: WindowWork, present: Way) -> None:
    way = decide(one, work, present).way
    best = decide(one, work).way
    if not exceeds(one, work, best):
        assert not exceeds(one, work, way)
        assert way_cost(one, work, way).cpu_s * 0.95 <= way_cost(one, work, best).cpu_s * (1 + 1e-9)


def test_without_statistics_panes_go_to_owners() -> None:
    decisions = decide(job("10 min every 1"), None)
    assert decisions.way == Way(Counting.PANES, Sending.PANES, Merging.OWNERS)
    assert decisions.counting.cost is decisions.counting.other_cost is None
    assert list(decisions.lines()) == [
        "per pane: no statistics yet",
        "each pane: no statistics yet",
        "at owners: no statistics yet",
    ]


def test_panes_between_edges_are_merged_at_agents_where_few_keys_are_new() -> None:
    way = decide(job("7 and 10 min", agents=8, owners=4), replace(WORK, merge=FREE)).way
    assert (way.counting, way.sending) == (Counting.PANES, Sending.EDGES)
    all_new = replace(WORK, growth=1.0, join=FrameCost(0, 1e-5), send=FrameCost(0, 1e-6))
    assert decide(job("7 and 10 min", agents=8, owners=4), all_new).way.sending is Sending.PANES


def test_rows_are_counted_per_window_where_merging_panes_costs_more() -> None:
    few = replace(WORK, rows=1_000, merge=FrameCost(1e-2, 1e-5))
    assert decide(job("5, 10, 15, 20 min"), few).way.counting is Counting.WINDOWS
    assert decide(job("5, 10, 15, 20 min"), replace(few, rows=1e9)).way.counting is Counting.PANES


def test_windows_of_many_keys_are_made_at_owners_and_of_few_in_fewer_frames_at_the_master() -> None:
    many = replace(WORK, keys=1e5, input_keys=1e5, growth=0.5, shown=0.01)
    assert decide(job("10 min every 1", owners=4), many).way.merging is Merging.OWNERS
    few = replace(WORK, keys=10, input_keys=10)
    assert decide(job("10 min every 1", owners=4), few).way.merging is Merging.MASTER


def test_the_master_makes_no_windows_for_which_it_would_be_too_busy() -> None:
    work = replace(WORK, keys=10, input_keys=10)
    free = job("10 min every 1", owners=4)
    assert decide(free, work).way.merging is Merging.MASTER
    owners, master = (way_cost(free, work, Way(merging=one)) for one in Merging)
    assert master.root_s > owners.root_s
    bounded = replace(free, load_max=(owners.root_s + master.root_s) / 2 / free.period_s)
    assert decide(bounded, work).way.merging is Merging.OWNERS
    assert decide(bounded, work, present=decide(free, work).way).way.merging is Merging.OWNERS


def test_moved_groups_cost_what_all_agents_have_of_them() -> None:
    work = replace(WORK, moves=10, send=FrameCost(0, 1e-6), join=FREE)
    one, other = (way_cost(job("10 min every 1", owners=4), replace(work, spread=n), Way()) for n in (1.0, 3.0))
    assert other.move_s == pytest.approx(3 * one.move_s)
    assert one.move_s == pytest.approx(10 / 64 * 1_000 * 9 * 1e-6)


def test_a_single_owner_is_the_master() -> None:
    owners, master = (way_cost(job("10 min every 1", agents=8), WORK, Way(merging=one)) for one in Merging)
    assert replace(owners, move_s=0) == replace(master, move_s=0)


def test_moves_that_hold_a_rigid_job_up_for_too_long_are_spared_at_the_master() -> None:
    rigid = job("1 min", owners=4, is_rigid=True)
    work = replace(WORK, moves=10, pause_s=2, shown=0.1, join=FrameCost(1e-2, 0))
    assert decide(rigid, work).way == Way(Counting.WINDOWS, Sending.EDGES, Merging.OWNERS)
    assert decide(rigid, work).counting.other_cost is None
    bounded = replace(rigid, latency_max_s=10)
    decided = decide(bounded, work)
    assert decided.way.merging is Merging.MASTER
    assert decided.merging.other_cost is not None
    assert decided.merging.other_cost.latency_s == 20


def test_states_that_combine_move_without_a_pause() -> None:
    assert way_cost(job("10 min every 1", owners=4), replace(WORK, moves=10, pause_s=2), Way()).latency_s == 0


def test_panes_at_owners_cost_what_the_paper_says_of_split() -> None:
    of_one_pane = COUNTS["1 min"].windows[0]
    counts = replace(COUNTS["10 min every 1"], open=(of_one_pane._replace(number=1.0),))
    one = WindowJob(counts, 4_200)
    work = replace(WORK, count=FrameCost(0, 1e-6), send=FrameCost(0, 2e-6), merge=FREE, show=FREE, join=FREE, moves=7)
    paper = SplitInputs(work.rows, work.count.row_s, counts.overlap, counts.panes, 64, work.copy_s(one), work.moves)
    assert way_cost(one, work, Way()).cpu_s == pytest.approx(split_cost(paper).cpu_s)


AMOUNTS = ["rows", "keys", "input_keys", "spread", "growth", "shown", "moves", "pause_s"]


@pytest.mark.parametrize("field", AMOUNTS)
@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_bad_measurements_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field} is "):
        replace(WORK, **{field: value})


@pytest.mark.parametrize("field", ["count", "send", "join", "merge", "show"])
@pytest.mark.parametrize("part", FrameCost._fields)
@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_bad_costs_of_frames_are_refused_by_name(field: str, part: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field}\.{part} is "):
        replace(WORK, **{field: FREE._replace(**{part: value})})


@pytest.mark.parametrize(("field", "value"), [("growth", 1.1), ("shown", 2.0), ("spread", 0.5)])
def test_shares_are_shares(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field} is {value}"):
        replace(WORK, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("period_s", 0.0), ("groups", 0), ("agents", nan), ("owners", -3), ("latency_max_s", nan), ("load_max", -1.0)],
)
def test_bad_jobs_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field} is "):
        job("1 min", **{field: value})
