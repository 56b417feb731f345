"""Decides where key groups are and how windows are computed: costs, and balance of load (Enorm, sections 3.2 and 5.1).

Nothing here knows a clock, a socket or a job: measurements come in, decisions and moves go out. Whoever smooths the
measurements over periods, and makes a group move from a pane on, is elsewhere.
"""

from agent.placement.amounts import AMOUNT_MAX
from agent.placement.balance import BalanceOptions, BalancePlan, BalanceStep, HeavyGroup, plan_balance
from agent.placement.costs import SplitCost, SplitInputs, combined_cost, split_cost, split_gain_s, split_pays
from agent.placement.decisions import (
    WAYS,
    CostedChoice,
    Counting,
    Decisions,
    Merging,
    Sending,
    Way,
    WayCost,
    WindowJob,
    WindowWork,
    decide,
    way_cost,
)
from agent.placement.flux import flux_moves, flux_periods
from agent.placement.frame_cost import FrameCost
from agent.placement.loads import NOBODY, GroupMove, PlacementLoads
from agent.placement.window_counts import Intervals, WindowCounts

__all__ = [
    "AMOUNT_MAX",
    "NOBODY",
    "WAYS",
    "BalanceOptions",
    "BalancePlan",
    "BalanceStep",
    "CostedChoice",
    "Counting",
    "Decisions",
    "FrameCost",
    "GroupMove",
    "HeavyGroup",
    "Intervals",
    "Merging",
    "PlacementLoads",
    "Sending",
    "SplitCost",
    "SplitInputs",
    "Way",
    "WayCost",
    "WindowCounts",
    "WindowJob",
    "WindowWork",
    "combined_cost",
    "decide",
    "flux_moves",
    "flux_periods",
    "plan_balance",
    "split_cost",
    "split_gain_s",
    "split_pays",
    "way_cost",
]
