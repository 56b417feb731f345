"""An agent that does what is due first, whatever it costs, and leaves out only what is late already (EDF).

`python -m benchmarks.latency.agents.edf agent --config FILE`. ELF has no switch for that.
"""

import runpy

from benchmarks.latency.agents.roomy import give_room
from elf.demo.agents.__main__ import hold_on


def schedule_by_deadline() -> None:
    """Puts a scheduler in the place of those that know what events cost, and whose they are."""
    give_room()
    from agent.runtime.ingest.in_time import code_turns, waiting_events
    from agent.runtime.scheduling.cost_aware import CostAwareScheduler
    from agent.runtime.scheduling.fair import FairScheduler

    class EarliestDeadlineFirst(CostAwareScheduler):
        def _abandon_late(self, now: float) -> None:
            """Abandons what is due before now."""
            while (lot := self._tree.next()) is not None and lot.deadline < now:
                self._abandon(lot, lot.events, now)

    setattr(waiting_events, FairScheduler.__name__, EarliestDeadlineFirst)
    setattr(code_turns, CostAwareScheduler.__name__, EarliestDeadlineFirst)


if __name__ == "__main__":
    hold_on()
    schedule_by_deadline()
    runpy.run_module("elf", run_name="__main__")
