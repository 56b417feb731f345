"""What dry runs of agents tell, which may be anything, as what is known of a query: bounded, marked, never promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_work import OF_WORK

import query as ql
from agent.control.latency.dry_runs import ASKED_MAX, described, some_of
from agent.control.latency.measurements import known_of
from agent.control.latency.samples import GROUP_BYTES_MAX, RATE_MAX, clipped, lateness, with_samples
from agent.control.observation.latency_entries import AgentSample
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.dry_runs import DryRunView
from overlay import Id, Peer
from query.latency import AGENT_PHASES, AgentClass, Evidence, Measured, Phase, PhaseStatistics, predict
from query.latency.resources import COST_MAX

PLAN = ql.analyze(
    ql.parse("SELECT path, COUNT(*) AS n FROM web GROUP BY path WINDOWING 1 SECOND WITHIN 1 SECOND"),
    {"web": ql.Schema({}, open=True)},
)
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)


def view(agent: str = "web-1", rate: float = 100.0, doubt: str = "", seal: float = 0.005) -> DryRunView:
    costs = [(int(phase), 0.001, 1e-6, 0.0, 0.0, 0.2, 20.0) for phase in OF_WORK if phase is not Phase.SEAL]
    costs.append((int(Phase.SEAL), seal, 0.0, 2e-6, 0.0, 0.2, 20.0))
    late = PhaseStatistics.lift(0.0).combine(PhaseStatistics.lift(0.3)).to_bytes()
    return DryRunView(
        FLEET_GROUP, 1, agent, "", 5_000, rate, doubt, (2.0, 0.5, 10.0), 20.0, late, costs, 0.5
    )  # fmt: skip


def known(agents: int = 8) -> Measured:
    return known_of(PLAN, None, agents, is_same=False)


def samples_of(*views: DryRunView) -> list[AgentSample]:
    return [clipped(one)[0] for one in views]


def evidence_of(measured: Measured) -> dict[Phase, Evidence]:
    return {phase: one.evidence for phase, one in predict(measured.setting, measured).phases.items()}


def test_what_was_run_is_sampled_and_the_rest_stays_assumed() -> None:
    measured = with_samples(known(), samples_of(*(view(f"web-{number}") for number in range(4))))
    found = evidence_of(measured)
    assert {phase for phase in found if found[phase] is Evidence.SAMPLED} >= set(OF_WORK)
    assert {phase for phase in found if found[phase] is Evidence.ASSUMED} == {
        Phase.TAIL, Phase.UPLINK, Phase.COMMIT, Phase.DELIVER,
    }  # fmt: skip
    assert measured.rate == pytest.approx(800.0), "eight agents are like the four that were asked"
    assert measured.costs[Phase.SEAL].fixed == pytest.approx(0.01), "the work got half of a processor"
    assert measured.groups.groups(10_000) == pytest.approx(200, rel=0.01)
    assert measured.group_bytes == 20.0


@pytest.mark.parametrize("doubt", ["standstill", "clock", "no times", "few lines", "anything"])
def test_without_a_rate_nothing_is_more_than_assumed(doubt: str) -> None:
    measured = with_samples(known(), samples_of(*[view(rate=0.0, doubt=doubt)] * 3))
    assert measured.rate == 0
    found = predict(measured.setting, measured)
    assert all(found.phases[phase].evidence is Evidence.ASSUMED for phase in OF_WORK)
    assert found.evidence is Evidence.ASSUMED
    assert math.isfinite(found.quantile)
    assert found.quantile > found.mean, "it is a wide answer"


def test_without_anything_all_is_as_before() -> None:
    before = known()
    assert with_samples(before, []) is before


def test_costs_of_the_machine_alone_are_assumed() -> None:
    told = msgspec.structs.replace(view(), costs=[(int(Phase.SEAL), 0.02, 0.0, 0.0, 0.0, 1.0, 0.0)])
    measured = with_samples(known(), samples_of(told))
    assert measured.costs[Phase.SEAL].fixed == pytest.approx(0.04)
    assert evidence_of(measured)[Phase.SEAL] is Evidence.ASSUMED
    both = with_samples(known(), samples_of(told, view(), view()))
    assert both.costs[Phase.SEAL].fixed == pytest.approx(0.01), "who has run it knows better"


def test_one_agent_that_lies_moves_no_cost() -> None:
    honest = [view(f"web-{number}") for number in range(4)]
    true = with_samples(known(), samples_of(*honest)).costs
    lied = with_samples(known(), samples_of(*honest, view("liar", seal=1e30))).costs
    assert lied[Phase.SEAL][:4] == true[Phase.SEAL][:4]


def test_busy_agents_are_a_class_of_their_own() -> None:
    views = [view(f"web-{number}", rate=1_000.0 if number == 0 else 50.0) for number in range(4)]
    busy, others = with_samples(known(40), samples_of(*views)).classes
    assert (busy.agents, busy.rate) == (10, 1_000.0)
    assert (others.agents, others.rate) == (30, 50.0)
    (only,) = with_samples(known(1), samples_of(*views)).classes
    assert only.agents == 1


def test_lateness_of_all_agents_is_put_together() -> None:
    assert lateness(samples_of(view(), view(), msgspec.structs.replace(view(), late=b"junk"))).count == 4


@given(
    st.lists(ANYTHING, min_size=3, max_size=3), st.tuples(ANYTHING, ANYTHING, ANYTHING),
    st.lists(st.tuples(st.integers(0, 11), *[ANYTHING] * 6), max_size=12), st.binary(max_size=40),
    st.integers(1, 2_000),
)  # fmt: skip
def test_whatever_an_agent_tells_is_clipped_and_predicted_from(
    numbers: Sequence[float],
    groups: tuple[float, float, float],
    costs: list[tuple[int, float, float, float, float, float, float]],
    late: bytes,
    agents: int,
) -> None:
    rate, group_bytes, share = numbers
    told = DryRunView(FLEET_GROUP, 1, "liar", "", 1, rate, "", groups, group_bytes, late, costs, share)
    found = described([told], agents, agents, 0)
    (sample,) = found.samples
    assert 0 <= sample.rate <= RATE_MAX
    assert all(0 <= part <= COST_MAX for parts in sample.costs.values() for part in parts[:4])
    cannot_be = not 0 <= rate <= RATE_MAX or not 0 <= group_bytes <= GROUP_BYTES_MAX
    assert found.clipped >= cannot_be
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found, "clients get it as it is"
    measured = with_samples(known(agents), found.samples)
    assert sum(one.agents for one in measured.classes) == agents
    assert not math.isnan(predict(measured.setting, measured).quantile)


def test_refusals_are_told_by_agent() -> None:
    refused = DryRunView(FLEET_GROUP, 1, "web-2", "you may not")
    found = described([refused, view()], 5, 7, 2)
    assert (found.agents, found.asked, found.silent) == (5, 7, 2)
    assert found.refused == {"web-2": "you may not"}
    assert [one.agent for one in found.samples] == ["web-1"]


@pytest.mark.parametrize("number", [1, 7, 8, 9, 1_280])
def test_a_bounded_number_of_agents_is_asked_each_once(number: int) -> None:
    peers = [Peer(Id(one * 977 % 2_003), f"10.0.{one // 256}.{one % 256}:1") for one in range(number)]
    asked = some_of(peers)
    assert len(set(asked)) == len(asked) == min(number, ASKED_MAX)
    assert set(asked) <= set(peers)


def test_phases_of_another_query_give_way_to_what_was_run() -> None:
    other = known()
    one = predict(other.setting, other).distribution
    agents = AgentClass(8, 50.0, dict.fromkeys(AGENT_PHASES, one))
    told = replace(other, classes=(agents,), phases={Phase.COMMIT: one, Phase.FINISH: one})
    measured = with_samples(told, samples_of(view()))
    assert measured.rate == told.rate, "what a live job has measured is kept"
    assert Phase.SEAL not in measured.classes[0].phases
    assert Phase.TAIL in measured.classes[0].phases
    assert measured.phases.keys() == {Phase.COMMIT}
