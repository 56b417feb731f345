"""Owners that are busy give key groups to others; nothing moves for noise, or where there is little to do."""

from __future__ import annotations

import numpy as np
from test_owned_windows import QUERIES, lived, master_of

from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.owners.balancing import BALANCE_S
from agent.runtime.master.owners.group_loads import PERIOD_S, GroupLoads
from agent.runtime.master.owners.key_placement import STAYS_S
from agent.runtime.model.fields import GROUPS

TREES = 4
BUSY = 0.6
"""Share of a processor that all owners together take."""


def busy_master() -> JobMaster:
    master = master_of(lived(f"{QUERIES[0]} TREES {TREES}", []))
    assert len({peer.node_id for peer in master.placement.roots.values()}) > 1
    return master


def owner_of(master: JobMaster, group: int) -> int:
    return master.placement.roots[min(master.state.placement.trees_of_group(group))].node_id


def loads_of(
    master: JobMaster, weights: list[float], *, busy: float = BUSY, others: dict[int, float] | None = None
) -> GroupLoads:
    """Rates as if groups had rows by their weights, and each owner's work followed from its groups."""
    loads = GroupLoads(0.0)
    loads.rows = np.array(weights) * 1000
    for group, weight in enumerate(weights):
        node_id = owner_of(master, group)
        loads.work[node_id] = loads.work.get(node_id, 0.0) + busy * weight / sum(weights)
    for peer in master.placement.roots.values():
        loads.work.setdefault(peer.node_id, 0.0)
        loads.busy[peer.node_id] = loads.work[peer.node_id] + (others or {}).get(peer.node_id, 0.0)
    return loads


def look(master: JobMaster, loads: GroupLoads, at: float = 1e6) -> list[tuple[int, int]]:
    """The groups that move now, and the trees that they are on then."""
    before = master.state.moved.number
    master.adaptation.balancer.look(loads, at)
    return [(move.group, move.tree) for move in master.state.moved.moves if move.number > before]


def test_the_groups_of_a_busy_owner_go_to_others() -> None:
    master = busy_master()
    first = [5.0 if group < GROUPS // TREES else 1.0 for group in range(GROUPS)]
    loads = loads_of(master, first)
    before = master.adaptation.balancer.plan(loads, 1e6)
    assert before is not None
    moves = look(master, loads)
    assert moves
    assert before.after < before.before
    assert all(tree in master.placement.roots for _, tree in moves)
    assert any("key groups move to" in line.text for line in master.log.lines)
    assert look(master, loads, 1e6 + BALANCE_S - 1) == [], "what has just moved is seen in the rates first"


def test_work_of_other_jobs_counts_as_well() -> None:
    master = busy_master()
    busy = master.placement.roots[1].node_id
    moves = look(master, loads_of(master, [1.0] * GROUPS, others={busy: 0.9}))
    trees = {tree for tree, peer in master.placement.roots.items() if peer.node_id == busy}
    assert moves
    assert not {tree for _, tree in moves} & trees


def test_an_agent_that_is_full_is_relieved_sooner() -> None:
    """It takes a processor and no more, so it looks less busy beside others than it is."""
    master = busy_master()
    owners = [owner_of(master, group) for group in range(GROUPS)]
    even, agents = [1 / owners.count(owner) for owner in owners], len(set(owners))
    full = master.placement.roots[1].node_id
    more = 0.125 * agents / (agents - 1)

    def movers(busy: float) -> set[int]:
        """The owners whose groups move if each is as busy, and one of them by a seventh more than all in the mean."""
        loads = loads_of(master, even, busy=busy * agents, others={full: busy * more / (1 - more)})
        return {owners[group] for group, _ in look(master, loads)}

    assert movers(BUSY) == set()
    assert movers(1 - more) == {full}, "now it takes all of its processor"


def test_little_work_and_even_work_move_nothing() -> None:
    master = busy_master()
    uneven = [5.0 if group < GROUPS // TREES else 1.0 for group in range(GROUPS)]
    assert look(master, loads_of(master, uneven, busy=0.05)) == []
    owners = [owner_of(master, group) for group in range(GROUPS)]
    even = [1 / owners.count(owner) for owner in owners]
    assert look(master, loads_of(master, even)) == []
    assert look(master, GroupLoads(0.0)) == [], "nothing is known"


def test_rates_are_means_of_periods() -> None:
    loads = GroupLoads(0.0)
    loads.add_rows([100] * GROUPS)
    loads.add_seconds(7, 1.0, 2.0)
    assert not loads.tick(PERIOD_S / 2)
    assert loads.tick(PERIOD_S)
    assert loads.rows[0] == 100 / PERIOD_S
    assert (loads.work[7], loads.busy[7]) == (1 / PERIOD_S, 2 / PERIOD_S)
    assert np.isclose(loads.of_groups.sum(), 1 / PERIOD_S)
    assert loads.tick(2 * PERIOD_S)
    assert 0 < loads.rows[0] < 100 / PERIOD_S
    assert BALANCE_S > PERIOD_S


def test_groups_stay_where_somebody_has_placed_them() -> None:
    master = busy_master()
    placed = range(GROUPS // TREES)
    loads = loads_of(master, [5.0 if group in placed else 1.0 for group in range(GROUPS)])
    plan = master.adaptation.balancer.plan(loads, 1e6)
    assert plan is not None
    assert {move.group for move in plan.moves} & set(placed)
    assert master.placement.move_to(placed, master.placement.name_of(0), "instant", 1e6) is None
    assert not {group for group, _ in look(master, loads, 1e6 + BALANCE_S)} & set(placed)
    later = master.adaptation.balancer.plan(loads, 1e6 + STAYS_S)
    assert later is not None
    assert all(master.placement.may_be_moved(group, 1e6 + STAYS_S) for group in placed)
