"""Durations of each phase at a setting and a rate, one by one: those measured, scaled by what they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from query.latency.distribution import Distribution
from query.latency.fits import exponential, lognormal
from query.latency.phases import LEVEL_PHASES, MASTER_PHASES, Phase
from query.latency.polling import look_wait
from query.latency.queues import RawMoments, batch_waits, queue_wait, replayed
from query.latency.resources import SHARE_MIN, Amount, LinearCost
from query.latency.setting import AgentClass, Evidence, Measured, Setting, Subtree
from query.latency.tails import Tail

FEW = 100
"""Durations below which a distribution is not believed in its tail: only its mean is, with a wide spread."""
_FEW_SPREAD = 0.5
"""Least coefficient of variation of what few durations tell."""
_PER_QUANTILE = 10
"""Durations beyond a quantile that it takes to read it from a histogram; else it is read from a fitted tail."""
_ALIKE = 1e-3
"""Relative difference of two amounts of work that makes none."""
_KEPT = 256
"""Fitted tails that are kept, as all settings that are compared have the same."""
LATE_WAKE_S = 0.002
"""Mean time by which a timer is assumed to be late."""
ASSUMED_COSTS: Mapping[Phase, LinearCost] = {
    Phase.PARSE: LinearCost(200e-6, row=1e-6, spread=1.0),
    Phase.INSERT: LinearCost(500e-6, row=1e-6, spread=1.0),
    Phase.SEAL: LinearCost(5e-3, group=2e-6, spread=1.0),
    Phase.UPLINK: LinearCost(20e-3, byte=20e-9, spread=1.0),
    Phase.COMBINE: LinearCost(2e-3, row=1e-6, group=1e-6, spread=1.0),
    Phase.FINISH: LinearCost(5e-3, row=1e-6, group=1e-6, spread=1.0),
    Phase.COMMIT: LinearCost(50e-3, spread=1.0),
    Phase.DELIVER: LinearCost(10e-3, spread=1.0),
}
"""Costs where nothing was measured: of the right order on one machine of some years, with a wide spread."""
_READER = (Phase.PARSE, Phase.INSERT)
_KEPT_UP = 0.9
"""Upper bound on the load of a reader that keeps up."""


class KnownPhase(NamedTuple):
    """The durations of a phase, and how well they are known."""

    distribution: Distribution
    evidence: Evidence


@dataclass(frozen=True)
class Parts:
    """Durations of phases at a setting and with classes of agents at some rate, from what was measured at others."""

    setting: Setting
    measured: Measured
    classes: tuple[AgentClass, ...]
    share: float
    """The quantile that is asked for."""

    def agent(self, kind: int) -> dict[Phase, KnownPhase]:
        """The phases at each agent of a class, before its run leaves it."""
        work = {phase: self._reading(phase, kind) for phase in _READER}
        share = self.classes[kind].share
        sealed = self._work(Phase.SEAL, self._tailed(kind, Phase.SEAL), self._seals(kind), share)
        found = {
            Phase.TAIL: self._tail(kind),
            Phase.READ_WAIT: self._read_wait(kind, work),
            **work,
            Phase.CLOSE: KnownPhase(Distribution.constant(self.setting.grace), Evidence.MEASURED),
            Phase.SEAL_WAIT: self._seal_wait(kind),
            Phase.SEAL: sealed,
        }
        return {phase: self._longer(phase, known) for phase, known in found.items()}

    def uplink(self, child: Subtree) -> KnownPhase:
        """The way of a child's run to its parent, in one tree: its own where that is known, and as long as all are
        otherwise.
        """
        amounts = tuple(
            Amount(size=groups / setting.trees * self.measured.group_bytes)
            for setting, groups in self._groups_below(child)
        )
        if child.way is not None:
            cost = self.measured.costs.get(Phase.UPLINK, LinearCost())
            known = cost._replace(fixed=child.way).duration(amounts[0])
            known_way = KnownPhase(known, Evidence.MEASURED if cost.pieces >= FEW else Evidence.SAMPLED)
            return self._longer(Phase.UPLINK, known_way)
        return self._longer(Phase.UPLINK, self._work(Phase.UPLINK, self._linked(Phase.UPLINK), amounts, 1.0))

    def combine(self, node: Subtree) -> KnownPhase:
        """The merge of an agent's run with those of its children, in one tree."""
        share = 0.5 if node.kind is None else self.classes[node.kind].share
        work = self._work(Phase.COMBINE, self._linked(Phase.COMBINE), self._merges(node), share)
        return self._longer(Phase.COMBINE, work)

    def _merges(self, node: Subtree) -> tuple[Amount, ...]:
        inputs = [(Subtree(node.kind), 1), *node.children]
        told = [(self._groups_below(child), number) for child, number in inputs]
        return tuple(
            Amount(
                rows=sum(groups[at][1] * number for groups, number in told) / setting.trees,
                groups=merged / setting.trees,
            )
            for at, (setting, merged) in enumerate(self._groups_below(node))
        )

    def master(self, root: Subtree) -> dict[Phase, KnownPhase]:
        """The phases at a root and behind it."""
        nothing = (Amount(), Amount())
        behind = {
            phase: self._work(phase, self.measured.phases.get(phase), nothing, 1.0)
            for phase in MASTER_PHASES
            if phase is not Phase.FINISH
        }
        finish = self._work(Phase.FINISH, self.measured.phases.get(Phase.FINISH), self._finishes(root), 1.0)
        if self.root_load(root) >= 1:
            finish = KnownPhase(Distribution.constant(math.inf), min(finish.evidence, Evidence.SAMPLED))
        found = {Phase.FINISH: finish} | behind
        return {phase: self._longer(phase, known) for phase, known in found.items()}

    def _longer(self, phase: Phase, known: KnownPhase) -> KnownPhase:
        """The durations of a phase as they are since it takes longer; of one of trees at each level alike."""
        seconds = self.measured.longer.get(phase, 0.0)
        if not seconds:
            return known
        levels = max(1, self.measured.shape.levels) if phase in LEVEL_PHASES else 1
        return KnownPhase(known.distribution + Distribution.constant(seconds / levels), known.evidence)

    def load(self, kind: int) -> float:
        """The share of the time for which an agent's reader is busy. Where its work was measured it kept up: if
        durations alone say that it did not, they are waits for a processor.
        """
        return self._loads[kind]

    @cached_property
    def _loads(self) -> tuple[float, ...]:
        return tuple(map(self._load, range(len(self.classes))))

    def _load(self, kind: int) -> float:
        load = self._reader_load(kind)
        if not self.measured.classes[kind].phases.keys() >= set(_READER):
            return load
        return load / max(1.0, self._then._reader_load(kind) / _KEPT_UP)

    @cached_property
    def _then(self) -> Parts:
        """The durations as they were measured."""
        return Parts(self.measured.setting, self.measured, tuple(self.measured.classes), self.share)

    def _reader_load(self, kind: int) -> float:
        one, setting = self.classes[kind], self.setting
        reading = sum(self._reading(phase, kind).distribution.mean for phase in _READER)
        looks = 2 * reading if setting.on_due else reading
        return looks / setting.look if one.rate > 0 else 0.0

    def whole_load(self, kind: int) -> float:
        """The share of the time for which an agent reads and seals, of that in which it has a processor. Seals count
        with their fitted cost: what was measured of them is also waits, for processors and disks, that overlap.
        """
        share = self.classes[kind].share
        return self.load(kind) + self._busy(Phase.SEAL, self._seals(kind)[0], share) * self.setting.cuts

    def root_load(self, root: Subtree) -> float:
        """The load of a root, which merges and finishes as well."""
        own, share = (0.0, 1.0) if root.kind is None else (self.whole_load(root.kind), self.classes[root.kind].share)
        merging = self._busy(Phase.COMBINE, self._merges(root)[0], share) if root.children else 0.0
        return own + merging * self.setting.cuts + self._busy(Phase.FINISH, self._finishes(root)[0], share)

    def _busy(self, phase: Phase, amount: Amount, share: float) -> float:
        """The share of the time that work of this amount takes once in a pane; 0 if its cost is not known."""
        cost = self.measured.costs.get(phase)
        return 0.0 if cost is None else cost.seconds(amount) / share / self.measured.pane

    def _before(self, kind: int) -> tuple[tuple[Setting, AgentClass], tuple[Setting, AgentClass]]:
        """The setting and the class now, and as measured."""
        return (self.setting, self.classes[kind]), (self.measured.setting, self.measured.classes[kind])

    def _tail(self, kind: int) -> KnownPhase:
        base, before = self._tailed(kind, Phase.TAIL), self.measured.setting
        setting = self.setting
        phase = self.classes[kind].look_phase
        same = setting.look == before.look and (phase is None or setting.grace == before.grace)
        if base is not None and setting.on_due == before.on_due and (setting.on_due or same):
            return _trusted(base)
        if setting.on_due:
            return KnownPhase(exponential(LATE_WAKE_S, 0.0), Evidence.ASSUMED)
        after = None if phase is None else phase - setting.grace
        return KnownPhase(look_wait(setting.look, self.measured.pane, after), Evidence.SAMPLED)

    def _reading(self, phase: Phase, kind: int) -> KnownPhase:
        """Work on the lines that the last look finds: all since the look before, or, on due, anything up to that."""
        amounts = tuple(
            Amount(rows=max(one.rate * setting.look / (2 if setting.on_due else 1), min(one.rate, 1.0)))
            for setting, one in self._before(kind)
        )
        return self._work(phase, self._tailed(kind, phase), amounts, self.classes[kind].share)

    def _read_wait(self, kind: int, work: Mapping[Phase, KnownPhase]) -> KnownPhase:
        """The wait of blocks at an agent's reader: what was measured, which is also that for a thread, and the queue of
        blocks where that is longer now, or shorter.
        """
        setting, before, one = self.setting, self.measured.setting, self.classes[kind]
        same = setting.look == before.look and setting.on_due == before.on_due
        base = self._tailed(kind, Phase.READ_WAIT)
        if base is not None and same and _alike(one.rate, self.measured.classes[kind].rate):
            return _trusted(base)
        queue = self._queue(kind, work)
        if base is None or one.reads or not math.isfinite(queue.distribution.mean):
            return queue
        work_then = {phase: self._then._reading(phase, kind) for phase in _READER}
        waited = self._then._queue(kind, work_then).distribution.mean
        more = queue.distribution.mean - waited
        if not math.isfinite(waited) or not more:
            return KnownPhase(base, queue.evidence)
        if more < 0:
            return KnownPhase(base.shifted(more), queue.evidence)
        return KnownPhase(
            _trusted(base).distribution + queue.distribution.scaled(more / (more + waited)), queue.evidence
        )

    def _queue(self, kind: int, work: Mapping[Phase, KnownPhase]) -> KnownPhase:
        """The queue of blocks at an agent's reader: replayed if there is what to replay, else by moments."""
        setting, one = self.setting, self.classes[kind]
        evidence = min(min(each.evidence for each in work.values()), Evidence.SAMPLED)
        mean = sum(each.distribution.mean for each in work.values())
        variance = sum(each.distribution.variance for each in work.values())
        if self.load(kind) >= 1 or not math.isfinite(mean + variance):
            return KnownPhase(Distribution.constant(math.inf), evidence)
        if one.reads:
            return self._replayed(kind)
        if setting.on_due:
            return KnownPhase(_rest_of_block(2 * mean, variance, setting.look), evidence)
        between = RawMoments.constant(setting.look)
        return KnownPhase(queue_wait(between, RawMoments.gamma(mean, variance / mean**2), 0.0), evidence)

    def _replayed(self, kind: int) -> KnownPhase:
        one, old = self.classes[kind], self.measured.classes[kind]
        costs = [self.measured.costs.get(phase, ASSUMED_COSTS[phase]) for phase in _READER]
        rows = [Amount(rows=each.rate * setting.look) for setting, each in self._before(kind)]
        longer = _ratio(sum(cost.seconds(rows[0]) for cost in costs), sum(cost.seconds(rows[1]) for cost in costs))
        apart = _ratio(self.setting.look, self.measured.setting.look)
        pairs = [(between * apart, service * longer) for between, service in one.reads]
        if sum(service for _, service in pairs) >= sum(between for between, _ in pairs):
            return KnownPhase(Distribution.constant(math.inf), Evidence.SAMPLED)
        same = _alike(one.rate, old.rate) and _alike(apart, 1.0)
        enough = same and len(pairs) >= FEW
        return KnownPhase(Distribution.of_samples(replayed(pairs)), Evidence.MEASURED if enough else Evidence.SAMPLED)

    def _seal_wait(self, kind: int) -> KnownPhase:
        one = self.classes[kind]
        if self.whole_load(kind) >= 1:
            return KnownPhase(Distribution.constant(math.inf), Evidence.SAMPLED)
        base = self._tailed(kind, Phase.SEAL_WAIT)
        if base is not None:
            return _trusted(base)
        return KnownPhase(batch_waits([*one.sealed_before, Distribution.constant(0.0)])[-1], Evidence.SAMPLED)

    def _seals(self, kind: int) -> tuple[Amount, ...]:
        counts = [
            (one.rate * self.measured.pane / setting.cuts, self.measured.groups) for setting, one in self._before(kind)
        ]
        return tuple(
            Amount(rows, law.groups(rows), law.groups(rows) * self.measured.group_bytes) for rows, law in counts
        )

    def _finishes(self, root: Subtree) -> tuple[Amount, ...]:
        longest = max(self.measured.window, self.measured.pane) / self.measured.pane
        pieces = []
        for setting, last in self._groups_below(root):
            rows = sum(self._rows(root, now=setting is self.setting)) * self.measured.pane
            pieces.append(Amount(last / setting.trees, self.measured.groups.groups(rows * longest) / setting.trees))
        return tuple(pieces)

    def _rows(self, node: Subtree, now: bool) -> list[float]:
        classes = self.classes if now else self.measured.classes
        return [classes[kind].rate * number for kind, number in node.agents.items()]

    def _groups_below(self, node: Subtree) -> tuple[tuple[Setting, float], tuple[Setting, float]]:
        """Groups in the last cut of a pane of all agents in a subtree: now, and as measured."""
        now, before = self.setting, self.measured.setting
        pane, law = self.measured.pane, self.measured.groups
        return (
            (now, law.groups(sum(self._rows(node, now=True)) * pane / now.cuts)),
            (before, law.groups(sum(self._rows(node, now=False)) * pane / before.cuts)),
        )

    def _work(self, phase: Phase, base: Distribution | None, amounts: tuple[Amount, ...], share: float) -> KnownPhase:
        """The durations of work of an amount: those measured for another amount, in proportion to what both cost; for
        merges, whose amounts differ from level to level, the fitted cost if there is one.
        """
        now, before = amounts
        cost = self.measured.costs.get(phase)
        if base is not None and (phase is not Phase.COMBINE or cost is None):
            trusted = _trusted(base)
            model = cost or ASSUMED_COSTS[phase]
            factor = _ratio(model.seconds(now), model.seconds(before))
            if _alike(factor, 1.0):
                return trusted
            return KnownPhase(trusted.distribution.scaled(factor), min(trusted.evidence, Evidence.SAMPLED))
        if cost is not None:
            return KnownPhase(cost.duration(now, share), Evidence.SAMPLED if cost.pieces > 0 else Evidence.ASSUMED)
        return KnownPhase(ASSUMED_COSTS[phase].duration(now, share), Evidence.ASSUMED)

    def _tailed(self, kind: int, phase: Phase) -> Distribution | None:
        """The durations of a phase at the agents of a class that were measured."""
        one = self.classes[kind]
        return _extended(one.phases.get(phase), (1 - self.share) / one.agents)

    def _linked(self, phase: Phase) -> Distribution | None:
        """The durations of a phase at each level that were measured; there are as many of them as agents."""
        agents = sum(one.agents for one in self.classes)
        return _extended(self.measured.phases.get(phase), (1 - self.share) / agents)


@lru_cache(_KEPT)
def _extended(base: Distribution | None, beyond: float) -> Distribution | None:
    """Durations that were measured, with a fitted tail where they do not tell what so small a share of them exceeds."""
    if base is None or not FEW <= base.count < math.inf or base.count * beyond >= _PER_QUANTILE:
        return base
    tail = Tail.fitted([base])
    return base if tail is None else tail.put_on(base)


def _trusted(base: Distribution) -> KnownPhase:
    """Durations, and wider ones where they are few."""
    if base.count >= FEW:
        return KnownPhase(base, Evidence.MEASURED)
    if base.count <= 0 or base.beyond or not base.mean:
        return KnownPhase(base, Evidence.ASSUMED if base.count <= 0 else Evidence.SAMPLED)
    wide = max(base.variance, (_FEW_SPREAD * base.mean) ** 2)
    return KnownPhase(lognormal(base.mean, wide, base.count), Evidence.SAMPLED)


def _rest_of_block(mean: float, variance: float, interval: float) -> Distribution:
    """The wait of a look that comes at any time between two others, behind the block that the first of them found."""
    service = lognormal(mean, variance)
    since = (np.arange(32) + 0.5) / 32 * interval
    return Distribution.of_survival(
        0.0, lambda seconds: np.mean([service.exceeds(seconds + passed) for passed in since], axis=0), 0.0
    )


def _ratio(now: float, before: float) -> float:
    """The ratio of two amounts, limited where one of them is next to nothing."""
    if now == before:
        return 1.0
    return min(max(now / before, SHARE_MIN), 1 / SHARE_MIN**2) if before > 0 else 1.0


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(abs(one), abs(other))
