"""An agent that cuts the panes of each query in `CUTS`, and chooses nothing else for it."""

from functools import partial

from benchmarks.changed_agents import CUTS, run_changed
from benchmarks.changed_agents.unplanned import leave_plans

if __name__ == "__main__":
    run_changed(partial(leave_plans, CUTS))
