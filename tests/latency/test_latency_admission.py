"""Limits at submission: those out of reach are refused, others get the largest grace and the fewest trees that do."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_work import OF_WORK
from test_latency_views import statistics

import query as ql
from agent.control.latency.admission import AdmittedPlan, decided
from agent.control.latency.measurements import choices_of, is_same_work, known_of, least_of, percent_of, setting_of
from agent.control.latency.other_jobs import LIMITED_MAX, limited
from agent.control.messages import DryRuns, JobLatency, Refused
from agent.control.observation.latency_entries import AgentSample, PlanEntry
from agent.control.observation.latency_view import described_latency
from agent.runtime.messages.views.latency import LatencyView, PlanView
from elf.latency_explanation import explanation
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


def looking_less_often(plan: ql.Plan) -> ql.Plan:
    """The plan with the longest interval of looks."""
    assert plan.within is not None
    return replace(plan, within=replace(plan.within, look_ms=500))


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


def test_a_limit_with_room_runs_as_it_would_with_fewer_looks() -> None:
    text = f"{COUNT} WITHIN 2 SECONDS"
    assert decision(text, told(text)) == AdmittedPlan(looking_less_often(planned(text)))


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


@pytest.mark.parametrize("is_replanned", [False, True])
def test_a_latency_is_that_beyond_the_grace_with_which_it_was_measured(is_replanned: bool) -> None:
    """A dashboard waits for 5 s: its results take 5.2 s, of which a query that waits for less has but the 0.2."""
    whole = PhaseStatistics()
    for number in range(400):
        whole.add(5.2 + 0.001 * (number % 21 - 10))
    measured = told(COUNT if is_replanned else f"{COUNT} GRACE 5 SECONDS")
    in_force = PlanEntry(5_000, 1, 1, 0.0, 0.0, {}, 0.0, 0.0, "", 100) if is_replanned else None
    measured = msgspec.structs.replace(measured, total_statistics=whole.to_bytes(), plan=in_force)
    text = f"{COUNT} GRACE 100 MILLISECONDS WITHIN 500 MILLISECONDS"
    known = known_of(planned(text), measured, 8, is_same=True)
    assert predict(setting_of(planned(text)), known).mean == pytest.approx(0.3, rel=0.02)
    assert predict(setting_of(planned(text)), known).quantile < 0.4
    assert decision(text, measured) == AdmittedPlan(looking_less_often(planned(text)))


def test_what_a_query_states_stays() -> None:
    text = f"{PER_PATH} GRACE 60 MILLISECONDS WITHIN 200 MILLISECONDS TREES 2"
    found = planned(text)
    assert choices_of(found).graces == ()
    assert choices_of(found).trees == (2,)
    admitted = decision(text, told(text))
    assert isinstance(admitted, AdmittedPlan)
    assert admitted.plan == looking_less_often(found)
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


# What a query would do to other jobs.


def with_limit(limit_ms: int, text: str = PER_PATH, **means_ms: float) -> JobLatency:
    """What a job with a limit has measured."""
    found = told(f"{text} WITHIN {limit_ms} MILLISECONDS", **means_ms)
    return msgspec.structs.replace(found, app="top-products", within_ms=limit_ms, percent=99.0)


def beside(text: str, *others: JobLatency) -> AdmittedPlan | Refused:
    return decided(planned(text), ql.parse(text), others)


SOONER = f"{COUNT} GRACE 120 MILLISECONDS WITHIN 480 MILLISECONDS"


def test_a_query_that_would_make_another_job_miss_is_refused_and_the_job_named() -> None:
    refused = beside(SOONER, with_limit(500, seal=150.0), told(COUNT, seal=190.0))
    assert isinstance(refused, Refused)
    assert refused.kind == "usage"
    assert refused.message.startswith("this query would make top-products miss WITHIN 500 ms: its panes would wait ")
    assert "ms could be met" in refused.message


def test_an_update_is_not_in_the_way_of_what_it_replaces() -> None:
    measured = with_limit(500, seal=150.0), told(COUNT, seal=190.0)
    updated = decided(planned(SOONER), ql.parse(SOONER), measured, others=measured[1:])
    assert isinstance(updated, AdmittedPlan)
    assert "miss" not in updated.warning


def test_a_query_without_a_limit_may_be_in_the_way_too() -> None:
    """It is closed a moment before the other, whose limit is met without it."""
    text = f"{COUNT} GRACE 0 SECONDS"
    others = with_limit(300), told(COUNT, seal=200.0)
    refused = beside(text, *others)
    assert isinstance(refused, Refused)
    assert "top-products miss WITHIN 300 ms" in refused.message
    assert beside(f"{COUNT} GRACE 500 MILLISECONDS", *others) == AdmittedPlan(
        planned(f"{COUNT} GRACE 500 MILLISECONDS")
    )


def test_what_nobody_has_measured_of_a_query_warns_of_others_at_most() -> None:
    other = PER_PATH.replace("path", "host")
    admitted = beside(SOONER, with_limit(500, seal=150.0), told(other, seal=190.0))
    assert isinstance(admitted, AdmittedPlan)
    assert "perhaps would make top-products miss WITHIN 500 ms" in admitted.warning
    assert "if its panes take as long as those of" in admitted.warning


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (SOONER, (with_limit(800, seal=150.0), told(COUNT, seal=190.0))),
        (SOONER, (with_limit(300, seal=150.0), told(COUNT, seal=190.0))),
        (SOONER, (msgspec.structs.replace(with_limit(500, seal=150.0), results=3), told(COUNT, seal=190.0))),
        (f"{COUNT} WITHIN 2 SECONDS", (with_limit(500, seal=150.0), told(COUNT, seal=190.0))),
    ],
    ids=["has room", "misses anyway", "is young", "goes first"],
)
def test_a_job_that_does_not_wait_for_a_query_refuses_it_not(text: str, others: tuple[JobLatency, ...]) -> None:
    assert isinstance(beside(text, *others), AdmittedPlan)


def test_work_that_is_shared_is_done_once() -> None:
    alike = with_limit(500, f"{COUNT} GRACE 120 MILLISECONDS", seal=190.0)
    assert isinstance(beside(SOONER, alike), AdmittedPlan)
    assert isinstance(beside(SOONER.replace("120", "110"), alike), Refused)


def test_of_many_jobs_the_first_with_limits_are_asked() -> None:
    texts = ["no query", *(text for limit in range(1, 30) for text in (COUNT, f"{COUNT} WITHIN {limit} SECONDS"))]
    asked = limited(texts, lambda text: text)
    assert asked == [f"{COUNT} WITHIN {limit} SECONDS" for limit in range(1, LIMITED_MAX + 1)]


# What agents have run dry.


def dry_runs(seal_s: float, rate: float = 1_000.0, agents: int = 4) -> DryRuns:
    """What agents have found of a query whose panes take so long to be sealed."""
    costs = {int(phase): (0.001, 0.0, 0.0, 0.0, 0.2, 20.0) for phase in OF_WORK}
    costs[int(Phase.SEAL)] = (seal_s, 0.0, 0.0, 0.0, 0.2, 20.0)
    samples = [AgentSample(f"web-{number}", 5_000, rate, costs=costs) for number in range(agents)]
    return DryRuns(agents, agents, 0, samples)


def run_dry(text: str, dry: DryRuns, *others: JobLatency) -> AdmittedPlan | Refused:
    return decided(planned(text), ql.parse(text), others, dry)


def test_work_that_agents_have_run_dry_refuses_what_is_out_of_reach() -> None:
    text, other = f"{PER_PATH} WITHIN 500 MILLISECONDS", told(COUNT)
    refused = run_dry(text, dry_runs(0.9), other)
    assert isinstance(refused, Refused)
    assert refused.message.startswith("WITHIN 500 ms is out of reach: ")
    assert "; seal alone is " in refused.message
    assert refused.message.endswith(" (as shop measures, and as 4 agents run it dry)")
    admitted = run_dry(text, dry_runs(0.02), other)
    assert isinstance(admitted, AdmittedPlan)
    assert admitted.warning == ""


def test_what_agents_have_run_dry_chooses_a_setting() -> None:
    text = f"{PER_PATH} WITHIN 500 MILLISECONDS"
    graces = []
    for seal_s in (0.02, 0.2):
        admitted = run_dry(text, dry_runs(seal_s), told(COUNT))
        assert isinstance(admitted, AdmittedPlan)
        assert admitted.plan.within is not None
        graces.append(admitted.plan.within.grace_ms)
    assert graces[0] > graces[1], "less grace makes up for more work"


def test_without_a_live_job_too_much_is_assumed_to_refuse_or_to_choose() -> None:
    text = f"{PER_PATH} WITHIN 500 MILLISECONDS"
    cheap, dear = run_dry(text, dry_runs(0.01)), run_dry(text, dry_runs(2.0))
    assert isinstance(cheap, AdmittedPlan)
    assert isinstance(dear, AdmittedPlan)
    assert cheap.plan == dear.plan == planned(text)
    assert cheap.warning
    assert dear.warning.startswith("500 ms may be out of reach: ")


def test_a_job_that_computes_the_same_knows_better_than_dry_runs() -> None:
    text = f"{COUNT} WITHIN 500 MILLISECONDS"
    assert run_dry(text, dry_runs(2.0), told(COUNT)) == decision(text, told(COUNT))


def test_another_job_that_dry_runs_say_would_miss_is_named() -> None:
    other = PER_PATH.replace("path", "host")
    admitted = run_dry(SOONER, dry_runs(0.19, 0.0), with_limit(500, other, seal=150.0))
    assert isinstance(admitted, AdmittedPlan)
    assert admitted.warning.endswith("ms could be met")
    assert "perhaps would make top-products miss WITHIN 500 ms" in admitted.warning


# Masters may tell anything.


PLAN_OF_OTHERS = st.builds(
    PlanView, st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1), st.integers(1, ql.TREES_MAX), st.integers(0, 9),
    st.integers(0, 9), st.just([]), st.integers(0, 9),
)  # fmt: skip
DURATIONS = st.lists(st.one_of(st.floats(0, 1e9), st.just(math.inf)), max_size=4)


@st.composite
def views(draw: st.DrawFn) -> LatencyView:
    """What a master that may tell anything tells of its job."""
    text = draw(st.sampled_from((COUNT, PER_PATH, f"{PER_PATH} WITHIN 300 MILLISECONDS", SOONER, "junk")))
    phases = {phase: statistics(*draw(DURATIONS)) for phase in draw(st.sets(st.sampled_from(list(Phase))))}
    told = phases_to_bytes(phases)
    counts = st.integers(0, 2**63 - 1)
    return msgspec.structs.replace(
        view_of(), text=text, within_ms=draw(counts), percent=draw(st.one_of(st.none(), st.floats())),
        total=draw(st.one_of(st.binary(max_size=80), DURATIONS.map(lambda them: statistics(*them).to_bytes()))),
        phases=draw(st.one_of(st.binary(max_size=80), st.just(told))), parts=told, events_s=draw(st.floats()),
        agents=draw(counts), plan=draw(st.one_of(st.none(), PLAN_OF_OTHERS)),
        group_points=draw(st.lists(st.tuples(counts, counts), max_size=16)),
    )  # fmt: skip


@pytest.mark.fuzz
@given(st.lists(views(), min_size=1, max_size=3), st.sampled_from((COUNT, PER_PATH)), st.booleans())
def test_whatever_masters_tell_there_is_a_decision(told: list[LatencyView], text: str, has_limit: bool) -> None:
    text += " WITHIN 300 MILLISECONDS" if has_limit else ""
    assert isinstance(beside(text, *map(described_latency, told)), (AdmittedPlan, Refused))


def test_logs_are_looked_at_less_often_where_that_saves_time_and_costs_none() -> None:
    text = f"{PER_PATH} GRACE 60 MILLISECONDS WITHIN 2 SECONDS"
    admitted = decision(text, told(text))
    assert isinstance(admitted, AdmittedPlan)
    assert admitted.plan.within is not None
    assert (admitted.plan.within.look_ms, setting_of(admitted.plan).look) == (500, 0.5)
    assert ql.Plan.from_wire(admitted.plan.to_wire()) == admitted.plan, "agents get it"
    busy = msgspec.structs.replace(told(text, parse=20.0, insert=60.0), events_s=400_000.0)
    near = decision(text.replace("2 SECONDS", "400 MILLISECONDS"), busy)
    assert isinstance(near, AdmittedPlan)
    assert near.plan.within is not None
    assert near.plan.within.look_ms == 100, "the last block would be five times as long"


@pytest.mark.parametrize("window", ["SESSION 5 SECONDS", "1 SECOND EMIT CHANGES"])
def test_logs_are_looked_at_as_ever_where_no_pane_is_due_by_time_alone(window: str) -> None:
    assert choices_of(planned(f"SELECT COUNT(*) AS n FROM web WINDOWING {window} WITHIN 9 SECONDS")).looks == (0.1,)


def test_logs_are_looked_at_as_ever_where_code_maps_events() -> None:
    plan = planned(f"{COUNT} WITHIN 9 SECONDS")
    assert choices_of(plan, is_mapped=True).looks == (0.1,)
    assert choices_of(plan).looks == (0.1, 0.5)


@pytest.mark.parametrize(("is_mapped", "best"), [(False, "each 500 ms"), (True, "each 100 ms")])
def test_looks_are_explained_as_they_are_chosen(is_mapped: bool, best: str) -> None:
    text = f"{COUNT} WITHIN 9 SECONDS"
    found, measured = planned(text), told(text)
    known = known_of(found, measured, 8, is_same=True)
    explained = explanation(text, found, known, measured, is_same=True, is_mapped=is_mapped)
    looks = next(one for one in explained.knobs if one.knob == "looks at files")
    assert looks.best == f"{best}, and when a pane is due"


def test_looks_and_the_ends_of_panes_are_locked_where_no_look_waits_for_panes() -> None:
    """Both keep the wall clock's time: 125 ms after a whole second the next tenth is 75 ms away, always."""
    found = planned(f"{COUNT} GRACE 125 MILLISECONDS WITHIN 2 SECONDS")
    known = known_of(found, told(), 8, is_same=True)
    tail = predict(replace(setting_of(found), on_due=False), known).phases[Phase.TAIL]
    assert (tail.mean, tail.quantile) == pytest.approx((0.075, 0.075), rel=0.06)
