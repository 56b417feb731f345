"""Agents with another object in the place of one of ELF's: ELF has no switches for that.

`python -m benchmarks.changed_agents.NAME agent --config FILE`. They are no part of the benchmarks that start them: so
agents load nothing of those.
"""

import runpy
from collections.abc import Callable

from elf.commands.agent import limit_threads
from elf.demo.agents.__main__ import hold_on

EDF, ROOMY, TIMED, UNMEASURED, UNPLANNED, CUTTING = (
    f"{__name__}.{name}" for name in ("edf", "roomy", "timed", "unmeasured", "unplanned", "cutting")
)
"""The modules, as `benchmarks.agents.running_agents` takes them."""
CUTS = 2
"""Panes in which `CUTTING` cuts each."""
SCHEDULING_FILE = "scheduling.json"
"""The file in which `TIMED` tells what schedulers take, beside its configuration."""


def run_changed(change: Callable[[], object]) -> None:
    """Runs the `elf` command on a life line once something in it is changed."""
    hold_on()
    limit_threads()
    change()
    runpy.run_module("elf", run_name="__main__")
