"""Masters that decide where windows are merged, by what work costs: they change it where no window is left out or comes
twice, whoever dies meanwhile, and every window equals what the logs of those in it say."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import simulated_fleet
from lives import JOB, Act, Life, begin, begin_some, crash_master, crash_root, happen, stall_root
from seeds import seeds
from simulated_fleet import key_of
from test_hopping_simulated import HOPPING, LONGEST_S, SIZES, check_followed, check_windows
from test_owners_simulated import check, made_by_owners, move

from agent.control.observation.fleet_view import described_placement
from agent.placement import FrameCost
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.owners import deciding, measured_work
from agent.runtime.model.fields import AMOUNT_MAX
from agent.runtime.model.meters import Work, WorkMeter
from agent.runtime.model.placement import GROUPS
from elf.output.placement_table import decided_costs

FAST, SLOW = FrameCost(1e-4, 1e-7), FrameCost(0.3, 1e-4)
"""What agents take for a frame and its rows: a master that is slow is too busy for all windows."""


@pytest.fixture(autouse=True)
def _quick_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_fleet, "PRODUCTS", "abcdefghijklmnopqrstuvwxyz")
    monkeypatch.setattr(deciding, "KEPT_S", 7.0)
    monkeypatch.setattr(measured_work, "PERIODS_MAX", 2)


Costs = Callable[[], FrameCost]


def work_costs(monkeypatch: pytest.MonkeyPatch, cost: Costs) -> None:
    """Agents whose work takes as long as this says."""
    note = WorkMeter.note

    def noted(meter: WorkMeter, work: Work, frames: int, rows: int, _seconds: float = 0.0) -> None:
        note(meter, work, frames, rows, cost().of(frames, rows))

    monkeypatch.setattr(WorkMeter, "note", noted)


def at_owners(life: Life) -> bool:
    ((_, state),) = life.fleet.masters(JOB)
    return state.moved.owners


def master_of(life: Life) -> JobMaster:
    ((server, _),) = life.fleet.masters(JOB)
    master = server.agent.masters.get(key_of(JOB))
    assert master is not None
    return master


def said(life: Life) -> list[str]:
    """What the master's log says of decisions."""
    master = master_of(life)
    return [line.text for line in master.log.lines if line.text.startswith("windows are merged")]


def test_windows_are_merged_where_that_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one epoch, whole, and with both costs in the log."""
    costs = [FAST]
    work_costs(monkeypatch, lambda: costs[0])
    life = begin(7, size=5, trees=3, sql=HOPPING)
    fleet = life.fleet
    assert at_owners(life), "without statistics"
    fleet.run(fleet.now + 20.0)
    assert not at_owners(life)
    made = made_by_owners(life)
    fleet.run(fleet.now + 8.0)
    assert made_by_owners(life) == made, "windows that were open were their last ones"
    costs[0] = SLOW
    fleet.run(fleet.now + 40.0)
    assert at_owners(life)
    assert made_by_owners(life) > made
    check_windows(life)
    check_followed(life, (8, 2))
    windows = fleet.of(JOB)
    assert len({window.epoch for window in windows}) == 1
    assert all(not window.partial and not window.result.missing for window in windows[6:])
    master, owners = said(life)
    assert master.startswith("windows are merged at the master: ")
    assert owners.startswith("windows are merged at owners: ")
    assert all(" s, not " in line and line.endswith(" s of a processor in a minute") for line in (master, owners))


def test_decisions_are_shown_with_both_costs_and_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    life = begin(7, size=5, trees=3, sql=HOPPING)
    view = described_placement(master_of(life).adaptation.view(life.fleet.now))
    assert [decided_costs(one)[0] for one in view.decisions] == ["no statistics yet"] * 3, "a clock that stands"
    work_costs(monkeypatch, lambda: FAST)
    life.fleet.run(life.fleet.now + 20.0)
    view = described_placement(master_of(life).adaptation.view(life.fleet.now))
    assert [one.choice for one in view.decisions] == ["per pane", "each pane", "at the master"]
    merging = view.decisions[-1]
    assert merging.cost_s is not None
    assert merging.other_s is not None
    assert 0 < merging.cost_s < merging.other_s
    measured = {one.what: one.value for one in view.measured}
    assert 1 <= measured["rows of an agent's pane"] <= 26
    assert 1 <= measured["rows of a pane of all, in those"] <= 5
    assert measured["share of rows shown"] == 1
    events = sum(len(server.log) for server in life.fleet.workers()) / life.fleet.now
    assert 0.5 * events < measured["rows/s"] < 2 * events
    assert measured["µs to send a frame"] == pytest.approx(200, rel=0.1)


def decided_for_the_master(monkeypatch: pytest.MonkeyPatch, seed: int) -> Life:
    """A life whose master has decided to merge windows itself."""
    work_costs(monkeypatch, lambda: FAST)
    life = begin(seed, size=5, trees=3, sql=HOPPING)
    life.fleet.run(life.fleet.now + 20.0)
    assert not at_owners(life)
    return life


def test_a_job_of_one_tree_has_nothing_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    work_costs(monkeypatch, lambda: FAST)
    life = begin(7, size=3, sql=HOPPING)
    life.fleet.run(life.fleet.now + 6.0)
    view = described_placement(master_of(life).adaptation.view(life.fleet.now))
    assert [decided_costs(one)[1] for one in view.decisions] == ["no other way"] * 3
    assert view.decisions[-1].choice == "at the master"


def test_a_master_takes_no_more_than_its_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    life = decided_for_the_master(monkeypatch, 7)
    fleet = life.fleet
    monkeypatch.setattr(deciding, "OPEN_ROWS_MAX", 10)
    fleet.run(fleet.now + 10.0)
    assert at_owners(life)
    assert said(life)[-1].startswith("windows are merged at owners: ")
    check_windows(life)
    check_followed(life, (8, 2))


@pytest.mark.parametrize("told", [(AMOUNT_MAX, 1, AMOUNT_MAX), (1, AMOUNT_MAX, 1), (0, AMOUNT_MAX, 0)])
def test_whatever_agents_tell_of_ends_no_job(told: tuple[int, int, int]) -> None:
    life = begin(7, size=3, trees=3, sql=HOPPING)
    fleet, master = life.fleet, master_of(life)
    for _ in range(3):
        master.state.work.add([told] * 99)
        master.placement.loads.add_rows([2**62] * GROUPS)
        fleet.run(fleet.now + 6.0)
        assert len(master.adaptation.view(fleet.now).decisions) == 3
    check_windows(life)
    check_followed(life, (8, 2))


@pytest.mark.slow
def test_who_places_groups_has_owners_make_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is decided otherwise for as long as groups stay."""
    life = decided_for_the_master(monkeypatch, 7)
    fleet, master = life.fleet, master_of(life)
    assert "no agent" in str(master.placement.move_to([3], "nobody", "smooth", fleet.now))
    assert not at_owners(life)
    assert master.placement.move_to(range(8), master.placement.name_of(2), "smooth", fleet.now) is None
    fleet.run(fleet.now + 40.0)
    assert at_owners(life)
    check_windows(life)
    check_followed(life, (8, 2))
    assert len({window.epoch for window in fleet.of(JOB)}) == 1


def test_the_next_master_goes_on_with_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    life = decided_for_the_master(monkeypatch, 8)
    fleet = life.fleet
    monkeypatch.setattr(deciding, "KEPT_S", 1e9)
    crash_master(life)
    fleet.run(fleet.now + LONGEST_S)
    assert len(life.faults) >= 1
    assert not at_owners(life)
    check(life, 8)


def deciding_life(monkeypatch: pytest.MonkeyPatch, seed: int, acts: list[Act]) -> Life:
    """A life in which costs change all the time, so that masters decide one way and the other."""
    source = random.Random(seed)
    costs = [FAST, 0.0]

    def cost() -> FrameCost:
        costs[1] += 1
        if costs[1] % 300 == 0:
            costs[0] = source.choice((FAST, SLOW))
        return costs[0]

    monkeypatch.setattr(deciding, "KEPT_S", 1.0)
    work_costs(monkeypatch, cost)
    life = begin_some(seed, random.Random(seed), trees=2 + seed % 3, sql=SIZES if seed % 2 else HOPPING)
    happen(life, acts)
    life.fleet.run(life.fleet.now + LONGEST_S)
    return life


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, slow=[2, 4, *range(10, 60)]))
def test_restless_decisions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With deaths, and groups that move."""
    acts = [[crash_root], [crash_master, move], [stall_root, move], [move, move]][seed % 4]
    life = deciding_life(monkeypatch, seed, acts)
    check(life, seed)
