"""An agent that does not measure how long its panes take: no path goes with its runs, so nothing above is counted."""

from benchmarks.changed_agents import run_changed


def leave_unmeasured() -> None:
    """Puts an object in the place of the one that times panes which does nothing."""
    from agent.runtime.ingest import operator_pool
    from agent.runtime.ingest.seal_timing import SealTiming

    class NoTiming(SealTiming):
        def close(self, upto: int, pane_ms: int | None, grace_ms: int) -> None:
            """Leaves the path out."""

        def begin(self) -> None:
            """Does nothing."""

        def inserted(self) -> None:
            """Does nothing."""

    setattr(operator_pool, SealTiming.__name__, NoTiming)


if __name__ == "__main__":
    run_changed(leave_unmeasured)
