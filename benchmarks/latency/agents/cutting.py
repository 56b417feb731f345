"""An agent that cuts the panes of each query in `CUTS`, and chooses nothing else for it.

`python -m benchmarks.latency.agents.cutting agent --config FILE`. ELF has no switch for that.
"""

import runpy

from benchmarks.latency.agents.unplanned import leave_plans
from elf.demo.agents.__main__ import hold_on

CUTS = 2


if __name__ == "__main__":
    hold_on()
    leave_plans(CUTS)
    runpy.run_module("elf", run_name="__main__")
