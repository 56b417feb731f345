"""Says how long late events are waited for: before a pane is sealed or, where changes are shown, after it."""

from __future__ import annotations

from typing import NamedTuple

import query
from agent.runtime.messages.jobs import Submit

AMENDED_MAX = 500
"""Upper bound on the windows that are over and may still change; where GRACE would hold more, panes wait for it."""
PANE_MS_MIN = query.PART_MIN_MS
"""Length from which on panes are sealed without waiting: the results that come with a pane are told apart by its ms."""


class Grace(NamedTuple):
    """`waits_ms`: the time for which a pane waits for late events before it is sealed. `amends_ms`: that for which
    events that come later are put into the windows that hold them, which are shown again. `corrects`: windows are shown
    again if agents that they lacked are back.
    """

    waits_ms: int = 0
    amends_ms: int = 0
    corrects: bool = False


def grace_of(plan: query.Plan, job: Submit) -> Grace:
    """The grace of a job's plan."""
    windowing = plan.windowing
    if plan.reads_types:  # sources wait for late events, windows over what elements emit need not
        return Grace()
    grace_ms = plan.grace_ms(job.grace_ms)
    if windowing is None or not windowing.changes or job.bounded or windowing.pane_ms < PANE_MS_MIN:
        return Grace(waits_ms=grace_ms)
    at_once = sum(grace_ms // one.slide_ms for one in windowing.sizes)
    if at_once > AMENDED_MAX:
        return Grace(waits_ms=grace_ms, corrects=True)
    return Grace(amends_ms=grace_ms, corrects=True)
