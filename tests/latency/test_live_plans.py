"""Plans of running jobs, in simulated fleets: what was not planned is named, and another setting is put in force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from lives import JOB, Life, begin, crash_master, follow_elsewhere
from msgspec import structs
from seeds import seeds
from simulated_fleet import Server, key_of, sql
from test_hopping_simulated import check_followed, check_windows
from test_latency_admission import COUNT, PER_PATH, planned, view_of
from test_latency_simulated import begun

from agent.control.latency.measurements import setting_of, with_setting
from agent.control.latency.replanning import MISSED, replanned
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.latency.drift import Drift, drift_of
from agent.runtime.master.latency.live_plan import LOOK_S, MET, SETTLED_RESULTS, LivePlan
from agent.runtime.messages.plans import PlanAnswer, PlanQuestion
from agent.runtime.messages.views.latency import PlanView
from agent.runtime.model.latency.recent_latency import ResultLatency
from overlay import Id
from query.latency import Phase

PLANNING_S = 1.0
"""What a thread takes to answer."""
NAMED_S = 10.0
LIMIT_MS = 1_200


def watched(life: Life, answered: Callable[[PlanQuestion], PlanAnswer] = replanned) -> Life:
    """A life in which the job has been planned."""
    for server in life.fleet.servers.values():
        connect(life, server, answered)
    life.fleet.run(life.fleet.now + 22.0)
    return life


def connect(life: Life, server: Server, answered: Callable[[PlanQuestion], PlanAnswer]) -> None:
    fleet, masters = life.fleet, server.agent.masters

    def ask(question: PlanQuestion) -> None:
        answer = answered(question)
        fleet.at(fleet.now + PLANNING_S, lambda: masters.planned(answer, fleet.now))

    masters.on_plan_asked = ask
    for master in masters.held.values():
        master.plan.ask = ask


def master_of(life: Life) -> JobMaster:
    ((server, _),) = life.fleet.masters(JOB)
    found = server.agent.masters.get(key_of(JOB))
    assert found is not None
    return found


def plan_of(life: Life) -> PlanView:
    found = master_of(life).latency_view().plan
    assert found is not None
    return found


def look_late(life: Life, slow: Server) -> None:
    """Each look at its log that closes a window comes half a second late."""
    fleet = life.fleet
    for end in range(int(fleet.now) + 1, int(fleet.now) + 60):
        fleet.at(end + 0.05, lambda until=end + 0.9: setattr(slow, "reads_from", until))  # type: ignore[misc]


def slow_down(life: Life, slow: Server) -> None:
    life.fleet.links.slow_down(slow.node.peer, 0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "phase", "seed"),
    [(look_late, "tail", 2), (slow_down, "uplink", 3), (slow_down, "uplink", 4), (slow_down, "uplink", 5)],
)
def test_what_was_not_planned_is_named_within_ten_seconds_and_replanned_or_out_of_reach(
    act: Callable[[Life, Server], None], phase: str, seed: int
) -> None:
    life, slow = begun(seed, f"{sql('abcde', 1)} WITHIN {LIMIT_MS} MILLISECONDS")
    fleet, before = watched(life).fleet, plan_of(life)
    assert before.mean_us > 0
    assert "more than planned" not in before.remark
    act(life, slow)
    fleet.run(fleet.now + NAMED_S)
    named = f"{phase} of {slow.name} takes "
    assert plan_of(life).remark.startswith(named), plan_of(life)
    fleet.run(fleet.now + 5.0)
    noted = [line.text for line in master_of(life).log.lines if line.text.startswith(named)]
    assert any(f"; {outcome}" in noted[0] for outcome in ("replanned: GRACE ", "out of reach: ", MET))
    is_replanned = any("replanned" in text for text in noted)
    assert is_replanned == (master_of(life).state.version > 1) == (plan_of(life).grace_ms < before.grace_ms)
    fleet.run(fleet.now + 0.5)  # what is on its way comes
    check_followed(life, (1, 1))


def cut_once(question: PlanQuestion) -> PlanAnswer:
    """Has panes cut in four, and less grace, as soon as may be."""
    found, answer = question.plan, replanned(question)
    if found.windowing is None or found.windowing.cuts == 4:
        return answer
    wanted = with_setting(found, replace(setting_of(found), grace=0.6, cuts=4))
    return replace(answer, wanted=(wanted, answer.prediction), outcome="replanned")


@pytest.mark.parametrize("seed", seeds(4, slow=range(20, 26)))
def test_a_setting_in_force_outlives_its_master_and_no_window_comes_twice(seed: int) -> None:
    life = watched(begin(seed, 4, sql=f"{sql('abcde', 1)} WITHIN 4 SECONDS"), cut_once)
    follow_elsewhere(life)
    fleet = life.fleet
    assert (plan_of(life).cuts, plan_of(life).grace_ms) == (4, 600)
    number = master_of(life).state.version
    crash_master(life)
    fleet.run(fleet.now + 20.0)
    assert (plan_of(life).cuts, plan_of(life).grace_ms) == (4, 600)
    assert master_of(life).state.version == number == 2
    assert {window.version.number for window in fleet.of(JOB)} == {1, 2}
    check_windows(life)
    check_followed(life, (1, 1))


def test_nothing_is_said_to_be_planned_anew_before_it_is() -> None:
    """The rollout comes to nothing here, as where an agent does not answer."""
    life = watched(begin(4, 4, sql=f"{sql('abcde', 1)} WITHIN 4 SECONDS"), replanned)
    master, fleet = master_of(life), life.fleet
    questions: list[PlanQuestion] = []
    noted: list[str] = []
    plan = LivePlan(master.state, "web-1", lambda _: master.latency_view(), lambda *_: None, noted.append, fleet.now)
    plan.ask = questions.append
    for _ in range(SETTLED_RESULTS):
        plan.take(ResultLatency(0.5, {}, "web-2", is_met=True), master.state.version, fleet.now)
    plan.tick(fleet.now + LOOK_S)
    plan.answered(cut_once(questions[0]), fleet.now + LOOK_S)
    found = plan.view()
    assert found is not None
    assert (found.remark, noted) == ("", [])


def asked(limit_ms: int, *, may_turn: bool = True, **longer: float) -> PlanAnswer:
    """The answer for a job of eight agents that has measured this, some of whose phases are longer by now (s)."""
    plan = planned(f"{COUNT} WITHIN {limit_ms} MILLISECONDS")
    phases = {Phase[name.upper()]: seconds for name, seconds in longer.items()}
    return replanned(PlanQuestion(Id(7), 3, plan, plan, view_of(), phases, 20.0, may_turn))


def test_a_setting_that_fits_stays() -> None:
    answer = asked(1_000)
    assert (answer.wanted, answer.outcome, answer.number) == (None, "", 3)
    assert answer.prediction.quantile <= 1.0


def test_less_grace_makes_up_for_a_longer_way() -> None:
    answer = asked(500, uplink=0.27)
    assert answer.wanted is not None
    plan, prediction = answer.wanted
    assert plan.within is not None
    assert plan.within.grace_ms in (50, 12)
    assert prediction.quantile < answer.prediction.quantile
    assert answer.outcome == f"replanned: GRACE {plan.within.grace_ms} ms, looks each 500 ms"
    as_it_is = asked(500, may_turn=False, uplink=0.27)
    assert (as_it_is.wanted, as_it_is.outcome) == (None, MISSED), "nobody is told that the limit is met"


def test_panes_are_cut_where_their_groups_are_known_and_take_long() -> None:
    measured = structs.replace(view_of(PER_PATH, seal=400.0, combine=100.0, finish=200.0), events_s=1_200_000.0)
    with_groups = structs.replace(measured, group_points=[(400_000, 200_000), (1_200_000, 400_000)])
    plan = planned(f"{PER_PATH} GRACE 20 MILLISECONDS WITHIN 500 MILLISECONDS")
    answers = [replanned(PlanQuestion(Id(7), 1, plan, plan, one, {}, 20.0, may_turn=True))
               for one in (measured, with_groups)]  # fmt: skip
    assert answers[0].is_out_of_reach, "nothing says what shorter panes would save"
    assert answers[1].wanted is not None
    cut, _ = answers[1].wanted
    assert cut.windowing is not None
    assert cut.windowing.cuts > 1
    assert answers[1].outcome.endswith(f"panes cut in {cut.windowing.cuts}")


def test_what_no_setting_meets_is_out_of_reach() -> None:
    answer = asked(500, uplink=0.6)
    assert answer.is_out_of_reach
    assert answer.outcome.startswith("out of reach: ")
    assert "ms can be met; uplink alone is" in answer.outcome


def test_a_burst_of_two_late_results_is_no_drift() -> None:
    planned = {Phase.TAIL: 0.1, Phase.UPLINK: 0.05}
    fine, late = (ResultLatency(0.15 + s, {Phase.TAIL: 0.1, Phase.UPLINK: 0.05 + s}, "web-3") for s in (0.0, 0.2))
    assert drift_of([fine, late, fine, fine, late], planned, "web-1") is None
    assert drift_of([late] * 4, planned, "web-1") is None, "there are too few"
    found = drift_of([fine, late, late, fine, late], planned, "web-1")
    assert found is not None
    assert found.text == "uplink of web-3 takes 200 ms more than planned"
    assert found.beside({Phase.UPLINK: 0.1, Phase.SEAL: 0.2}).longer == pytest.approx(
        {Phase.UPLINK: 0.3, Phase.SEAL: 0.2}
    )


def test_the_master_is_named_for_what_it_does_itself() -> None:
    slow = ResultLatency(0.6, {Phase.TAIL: 0.1, Phase.COMMIT: 0.5}, "web-3")
    found = drift_of([slow] * 5, {Phase.TAIL: 0.1, Phase.COMMIT: 0.1}, "web-1")
    assert found is not None
    assert (found.phase, found.agent) == (Phase.COMMIT, "web-1")


def test_a_way_that_no_acknowledgement_has_told_of_yet_is_the_uplink() -> None:
    slow = ResultLatency(0.4, {Phase.TAIL: 0.1, Phase.UPLINK: 0.1}, "web-3")
    found = drift_of([slow] * 5, {Phase.TAIL: 0.1, Phase.UPLINK: 0.1}, "web-1")
    assert isinstance(found, Drift)
    assert found.longer == pytest.approx({Phase.UPLINK: 0.2})
