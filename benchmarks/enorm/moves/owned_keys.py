"""The busiest agent's work where keys have owners, beside that of a master that makes all windows."""

from __future__ import annotations

from statistics import median

from agent.runtime.model.placement import KeyMoves
from benchmarks.report import Comparison, smaller

from .owner_rig import Owners, function_of, pane_at, pane_of

OWNERS = 4
KEYS, QUICK_KEYS = 4_000_000, 200_000
WINDOW_PANES = 4
"""Panes of a window: with one more, a master that owns all keys holds more than open windows may take (2 GiB)."""
PANES = 3
"""Panes that are measured, after as many as a window has."""
GAIN = 2.5
"""Least work of a master alone, in that of the busiest agent of four: 0.4 of it are aimed at."""
_MIB = 1 << 20


def owned_keys(*, quick: bool) -> list[Comparison]:
    """The work of a master that makes all windows, beside that of the busiest of four agents that own the keys, and the
    memory that this one's open windows take."""
    keys = QUICK_KEYS if quick else KEYS
    alone_s, alone_mib = _busiest(1, keys)
    busiest_s, busiest_mib = _busiest(OWNERS, keys)
    case = f"windows of {keys:,} keys, {OWNERS} owners: "
    rival = "all at the master"
    return [
        smaller("enorm", f"{case}the busiest agent's time for a window", busiest_s, "s", rival, alone_s, GAIN),
        smaller("enorm", f"{case}memory of an agent's open windows", busiest_mib, "MiB", rival, alone_mib),
    ]


def _busiest(number: int, keys: int) -> tuple[float, float]:
    """Seconds of the busiest agent for a window, and MiB of the open windows of an owner; the master is one of the
    owners, and shows."""
    version = function_of(max(2, number), WINDOW_PANES)
    owners = Owners(version, KeyMoves(), range(number))
    state = pane_of(version.function, keys)
    times: list[float] = []
    for index in range(WINDOW_PANES + PANES):
        cost = owners.take(pane_at(index), state)
        times.append(max(cost.shown_s * (tree == 0) + seconds for tree, seconds in cost.answers.items()))
    return median(times[WINDOW_PANES:]), owners.memory_bytes / _MIB
