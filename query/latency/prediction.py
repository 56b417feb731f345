"""The latency of a window at a setting: from its end to its delivery, and which phase binds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

from query.latency.distribution import Distribution, greatest, last_shares, mixture, total
from query.latency.parts import KnownPhase, Parts
from query.latency.phases import AGENT_PHASES, MASTER_PHASES, Phase
from query.latency.setting import Evidence, Measured, Setting, Subtree

_PART_MIN = 0.05
"""Share of the quantile below which a phase has no say in how well all is known."""
_UNLIKELY = 1e-3
"""Probability of being the last below which a way has no say in the phases of the last part."""
_ANCHOR_MIN = 100
"""Windows below which all of a latency is not told from them."""
_SPREAD_HIGH = 0.95
"""Quantile whose distance from the median is the spread of a latency."""
_FACTOR_MAX = 4.0
"""Most by which a latency may be longer, or wider, than its phases say."""
_RATE_STEPS = 24
"""Halvings of the interval in which the largest rate is sought, and before that doublings or halvings of the rate."""
_RATE_PRECISION = 0.01


@dataclass(frozen=True, slots=True)
class PredictedPhase:
    """A phase by itself: mean (s), variance (s²) and quantile (s), the part (s) of the window's quantile that is due to
    it, and how well it is known. Phases of a tree are sums over its levels.
    """

    mean: float
    variance: float
    quantile: float
    part: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Prediction:
    """The latency of a window: `distribution` of all of it, its `quantile` (s) for a `share` of windows, each phase,
    the one that binds, how well what matters is known, and the share of the time for which the busiest reader is busy.
    """

    setting: Setting
    share: float
    distribution: Distribution
    phases: Mapping[Phase, PredictedPhase]
    binding: Phase
    evidence: Evidence
    load: float

    @property
    def mean(self) -> float:
        """Mean latency (s); infinite where an agent cannot keep up."""
        return self.distribution.mean

    @property
    def quantile(self) -> float:
        """The latency (s) that the share of windows does not exceed; infinite where an agent cannot keep up."""
        return self.distribution.quantile(self.share)

    def on_path(self) -> dict[Phase, float]:
        """The mean of each phase (s) on the path of the part that comes last, which is not the mean of all agents'.
        What waiting for the last one adds is shared out by variances, as it is in each phase's part of the quantile.
        """
        means = {phase: one.mean for phase, one in self.phases.items()}
        summed = sum(means.values())
        beyond = self.quantile - summed
        if not math.isfinite(self.mean + self.quantile) or beyond <= 0:
            return means
        longer = (self.mean - summed) / beyond
        return {phase: max(means[phase] + longer * (one.part - one.mean), 0.0) for phase, one in self.phases.items()}


def predict(setting: Setting, measured: Measured, share: float = 0.99, rate: float | None = None) -> Prediction:
    """The latency of a window at a setting, with `rate` lines a second in all agents together, or as measured.

    An agent's run is ready after the sum of its phases; an agent of the tree has all runs after the longest of its own
    and its children's, which are independent, and of each child's way (`greatest`), and passes them on merged; roots
    finish their parts. The last of all trees counts, as if no agent were in two of them, which is a little more than
    true. The master commits and delivers. Without measurements, or lines, the answer is a wide one that is marked as
    assumed; where an agent cannot keep up it is infinite. O(phases · classes · buckets²) and as much for each kind of
    subtree; some 50 ms where links are alike, 2 s for a tree of 1,280 whose links are known. Raises ValueError unless
    0 < share < 1, and for a rate below 0.
    """
    parts = parts_at(setting, measured, share, rate)
    root = measured.shape
    agents = {kind: parts.agent(kind) for kind in root.agents}
    paths = {kind: total(known.distribution for known in phases.values()) for kind, phases in agents.items()}
    master = parts.master(root)
    merged = _Merged(paths, parts, root)
    trees = Counter(measured.shapes(setting.trees))
    finish = master[Phase.FINISH].distribution
    finished = [(merged.at(tree).ready + finish, number) for tree, number in trees.items()]
    summed = total([greatest(finished), *(master[phase].distribution for phase in MASTER_PHASES[1:])])
    latency = _as_observed(summed, measured, setting.grace)
    last = 1 - (1 - share) / max(sum(root.agents.values()), 1)
    critical = max(paths, key=lambda kind: (paths[kind].quantile(last), kind))
    along = {phase: [known] for phase, known in (agents[critical] | merged.levels(trees) | master).items()}
    phases, binding = _shared_out(latency.quantile(share), along, share)
    matter = [one.evidence for one in phases.values() if not one.part < _PART_MIN * latency.quantile(share)]
    load = max(parts.load(kind) for kind in root.agents)
    return Prediction(setting, share, latency, phases, binding, min(matter, default=Evidence.ASSUMED), load)


def anchored(measured: Measured, latency: Distribution) -> Measured:
    """Measurements of phases with that of all of them together, at the same setting.

    Phases of agents that share processors, or wait for the same thing, are not independent, and what is between phases
    is not measured. Both are much the same at settings that are alike: so predictions are as far from the sum of their
    phases as this one is. Too few windows change nothing.
    """
    plain = replace(measured, mean_factor=1.0, spread_factor=1.0)
    if latency.count < _ANCHOR_MIN or not math.isfinite(latency.mean):
        return plain
    found, grace = predict(measured.setting, plain).distribution, measured.setting.grace
    if not math.isfinite(found.mean):
        return plain
    spreads = [one.quantile(_SPREAD_HIGH) - one.quantile(0.5) for one in (latency, found)]
    return replace(
        measured,
        mean_factor=_limited(latency.mean - grace, found.mean - grace),
        spread_factor=_limited(spreads[0], spreads[1]),
    )


def _limited(value: float, other: float) -> float:
    return min(max(value / other, 1 / _FACTOR_MAX), _FACTOR_MAX) if value > 0 and other > 0 else 1.0


def _as_observed(latency: Distribution, measured: Measured, grace: float) -> Distribution:
    """Longer and wider beyond GRACE, as the latency was that was measured; no shorter than GRACE."""
    if (measured.mean_factor, measured.spread_factor) == (1.0, 1.0) or not math.isfinite(latency.mean):
        return latency
    beyond = latency.shifted(-grace)
    off = measured.mean_factor * beyond.mean - measured.spread_factor * beyond.mean
    return beyond.scaled(measured.spread_factor).shifted(off).shifted(grace)


def parts_at(setting: Setting, measured: Measured, share: float, rate: float | None) -> Parts:
    """The durations of phases that `predict` is made of. Raises ValueError as it does."""
    if not 0 < share < 1:
        raise ValueError(f"a share of windows is between 0 and 1, not {share}")
    if rate is not None and not 0 <= rate < math.inf:
        raise ValueError(f"a rate is 0 lines a second or more, not {rate}")
    classes = tuple(measured.classes) if rate is None else measured.at_rate(rate)
    return Parts(setting, measured, classes, share)


def estimate(setting: Setting, measured: Measured, share: float, rate: float | None) -> float:
    """The quantile (s) as if all were normal, by means and variances: near enough to put settings in order, at a tenth
    of the time of `predict`.
    """
    parts = parts_at(setting, measured, share, rate)
    root = measured.shape
    number = max(sum(root.agents.values()), 1)
    several = [parts.agent(kind) for kind in root.agents]
    path = max(several, key=lambda phases: sum(known.distribution.mean for known in phases.values()))
    along = _along(root, path, parts) | {phase: [known] for phase, known in parts.master(root).items()}
    mean = sum(one.distribution.mean for several in along.values() for one in several)
    agent = sum(one.distribution.variance for phase in AGENT_PHASES for one in along[phase])
    rest = sum(one.distribution.variance for phase in along.keys() - set(AGENT_PHASES) for one in along[phase])
    if not math.isfinite(mean + agent + rest):
        return math.inf
    normal = NormalDist()
    last, one = normal.inv_cdf(share ** (1 / (number * setting.trees))), normal.inv_cdf(share)
    beyond, spread = mean - setting.grace, math.hypot(last * math.sqrt(agent), one * math.sqrt(rest))
    return setting.grace + measured.mean_factor * beyond + measured.spread_factor * spread


def largest_rate(setting: Setting, measured: Measured, limit: float, share: float = 0.99) -> float:
    """The paper's Λ: the most lines a second, in all agents together, for which the quantile stays within a limit (s);
    0 if it does for none, infinite if it does for 16 million times the rate now. By bisection, to 1 %; some 20
    predictions. Raises ValueError for a share as `predict` does.
    """

    def holds(rate: float) -> bool:
        return predict(setting, measured, share, rate).quantile <= limit

    low, high = 0.0, max(measured.rate, 1.0)
    if holds(high):
        for _ in range(_RATE_STEPS):
            low, high = high, high * 2
            if not holds(high):
                break
        else:
            return math.inf
    elif not holds(0.0):
        return 0.0
    for _ in range(_RATE_STEPS):
        if high - low <= _RATE_PRECISION * high:
            break
        middle = math.sqrt(low * high) if low > 0 else high / 8
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class _Arrival(NamedTuple):
    """The time at which an agent has merged the runs of its subtree, and what of that are uplinks and merges on the way
    of the part that comes last.
    """

    ready: Distribution
    uplink: KnownPhase
    combine: KnownPhase


class _Merged:
    """Runs as they are merged up trees, from the paths of agents of each class. Subtrees that are alike count once. A
    root without children takes as long for its own run as for a merge.
    """

    def __init__(self, paths: Mapping[int, Distribution], parts: Parts, root: Subtree) -> None:
        self._paths, self._parts = paths, parts
        self._is_alone = not root.children
        self._known: dict[Subtree, _Arrival] = {}

    def at(self, node: Subtree) -> _Arrival:
        """The run of an agent's whole subtree."""
        if node not in self._known:
            self._known[node] = self._merged(node)
        return self._known[node]

    def _merged(self, node: Subtree) -> _Arrival:
        none = KnownPhase(Distribution.constant(0.0), Evidence.MEASURED)
        own = none.distribution if node.kind is None else self._paths[node.kind]
        if not node.children and not self._is_alone:
            return _Arrival(own, none, none)
        work = self._parts.combine(node)
        arrivals, uplinks, merges = [(own, 1.0)], [none], [none]
        for child, number in node.children:
            way, below = self._parts.uplink(child), self.at(child)
            arrivals.append((below.ready + way.distribution, float(number)))
            uplinks.append(_both(below.uplink, way))
            merges.append(below.combine)
        shares = last_shares(arrivals)
        ready = greatest(arrivals) + work.distribution
        return _Arrival(ready, _mixed(uplinks, shares), _both(_mixed(merges, shares), work))

    def levels(self, trees: Mapping[Subtree, int]) -> dict[Phase, KnownPhase]:
        """Uplinks and merges on the way of the part that comes last of all."""
        several = [self.at(tree) for tree in trees]
        shares = last_shares([(one.ready, float(number)) for one, number in zip(several, trees.values(), strict=True)])
        return {
            Phase.UPLINK: _mixed([one.uplink for one in several], shares),
            Phase.COMBINE: _mixed([one.combine for one in several], shares),
        }


def _both(one: KnownPhase, other: KnownPhase) -> KnownPhase:
    return KnownPhase(one.distribution + other.distribution, min(one.evidence, other.evidence))


def _mixed(several: Sequence[KnownPhase], shares: Sequence[float]) -> KnownPhase:
    """One of several, of which the unlikely are left out."""
    likely = [(one, share) for one, share in zip(several, shares, strict=True) if share >= _UNLIKELY]
    mixed = (
        likely[0][0].distribution if len(likely) == 1 else mixture((one.distribution, share) for one, share in likely)
    )
    return KnownPhase(mixed, min(one.evidence for one, _ in likely))


def _along(root: Subtree, agent: Mapping[Phase, KnownPhase], parts: Parts) -> dict[Phase, list[KnownPhase]]:
    """The phases of an agent, and of each level on the longest way up the tree."""
    found = {phase: [known] for phase, known in agent.items()}
    found[Phase.UPLINK], found[Phase.COMBINE] = [], [] if root.children else [parts.combine(root)]
    node = root
    while node.children:
        found[Phase.COMBINE].append(parts.combine(node))
        node, _ = max(node.children, key=lambda child: (child[0].longest_way, child[0].levels, child[1]))
        found[Phase.UPLINK].append(parts.uplink(node))
    return found


def _shared_out(
    quantile: float, along: Mapping[Phase, list[KnownPhase]], share: float
) -> tuple[dict[Phase, PredictedPhase], Phase]:
    """The quantile as a sum of parts: each phase has its mean, and of what the quantile exceeds their sum as much as it
    has of the variances, as a sum of normal variables has. What waiting for the last agent costs is in it.
    """
    summed = {phase: total(one.distribution for one in several) for phase, several in along.items()}
    means = {phase: one.mean for phase, one in summed.items()}
    variances = {phase: one.variance for phase, one in summed.items()}
    mean, variance = sum(means.values()), sum(variances.values())
    found = {}
    for phase in Phase:
        weight = variances[phase] / variance if 0 < variance < math.inf else means[phase] / mean if mean else 0.0
        part = max(means[phase] + (quantile - mean) * weight, 0.0) if math.isfinite(quantile) else means[phase]
        evidence = min((one.evidence for one in along[phase]), default=Evidence.MEASURED)
        found[phase] = PredictedPhase(means[phase], variances[phase], summed[phase].quantile(share), part, evidence)
    return found, max(Phase, key=lambda phase: (found[phase].part, -phase))
