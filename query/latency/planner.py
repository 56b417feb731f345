"""Chooses the cheapest setting with which windows are delivered within a limit, or says why there is none.

Section 3.1 of the paper finds the fewest nodes whose largest rate within the limit is the present one. A fleet has the
agents that it has: here the knobs are chosen by what they cost, with room for a rate that is half as high again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from query.latency.parts import ASSUMED_COSTS
from query.latency.phases import Phase
from query.latency.prediction import Prediction, estimate, predict
from query.latency.resources import Amount, LinearCost
from query.latency.setting import Evidence, Measured, Setting, Subtree

ROOM = 1.5
"""Multiple of the present rate with which a limit has to hold."""
NEAR = 1.2
"""Multiple of a limit up to which a least bound that is beyond it gives a warning, not a refusal."""
BYTE_S = 10e-9
"""Processor time (s) that a byte on its way between two agents is put at: encoding, encryption, decoding."""
CUT_MIN_S = 0.05
"""Least length (s) of a short pane that is cut from another."""
PREDICTIONS_MAX = 24
"""Upper bound on exact predictions for a plan; the settings that they are made for are found by estimates."""
_LEAST_TRIED = 6
"""Settings with the lowest estimates, of which the least bound is taken."""
_ALIKE = 1.02
"""Multiple of the least bound up to which the cheapest setting is as good."""
KEPT_S = 60.0
"""Time for which a setting is kept though another is cheaper."""
KEPT_MISSING_S = 10.0
"""Time for which a setting is kept though it misses the limit."""
SAVING_MIN = 0.2
"""Part of the price that another setting has to save, or of the latency beyond the limit where that is missed."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of knobs that are tried. `graces` (s): without any, GRACE is what it is, as a query may state it."""

    looks: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    on_due: Sequence[bool] = (False, True)
    cuts: Sequence[int] = (1, 2, 4, 8, 16)
    trees: Sequence[int] = (1, 2, 4, 8)
    graces: Sequence[float] = ()

    def settings(self, measured: Measured) -> Iterator[Setting]:
        """All settings of these values whose short panes are not too short."""
        graces = self.graces or (measured.setting.grace,)
        for grace, look, on_due, cuts, trees in product(graces, self.looks, self.on_due, self.cuts, self.trees):
            if cuts == 1 or measured.pane / cuts >= CUT_MIN_S:
                yield Setting(grace, look, on_due, cuts, trees)


class Price(NamedTuple):
    """The cost of a setting to all agents together: seconds of a processor, and bytes between agents, in a second."""

    processor: float
    size: float

    @property
    def seconds(self) -> float:
        """Both as seconds of a processor in a second."""
        return self.processor + self.size * BYTE_S


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """A setting, its prediction at ROOM times the present rate, and `now`; its price at the present one. `warning`:
    words where the limit (s) is not met for sure; empty if it is.
    """

    limit: float
    setting: Setting
    prediction: Prediction
    now: Prediction
    price: Price
    warning: str = ""

    @property
    def holds(self) -> bool:
        """Whether the prediction is within the limit."""
        return self.prediction.quantile <= self.limit


@dataclass(frozen=True, slots=True)
class LatencyRefusal:
    """A limit (s) that no setting meets: the `least` bound (s) that one does, its prediction at the present rate, and
    why in words.
    """

    limit: float
    least: float
    prediction: Prediction
    reason: str


def plan(
    limit_ms: float,
    percent: float,
    measured: Measured,
    rate: float | None = None,
    choices: Choices = Choices(),
) -> LatencyPlan | LatencyRefusal:
    """The cheapest setting with which `percent` of windows are delivered within a limit at ROOM times the rate, in
    lines a second of all agents, or as measured. If there is none, the one with the least bound at the present rate:
    with a warning if that is within NEAR times the limit, else as a refusal. Estimates put settings in order, so of two
    that cost nearly as much the dearer one may be taken. Some seconds at most. Raises ValueError for a limit or a
    percentage that is out of range, and for a rate below 0.
    """
    limit, share = _in_range(limit_ms, percent)
    now = measured.rate if rate is None else rate
    settings = sorted(choices.settings(measured), key=lambda one: price(one, measured, now).seconds)
    if not settings:
        raise ValueError("no setting to choose from")
    expected = {one: estimate(one, measured, share, now * ROOM) for one in settings}
    found = _cheapest(limit, share, measured, now, expected)
    if found is not None:
        warning = "" if found.evidence > Evidence.ASSUMED else _ASSUMED
        at_present = predict(found.setting, measured, share, now)
        return LatencyPlan(limit, found.setting, found, at_present, price(found.setting, measured, now), warning)
    lowest = sorted(settings, key=lambda one: expected[one])[:_LEAST_TRIED]
    tried = [predict(one, measured, share, now) for one in lowest]
    least = min(tried, key=lambda one: one.quantile)
    if not least.quantile <= limit * NEAR:
        return LatencyRefusal(limit, least.quantile, least, _reason(least))
    alike = [one for one in tried if one.quantile <= least.quantile * _ALIKE]
    least = min(alike, key=lambda one: price(one.setting, measured, now).seconds)
    met = "met now, but not" if least.quantile <= limit else "not met"
    warning = f"{limit_ms:g} ms is {met} at {ROOM:g} times the rate: {_reason(least)}"
    with_room = predict(least.setting, measured, share, now * ROOM)
    return LatencyPlan(limit, least.setting, with_room, least, price(least.setting, measured, now), warning)


def _in_range(limit_ms: float, percent: float) -> tuple[float, float]:
    if not 0 < limit_ms < math.inf or not 0 < percent < 100:
        raise ValueError(f"{limit_ms} ms for {percent} % of windows: more than 0 ms, and between 0 and 100 %")
    return limit_ms / 1e3, percent / 100


def review(
    setting: Setting, limit_ms: float, percent: float, measured: Measured, rate: float | None = None
) -> LatencyPlan:
    """A setting that is in force as a plan, by what is measured now. Raises ValueError as `plan` does."""
    limit, share = _in_range(limit_ms, percent)
    now = measured.rate if rate is None else rate
    with_room, at_present = (predict(setting, measured, share, now * room) for room in (ROOM, 1.0))
    return LatencyPlan(limit, setting, with_room, at_present, price(setting, measured, now))


def is_replaced(held: LatencyPlan, found: LatencyPlan, held_s: float) -> bool:
    """Whether a plan that has been in force for `held_s`, as reviewed now, gives way to another: after KEPT_MISSING_S
    if it misses the limit and the other does not, or by SAVING_MIN less; after KEPT_S if the other costs
    SAVING_MIN less, or has as much more GRACE and costs no more. So what is measured may waver without settings that
    do.
    """
    if held.setting == found.setting:
        return False
    if not held.holds:
        beyond, saved = held.prediction.quantile - held.limit, held.prediction.quantile - found.prediction.quantile
        less = saved >= SAVING_MIN * beyond
        return held_s >= KEPT_MISSING_S and (found.holds or less)
    if held_s < KEPT_S or not found.holds:
        return False
    waits = held.setting.grace < found.setting.grace * (1 - SAVING_MIN) and found.price.seconds <= held.price.seconds
    return waits or found.price.seconds <= held.price.seconds * (1 - SAVING_MIN)


def price(setting: Setting, measured: Measured, rate: float) -> Price:
    """The cost of a setting to all agents at a rate: looks, blocks, seals, merges, what is finished, and bytes between
    them. By fitted costs, or assumed ones. O(kinds of subtrees).
    """
    classes = measured.at_rate(rate)
    costs = {phase: measured.costs.get(phase, one) for phase, one in ASSUMED_COSTS.items()}
    panes = setting.cuts / measured.pane
    looks = 1 / setting.look + (panes if setting.on_due else 0.0)
    block = measured.look_cost + costs[Phase.PARSE].fixed + costs[Phase.INSERT].fixed
    row = costs[Phase.PARSE].row + costs[Phase.INSERT].row
    processor = sum(one.agents * (looks * block + one.rate * row) for one in classes)
    size = 0.0
    rates = [one.rate for one in classes]
    for node, number in _subtrees(measured.shape).items():
        groups = _groups(node, rates, measured, setting)
        if node.kind is not None:
            rows = rates[node.kind] / panes
            own = measured.groups.groups(rows)
            processor += number * panes * costs[Phase.SEAL].seconds(Amount(rows, own, own * measured.group_bytes))
        if node is not measured.shape:
            size += number * panes * groups * measured.group_bytes
        if node.children:
            taken = sum(_groups(child, rates, measured, setting) * several for child, several in node.children)
            processor += number * panes * _in_trees(costs[Phase.COMBINE], Amount(taken, groups), setting.trees)
    finished = Amount(groups=_groups(measured.shape, rates, measured, setting))
    return Price(processor + panes * _in_trees(costs[Phase.FINISH], finished, setting.trees), size)


def _cheapest(
    limit: float, share: float, measured: Measured, now: float, expected: Mapping[Setting, float]
) -> Prediction | None:
    """The first setting whose prediction is within the limit; those whose estimate is too high, by as much as estimates
    have been too high before, are passed over.
    """
    lowest = 0.8
    predictions = 0
    for setting, quantile in expected.items():
        if quantile * lowest > limit or predictions >= PREDICTIONS_MAX:
            continue
        found = predict(setting, measured, share, now * ROOM)
        predictions += 1
        if found.quantile <= limit:
            return found
        if math.isfinite(found.quantile):
            lowest = max(lowest, 0.9 * found.quantile / quantile)
    return None


def _reason(least: Prediction) -> str:
    if not math.isfinite(least.quantile):
        return f"no time can be promised: {least.binding.label} has no end, agents cannot keep up"
    alone = least.phases[least.binding].part
    name = "GRACE" if least.binding is Phase.CLOSE else least.binding.label
    return f"{_ms(least.quantile)} ms can be met; {name} alone is {_ms(alone)}"


def _ms(seconds: float) -> str:
    return f"{math.ceil(seconds * 1e3 - 1e-6):,}"


def _in_trees(cost: LinearCost, amount: Amount, trees: int) -> float:
    return trees * cost.seconds(amount.times(1 / trees))


def _groups(node: Subtree, rates: Sequence[float], measured: Measured, setting: Setting) -> float:
    rows = sum(rates[kind] * number for kind, number in node.agents.items()) * measured.pane / setting.cuts
    return measured.groups.groups(rows)


def _subtrees(root: Subtree) -> dict[Subtree, int]:
    """Each kind of subtree, and how many there are of it."""
    found: dict[Subtree, int] = {}
    level = {root: 1}
    while level:
        below: dict[Subtree, int] = {}
        for node, number in level.items():
            found[node] = found.get(node, 0) + number
            for child, several in node.children:
                below[child] = below.get(child, 0) + number * several
        level = below
    return found


_ASSUMED = "much of it is assumed, not measured"
