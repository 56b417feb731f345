"""Plans: the cheapest setting within a limit, warnings and refusals in words, and no haste to change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from query.latency import (
    AgentClass,
    Choices,
    Distribution,
    Evidence,
    HeapsLaw,
    LatencyPlan,
    LatencyRefusal,
    LinearCost,
    Measured,
    Phase,
    Setting,
    gamma,
    is_replaced,
    plan,
    predict,
    price,
    review,
)

CHOICES = Choices(looks=(0.05, 0.2, 1.0), cuts=(1, 4), trees=(1, 2))


def known(grace: float = 0.5, rate: float = 1_000.0) -> Measured:
    """Forty agents that have measured all of their phases."""
    means = {
        Phase.PARSE: 0.002, Phase.INSERT: 0.003, Phase.SEAL: 0.02, Phase.UPLINK: 0.01,
        Phase.COMBINE: 0.01, Phase.FINISH: 0.01, Phase.COMMIT: 0.03, Phase.DELIVER: 0.005,
    }  # fmt: skip
    phases = {phase: gamma(mean, (mean / 3) ** 2, 10_000) for phase, mean in means.items()}
    return Measured(
        pane=2.0,
        setting=Setting(grace, 0.2),
        classes=(AgentClass(40, rate, phases, look_phase=None),),
        phases=phases,
        groups=HeapsLaw(5.0, 0.6, 10),
    )


def planned(limit_ms: float, measured: Measured) -> LatencyPlan:
    found = plan(limit_ms, 99, measured, choices=CHOICES)
    assert isinstance(found, LatencyPlan)
    return found


@pytest.mark.parametrize(
    ("measured", "limit_ms"),
    [(known(), 900), (replace(known(grace=0.05), mean_factor=0.4, spread_factor=0.4), 130)],
    ids=["phases alone", "all of it was shorter"],
)
def test_a_plan_holds_its_limit_and_is_no_dearer_than_others_that_do(measured: Measured, limit_ms: int) -> None:
    found = planned(limit_ms, measured)
    assert found.holds
    assert not found.warning
    assert found.prediction.quantile <= limit_ms / 1000
    for other in CHOICES.settings(measured):
        if price(other, measured, measured.rate).seconds < 0.9 * found.price.seconds:
            assert predict(other, measured, 0.99, measured.rate * 1.5).quantile > limit_ms / 1000


def test_a_tighter_limit_costs_more() -> None:
    measured = known()
    prices = [planned(limit, measured).price.seconds for limit in (2_000, 1_000, 750)]
    assert prices == sorted(prices)
    assert prices[0] < prices[-1]


def test_a_limit_that_nothing_meets_is_refused_and_the_reason_named() -> None:
    found = plan(500, 99, known(), choices=CHOICES)
    assert isinstance(found, LatencyRefusal)
    assert 0.5 < found.least < 0.9
    assert found.reason == f"{math.ceil(found.least * 1e3):,} ms can be met; GRACE alone is 500"
    assert found.prediction.binding is Phase.CLOSE


def test_a_limit_that_is_nearly_met_gives_a_warning() -> None:
    least = plan(500, 99, known(), choices=CHOICES)
    assert isinstance(least, LatencyRefusal)
    found = planned(least.least * 1e3 / 1.1, known())
    assert "is not met" in found.warning
    assert "ms can be met; GRACE alone is 500" in found.warning


def test_agents_that_cannot_keep_up_promise_nothing() -> None:
    found = plan(10_000, 99, known(), rate=1e9, choices=CHOICES)
    assert isinstance(found, LatencyRefusal)
    assert found.least == math.inf
    assert "cannot keep up" in found.reason


def test_agents_that_have_kept_up_do_so_though_they_waited_for_processors() -> None:
    slow = {phase: gamma(0.15, 0.05**2, 10_000) for phase in (Phase.PARSE, Phase.INSERT)}  # a look comes each 0.2 s
    busy = replace(known(), classes=tuple(replace(one, phases={**one.phases, **slow}) for one in known().classes))
    assert planned(60_000, busy).prediction.quantile < 10
    assert predict(busy.setting, busy, 0.99, rate=1e9).quantile == math.inf


def test_a_reader_that_nobody_has_measured_is_not_said_to_keep_up() -> None:
    """Its costs are those of dry runs: five times as much as it has time for."""
    costs = {Phase.INSERT: LinearCost(row=1e-3)}
    measured = Measured(pane=1.0, classes=(AgentClass(8, 5_000.0),), costs=costs)
    assert predict(measured.setting, measured).quantile == math.inf
    found = plan(60_000, 99, measured, choices=CHOICES)
    assert isinstance(found, LatencyRefusal)
    assert "cannot keep up" in found.reason


def test_what_is_assumed_is_said() -> None:
    found = plan(10_000, 99, Measured(pane=60.0, setting=Setting(grace=0.0)), choices=CHOICES)
    assert isinstance(found, LatencyPlan)
    assert "assumed" in found.warning


@pytest.mark.parametrize(("limit", "percent"), [(0, 99), (math.nan, 99), (500, 0), (500, 100)])
def test_what_is_no_limit_is_refused(limit: float, percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        plan(limit, percent, known())


def test_grace_is_chosen_only_where_it_may_be() -> None:
    measured = known()
    assert planned(2_000, measured).setting.grace == 0.5
    free = plan(500, 99, measured, choices=replace(CHOICES, graces=(0.05, 0.5)))
    assert isinstance(free, LatencyPlan)
    assert free.setting.grace == 0.05


def test_a_plan_is_kept_unless_another_is_much_better() -> None:
    measured = known()
    held, cheap = planned(750, measured), planned(2_000, measured)
    dear = replace(cheap, price=cheap.price._replace(processor=cheap.price.processor * 3), setting=held.setting)
    assert not is_replaced(held, held, 1e9)
    assert is_replaced(dear, cheap, 61)
    assert not is_replaced(dear, cheap, 59), "not before a minute"
    near = replace(dear, price=cheap.price._replace(processor=cheap.price.processor * 1.1))
    assert not is_replaced(near, cheap, 1e9), "a tenth is not enough"
    missing = review(cheap.setting, 750, 99, known(rate=2_000.0))
    assert not missing.holds
    assert is_replaced(missing, held, 10)
    assert not is_replaced(missing, held, 9)
    assert not is_replaced(missing, replace(missing, setting=held.setting), 1e9), "another that misses as much"
    better = review(replace(missing.setting, grace=0.2), 750, 99, known(rate=2_000.0))
    assert better.prediction.quantile < missing.prediction.quantile
    assert not better.holds
    assert is_replaced(missing, better, 10), "one that misses by far less"


def test_more_grace_is_worth_a_change_where_it_costs_nothing() -> None:
    held = review(Setting(0.1, 0.2), 2_000, 99, known())
    longer = replace(held, setting=replace(held.setting, grace=0.5))
    assert held.holds
    assert is_replaced(held, longer, 61)
    assert not is_replaced(held, longer, 59)
    assert not is_replaced(longer, held, 1e9), "less of it is not"
    dearer = replace(longer, price=held.price._replace(processor=held.price.processor * 1.01))
    assert not is_replaced(held, dearer, 1e9)


def test_a_review_sees_what_has_changed() -> None:
    measured = known()
    held = planned(900, measured)
    slow = dict(measured.phases) | {Phase.COMMIT: Distribution.uniform(0.5, 0.6).assumed(500)}
    assert not review(held.setting, 900, 99, replace(measured, phases=slow)).holds
    again = review(held.setting, 900, 99, measured)
    assert (again.setting, again.price, again.prediction.quantile) == (
        held.setting,
        held.price,
        held.prediction.quantile,
    )
    assert again.prediction.evidence is held.prediction.evidence >= Evidence.SAMPLED
