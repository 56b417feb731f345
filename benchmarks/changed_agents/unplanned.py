"""An agent whose jobs run as their queries say: no setting is chosen for them, before they run or while they do."""

from dataclasses import replace
from typing import Any

from benchmarks.changed_agents import run_changed


def leave_plans(cuts: int = 1) -> None:
    """Admits each plan as it is, or with its panes cut, and answers no question of masters."""
    from agent.control.latency.admission import AdmittedPlan, LatencyAdmission
    from agent.control.latency.replanning import PlanningThread
    from query import Plan

    async def admit(_self: LatencyAdmission, plan: Plan, *_arguments: Any, **_named: Any) -> AdmittedPlan:
        """The plan of a live query as it is to run."""
        windowing = plan.windowing
        return AdmittedPlan(plan if windowing is None else replace(plan, windowing=windowing.cut(cuts)))

    def ask(_self: PlanningThread, _question: object) -> None:
        """Leaves a question."""

    setattr(LatencyAdmission, admit.__name__, admit)
    setattr(PlanningThread, ask.__name__, ask)


if __name__ == "__main__":
    run_changed(leave_plans)
