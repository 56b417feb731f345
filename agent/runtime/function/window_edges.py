"""Consolidates the panes of a run between edges of windows, before it leaves its agent (Enorm, section 5.1.1).

Panes between one edge of any window and the next are in the same windows. So their states may be merged into that of
the last of them, and no window has other rows: as if all their events were of that pane. What was counted stays with
each pane, and a run can still be cut anywhere: windows end at edges, where the state is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import Run


def at_edges(function: JobFunction, run: Run) -> Run:
    """The run with one state for the panes between two edges; itself where no window is made of several panes at its
    end alone, or more depends on panes: late events of some, panes of older versions, or a limit of groups that ends
    the job. O(n log n)."""
    windowing = function.plan.windowing
    if windowing is None or not function.is_consolidated or function.refuses_others or run.patches or run.before:
        return run
    panes = run.state["pane"].unique().sort()
    edges = (panes // one.slide_ms + (panes - one.size_ms) // one.slide_ms for one in windowing.sizes)
    slices = reduce(add, edges)
    if panes.len() < 2 or slices.n_unique() == panes.len():
        return run
    last = pl.DataFrame({"pane": panes, "slice": slices}).select("pane", last=pl.col("pane").max().over("slice"))
    moved = run.state.with_columns(pl.col("pane").replace_strict(last["pane"], last["last"]))
    return replace(run, state=function.combine([moved]), encoding=None)
