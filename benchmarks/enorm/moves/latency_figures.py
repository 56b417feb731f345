"""Lines of figure 13: latency of windows as owners become busy, and hot keys, which make no owner busy."""

from __future__ import annotations

from statistics import median

import numpy as np

from agent.runtime.model.fields import GROUPS
from benchmarks.report import Comparison, smaller

from .busy_owners import CALM_S, LENGTH_S, BusyOwners, Rule
from .move_costs import PANES, measured_costs
from .owner_rig import Owners, function_of, pane_at, pane_of, placed, timed

NAME = "enorm"
KEYS_OF_GROUP = 50_000
"""Keys of each group (section 7.5)."""
MEASURED_KEYS, QUICK_MEASURED_KEYS = 10_000, 2_500
"""Keys of each group where costs are measured."""
ROUNDS, QUICK_ROUNDS = 3, 1
TIMES = 10.0
"""Least latency where groups move with their state, in times of that where they move instantly."""
RIVALS = {
    "with their state, each 5 minutes": Rule("disruptive", 300.0),
    "with their state, each minute": Rule("disruptive", 60.0),
}
MINUTE_S = 60
TIMELINE = "figure 13, slowest, virtual time"
HOT_KEYS, QUICK_HOT_KEYS = 100_000, 20_000
HOT_TIMES = 9
"""Events of the hot key, in times of those of all keys together."""
AGENTS = 4
ALIKE = 0.9
"""Least time of an owner of keys that are alike, in that of one with a hot key."""


def busy_owners(*, quick: bool) -> list[Comparison]:
    """Latency in virtual time, where groups move instantly, and with their state."""
    measured = QUICK_MEASURED_KEYS if quick else MEASURED_KEYS
    costs = measured_costs(measured, QUICK_ROUNDS if quick else ROUNDS)
    ours = BusyOwners(costs, KEYS_OF_GROUP, Rule("instant", None)).run()
    rivals = {name: BusyOwners(costs, KEYS_OF_GROUP, rule).run() for name, rule in RIVALS.items()}
    lines: list[Comparison] = []
    case = f"figure 13, {KEYS_OF_GROUP:,} keys a group, virtual time:"
    for title, of, target in (
        ("p99 of windows' latency", _p99_s, TIMES),
        ("p99 of windows' delay beyond calm minutes", _p99_delay_s, TIMES),
        ("groups moved", _moved, None),
    ):
        unit = "groups" if of is _moved else "s"
        lines += [
            smaller(NAME, f"{case} {title}", of(ours), unit, name, of(one), target) for name, one in rivals.items()
        ]
    for minute in range(int(CALM_S) // MINUTE_S - 1, int(LENGTH_S) // MINUTE_S):
        value = _slowest_s(ours, minute)
        lines += [
            smaller(NAME, f"{TIMELINE}: {minute + 1}", value, "s", name, _slowest_s(one, minute))
            for name, one in rivals.items()
        ]
    return [*lines, _hot_key(QUICK_HOT_KEYS if quick else HOT_KEYS)]


def _latencies(run: BusyOwners, since_s: float, until_s: float) -> list[float]:
    return [one for one, end_s in zip(run.latency_s, run.ends_s, strict=True) if since_s < end_s <= until_s]


def _p99_s(run: BusyOwners) -> float:
    return float(np.percentile(_latencies(run, CALM_S, LENGTH_S), 99))


def _p99_delay_s(run: BusyOwners) -> float:
    return _p99_s(run) - median(_latencies(run, 0.0, CALM_S))


def _moved(run: BusyOwners) -> float:
    return run.moved


def _slowest_s(run: BusyOwners, minute: int) -> float:
    return max(_latencies(run, minute * MINUTE_S, (minute + 1) * MINUTE_S))


def _hot_key(keys: int) -> Comparison:
    """What an owner needs for the states of some agents where one key has most of the events."""
    hot_s, alike_s = (median(_owner_s(keys, times)) for times in (HOT_TIMES, 0))
    share = HOT_TIMES / (HOT_TIMES + 1)
    case = f"figure 13: an owner's time for a window of {keys:,} keys, one of which has {share:.0%} of the events"
    return smaller(NAME, case, hot_s, "s", "all keys alike", alike_s, ALIKE)


def _owner_s(keys: int, times: int) -> list[float]:
    """Seconds of an owner for each pane, from the states of agents on."""
    version = function_of(2, PANES)
    function, layout = version.function, version.function.layout
    assert layout is not None
    events = pane_of(function, keys)
    hot = events[np.zeros(times * keys, dtype=np.uint32)]
    state = layout.combine([events, hot])
    owners = Owners(version, placed([1] * GROUPS), (1,))
    spent = []
    for number in range(2 * PANES):
        whole, seconds = timed(lambda: function.combine([state] * AGENTS))
        cost = owners.take(pane_at(number), whole)
        spent.append(seconds + cost.answers[1])
    return spent[PANES:]
