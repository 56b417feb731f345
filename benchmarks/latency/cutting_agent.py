"""An agent that cuts the panes of each query with a limit in `CUTS`, and plans none anew.

`python -m benchmarks.latency.cutting_agent agent --config FILE`. ELF has no switch for that: planners choose cuts.
"""

import runpy
from dataclasses import replace
from typing import Any

from elf.commands.agent import limit_threads
from elf.demo.agents.__main__ import hold_on

CUTS = 2


def cut_all_panes() -> None:
    """Puts cuts into the plans that are admitted."""
    limit_threads()
    from agent.control.latency.admission import AdmittedPlan, LatencyAdmission
    from agent.control.latency.replanning import PlanningThread

    admit = LatencyAdmission.admit

    async def admit_cut(self: LatencyAdmission, *arguments: Any, **named: Any) -> Any:
        admitted = await admit(self, *arguments, **named)
        if not isinstance(admitted, AdmittedPlan) or admitted.plan.windowing is None:
            return admitted
        return replace(admitted, plan=replace(admitted.plan, windowing=admitted.plan.windowing.cut(CUTS)))

    def leave(self: PlanningThread, question: object) -> None:
        """Answers no question."""

    setattr(LatencyAdmission, admit.__name__, admit_cut)
    setattr(PlanningThread, PlanningThread.ask.__name__, leave)


if __name__ == "__main__":
    hold_on()
    cut_all_panes()
    runpy.run_module("elf", run_name="__main__")
