"""An agent whose programs may use a whole core for as long as they want: else they are ended after half a minute of it.

`python -m benchmarks.latency.agents.roomy agent --config FILE`. ELF has no switch for that.
"""

import runpy
from functools import partial

from elf.commands.agent import limit_threads
from elf.demo.agents.__main__ import hold_on


def give_room() -> None:
    """Lets programs have all the time of a core."""
    limit_threads()
    from agent.daemon import run
    from agent.programs.commands import ProgramLimits

    limits = ProgramLimits()
    setattr(run, ProgramLimits.__name__, partial(ProgramLimits, cpu_s=2 * limits.cpu_window_s))


if __name__ == "__main__":
    hold_on()
    give_room()
    runpy.run_module("elf", run_name="__main__")
