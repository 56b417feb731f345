"""Limits at submission: those out of reach are refused, others get the largest grace and the fewest trees that do."""

from __future__ import annotations

import msgspec
import pytest

import query as ql
from agent.control.latency.admission import AdmittedPlan, decided
from agent.control.latency.measurements import choices_of, is_same_work, known_of, least_of, percent_of, setting_of
from agent.control.messages import JobLatency, Refused
from agent.control.observation.latency_view import described_latency
from agent.runtime.messages.views.latency import LatencyView
from overlay import Id
from query.latency import AGENT_PHASES, Evidence, Phase, PhaseStatistics, phases_to_bytes, predict

MEANS_MS = {
    Phase.TAIL: 2.0, Phase.READ_WAIT: 0.5, Phase.PARSE: 2.0, Phase.INSERT: 2.0, Phase.CLOSE: 125.0,
    Phase.SEAL_WAIT: 1.0, Phase.SEAL: 40.0, Phase.UPLINK: 30.0, Phase.COMBINE: 5.0, Phase.FINISH: 5.0,
    Phase.COMMIT: 20.0, Phase.DELIVER: 5.0,
}  # fmt: skip
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
PER_PATH = "SELECT path, COUNT(*) AS n FROM web GROUP BY path WINDOWING 1 SECOND"


def planned(text: str) -> ql.Plan:
    return ql.analyze(ql.parse(text), {"web": ql.Schema({}, open=True)})


def decision(text: str, measured: JobLatency) -> AdmittedPlan | Refused:
    return decided(planned(text), ql.parse(text), [measured])


def told(text: str = COUNT, **means_ms: float) -> JobLatency:
    """What a job of eight agents has measured, for its clients."""
    return described_latency(view_of(text, **means_ms))


def view_of(text: str = COUNT, **means_ms: float) -> LatencyView:
    """What a job of eight agents has measured: each phase a quarter more or less than its mean (ms)."""
    means = MEANS_MS | {Phase[name.upper()]: one for name, one in means_ms.items()}
    measured = {}
    for phase, mean in means.items():
        made = PhaseStatistics()
        for number in range(400):
            made.add(mean / 1000 * (0.75 + 0.5 * (number % 21) / 20))
        measured[phase] = made
    parts = phases_to_bytes({phase: measured[phase] for phase in AGENT_PHASES})
    nothing = PhaseStatistics().to_bytes()
    return LatencyView(
        Id(7), "shop", "web-1", text, 0, None, 400, 0, 0, nothing, nothing, phases_to_bytes(measured), 0, [], [], parts,
        [], events_s=8_000.0, agents=8,
    )  # fmt: skip


def test_a_limit_with_room_runs_as_it_would() -> None:
    text = f"{COUNT} WITHIN 2 SECONDS"
    assert decision(text, told(text)) == AdmittedPlan(planned(text))


def test_a_limit_that_is_near_gets_a_smaller_grace() -> None:
    text = f"{COUNT} WITHIN 200 MILLISECONDS"
    found = planned(text)
    admitted = decision(text, told(text))
    assert isinstance(admitted, AdmittedPlan)
    assert found.within is not None
    assert admitted.plan.within is not None
    assert (found.within.grace_ms, admitted.plan.within.grace_ms) == (50, 20)
    known = known_of(found, told(text), 8, is_same=True)
    share, late = percent_of(found.within) / 100, 1.5 * known.rate
    assert predict(setting_of(admitted.plan), known, share, late).quantile <= 0.2
    assert predict(setting_of(found), known, share, late).quantile > 0.2, "by the grace that it had"
    assert ql.Plan.from_wire(admitted.plan.to_wire()) == admitted.plan, "agents get it"


def test_what_a_query_states_stays() -> None:
    text = f"{PER_PATH} GRACE 60 MILLISECONDS WITHIN 200 MILLISECONDS TREES 2"
    found = planned(text)
    assert choices_of(found).graces == ()
    assert choices_of(found).trees == (2,)
    admitted = decision(text, told(text))
    assert isinstance(admitted, AdmittedPlan)
    assert admitted.plan == found
    assert "met" in admitted.warning


@pytest.mark.parametrize("is_same", [True, False])
def test_a_limit_out_of_reach_is_refused_with_what_can_be_met_and_why(is_same: bool) -> None:
    text = f"{COUNT} WITHIN 50 MILLISECONDS"
    refused = decision(text, told(COUNT if is_same else PER_PATH, uplink=200.0))
    assert isinstance(refused, Refused)
    assert refused.kind == "usage"
    assert refused.message.startswith("WITHIN 50 ms is out of reach: ")
    assert "ms can be met; uplink alone is" in refused.message
    assert "shop" in refused.message


def test_what_another_query_computes_refuses_none() -> None:
    """Its seals of a second may be due to its groups: this one may have none."""
    text = f"{COUNT} WITHIN 400 MILLISECONDS"
    slow = told(PER_PATH, seal=1_000.0)
    admitted = decision(text, slow)
    assert isinstance(admitted, AdmittedPlan)
    assert "may be out of reach" in admitted.warning
    assert isinstance(decision(text, told(COUNT, seal=1_000.0)), Refused)


def test_nothing_computed_is_no_later_than_something() -> None:
    known = known_of(planned(f"{COUNT} WITHIN 1 SECOND"), told(), 8, is_same=False)
    least, all_of_it = (predict(one.setting, one, 0.99) for one in (least_of(known), known))
    assert least.quantile < all_of_it.quantile
    assert least.evidence > Evidence.ASSUMED


def test_a_mean_is_less_than_the_largest_hundredth() -> None:
    within = planned(f"{COUNT} WITHIN 1 SECOND ON AVERAGE").within
    assert within is not None
    assert 50 <= percent_of(within) < 75


def test_the_first_results_of_a_job_refuse_nothing() -> None:
    text = f"{COUNT} WITHIN 50 MILLISECONDS"
    young = msgspec.structs.replace(told(COUNT, uplink=200.0), results=3)
    admitted = decision(text, young)
    assert isinstance(admitted, AdmittedPlan)
    assert "may be out of reach" in admitted.warning


def test_the_same_work_may_be_wanted_sooner_or_later() -> None:
    """Limits, graces, and patience with stragglers change nothing of what is computed; filters and groups do."""
    count = ql.parse(COUNT)
    assert is_same_work(ql.parse(f"{COUNT} WITHIN 1 SECOND"), f"{COUNT} GRACE 0 SECONDS ON STRAGGLER WAIT")
    assert not is_same_work(count, PER_PATH)
    assert not is_same_work(count, COUNT.replace("web", "web WHERE status = 500"))
    assert not is_same_work(count, "no query")


def test_the_job_that_computes_the_same_decides() -> None:
    text = f"{COUNT} WITHIN 50 MILLISECONDS"
    other = msgspec.structs.replace(told(PER_PATH), results=10_000)
    refused = decided(planned(text), ql.parse(text), [other, told(COUNT, seal=1_000.0)])
    assert isinstance(refused, Refused)
    assert "seal alone is" in refused.message


def test_trees_are_no_fewer_than_so_many_groups_need() -> None:
    query = ql.parse(f"{PER_PATH} WITHIN 1 SECOND")
    plan = ql.analyze(query, {"web": ql.Schema({}, open=True)}, max_groups=3_000_000)
    assert plan.trees == 3
    assert choices_of(plan).trees == (3, 4, 8)
    assert choices_of(planned(f"{COUNT} WITHIN 1 SECOND")).trees == (1,), "there is nothing to share"
