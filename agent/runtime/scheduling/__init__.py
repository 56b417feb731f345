"""Schedules work by latency constraints (Li et al., VLDB 2015, section 4): what is done next, and what is not done.

Theory of operation. Work of all phases is ordered by the time at which it has to begin (`DeadlineQueue`), a slice at a
time. The events to be inserted for jobs with a constraint wait as lots, many alike events each; where they are too
many, `FairScheduler` abandons the fewest, of jobs that want more than their share, and says which. What an event costs
is measured (`EventCosts`).

Nothing here knows a clock or an event: lots and times come in, what to do next goes out. Agents, simulations and the
benchmark use the same objects.
"""

from agent.runtime.scheduling.cost_aware import CostAwareScheduler
from agent.runtime.scheduling.deadline_queue import DeadlineQueue, PhaseTimes, PhaseWork, WorkPhase
from agent.runtime.scheduling.event_costs import EventCosts
from agent.runtime.scheduling.fair import FairScheduler, max_min_shares
from agent.runtime.scheduling.lots import CostClass, Lot, slot_of
from agent.runtime.scheduling.schedule_tree import ScheduleTree

__all__ = [
    "CostAwareScheduler",
    "CostClass",
    "DeadlineQueue",
    "EventCosts",
    "FairScheduler",
    "Lot",
    "PhaseTimes",
    "PhaseWork",
    "ScheduleTree",
    "WorkPhase",
    "max_min_shares",
    "slot_of",
]
