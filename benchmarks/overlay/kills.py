"""Figure 10c of the paper: a tenth of the nodes fail at once; time until the others have recovered.

Every survivor is in some trees. It is an orphan of one while its parents do not lead to the currently right root. The
state is sampled four times a second; anything wrong in one sample counts as right from the next. A node that has not
recovered after a minute counts with that minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report import Comparison
from overlay import Id

from .lines import TARGET_NODES, at_most, beside, quantile, size
from .population import STEP_S, Population, progress
from .truth import depths, wrong_leaf_sets

SHARE = 0.1
QUIET_S = 4.0
LIMIT_S = 60.0
HEALED_TARGET_S = 10.0
TAKE_OVER_TARGET_S = 5.0
FLAT_TARGET = 1.5
PAPER_S = 7.0
SHARES = {"p50": 0.5, "p99": 0.99, "all": 1.0}
WAYS = SILENT, REFUSED = "silent", "refused"
"""Ways to fail: a power failure, which the network does not report; ended processes, to which connections are
refused.
"""


@dataclass(frozen=True, slots=True)
class Healing:
    """Seconds until everything was right: by orphan, by tree whose root failed, and all leaf sets."""

    orphans_s: list[float]
    take_over_s: list[float]
    leaf_sets_s: float


def measure(population: Population, keys: Sequence[Id], way: str) -> Healing:
    """Kill a tenth, including the roots of half of the trees, and observe the others."""
    ring = population.ring
    roots = {ring.closest(key) for key in keys[::2]}
    victims = [population.live[node_id] for node_id in roots]
    victims += [node for node in population.some(SHARE) if node.peer.node_id not in roots]
    victims = victims[: max(1, round(SHARE * len(population.live)))]
    population.kill(victims, is_silent=way == SILENT)
    dead = {node.peer.node_id for node in victims}
    return _watch(population, keys, {key for key in keys if ring.closest(key) in dead})


def _watch(population: Population, keys: Sequence[Id], headless: set[Id]) -> Healing:
    start, ring = population.now, population.ring
    orphans: dict[tuple[int, Id], float] = {}
    take_over = dict.fromkeys(headless, 0.0)
    leaf_sets = since = 0.0
    while since < max([leaf_sets, *orphans.values(), *take_over.values()]) + QUIET_S:
        if since > LIMIT_S:
            progress(f"seed {population.seed}, {len(ring)} nodes: not whole {LIMIT_S:g} s after a kill")
            break
        right_until = since + STEP_S
        for key in keys:
            under_root = depths(key, population.live, ring)
            orphans.update(((node_id, key), right_until) for node_id in population.live if node_id not in under_root)
            if key in headless and ring.closest(key) not in under_root:
                take_over[key] = right_until
        if wrong_leaf_sets(population.live, ring):
            leaf_sets = right_until
        population.run(STEP_S)
        since = population.now - start
    return Healing([*orphans.values()], [*take_over.values()], leaf_sets)


def orphans(way: str, share: str) -> str:
    """Return the label of a curve."""
    return f"orphans re-attached, {way}, {share}"


def leaf_sets(way: str) -> str:
    """Return the label of a curve."""
    return f"all leaf sets right, {way}"


def take_over(way: str) -> str:
    """Return the label of a curve."""
    return f"take-over of a dead root, {way}"


def lines(way: str, nodes: int, healings: Sequence[Healing]) -> list[Comparison]:
    """Return the lines: orphans of all seeds together, leaf sets and roots of the worst seed."""
    has_targets = nodes == TARGET_NODES
    healed, taken_over = (HEALED_TARGET_S, TAKE_OVER_TARGET_S) if has_targets else (None, None)
    times = [time for healing in healings for time in healing.orphans_s]
    report = [
        at_most(f"{orphans(way, name)}: {size(nodes)}", quantile(times, share), "s", healed if share == 1 else None)
        for name, share in SHARES.items()
    ]
    if has_targets:
        report.append(beside(report[-1].case, report[-1].value, "s", "ELF's paper, fault recovery", PAPER_S))
    whole = max(healing.leaf_sets_s for healing in healings)
    rooted = max((time for healing in healings for time in healing.take_over_s), default=0.0)
    report.append(at_most(f"{leaf_sets(way)}: {size(nodes)}", whole, "s", healed))
    report.append(at_most(f"{take_over(way)}: {size(nodes)}", rooted, "s", taken_over))
    return report


def growth(report: Sequence[Comparison]) -> list[Comparison]:
    """Return the ratio of times at the largest and the smallest size."""
    found: list[Comparison] = []
    for label in (orphans(way, "p99") for way in WAYS):
        curve = [line for line in report if line.case.startswith(f"{label}: ")]
        if len(curve) > 1 and curve[0].value:
            ends = [line.case.partition(": ")[2] for line in (curve[-1], curve[0])]
            ratio = curve[-1].value / curve[0].value
            found.append(at_most(f"{label}, {ends[0]} over {ends[1]} nodes", ratio, "x", FLAT_TARGET))
    return found
