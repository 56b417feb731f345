"""An agent whose programs may use a whole core for as long as they want: others end them after half a minute of it."""

from functools import partial

from benchmarks.changed_agents import run_changed


def give_room() -> None:
    """Lets programs have all the time of a core."""
    from agent.daemon import run
    from agent.programs.commands import ProgramLimits

    limits = ProgramLimits()
    setattr(run, ProgramLimits.__name__, partial(ProgramLimits, cpu_s=2 * limits.cpu_window_s))


if __name__ == "__main__":
    run_changed(give_room)
