"""An agent whose jobs run as their queries say: no setting is chosen for them, before they run or while they do.

`python -m benchmarks.latency.agents.unplanned agent --config FILE`. ELF has no switch for that.
"""

import runpy
from dataclasses import replace
from typing import Any

from elf.commands.agent import limit_threads
from elf.demo.agents.__main__ import hold_on


def leave_plans(cuts: int = 1) -> None:
    """Admits each plan as it is, or with its panes cut, and answers no question of masters."""
    limit_threads()
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
    hold_on()
    leave_plans()
    runpy.run_module("elf", run_name="__main__")
