"""An agent that does what is due first, whatever it costs, and leaves out only what is late already (EDF)."""

from benchmarks.changed_agents import run_changed
from benchmarks.changed_agents.roomy import give_room


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
    run_changed(schedule_by_deadline)
