"""Predictions against simulated fleets of 128 and 1,280 agents, whose links are those of PlanetLab (Figures 6a to 6e).

Production agents are too slow for that in Python: 1,280 of them take seconds of a processor for each window. So trees
are those of production nodes that have joined a production overlay, with its delays, and what passes in them is a
simulation of the phases that shares no code with the model (`window_simulation`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.report import Comparison
from query.latency import (
    AgentClass,
    Distribution,
    HeapsLaw,
    LinearCost,
    Measured,
    Phase,
    Setting,
    Subtree,
    balanced_tree,
    predict,
    tree_of,
)

from .accuracy import NAME, Bounds, Judged, Latency, lines_of, phase_lines
from .planetlab import ROUND_TRIPS, has_delays, planetlab_trees
from .window_simulation import JITTER, Links, Record, Truth, simulated

BOUNDS = Bounds(0.1, 0.2, 95.0, 95.0)
PHASES_PERCENT = 95.0
PER_AGENT = (Phase.TAIL, Phase.READ_WAIT, Phase.PARSE, Phase.INSERT, Phase.SEAL)
FLEET = "simulated fleets"
KIND = "simulated fleets, phases of agents in trees of production nodes with delays of PlanetLab, windows"


@dataclass(frozen=True, slots=True)
class Extent:
    """Numbers of agents with fleets of each, settings of each fleet, and windows of each setting."""

    fleets: Sequence[tuple[int, int]]
    settings: int
    windows: int


FULL = Extent(((128, 5), (1_280, 3)), 3, 400)
QUICK = Extent(((128, 3), (1_280, 1)), 2, 300)
BASE_WINDOWS = 400
CALM = 0.3
"""Share of the rate with which the first windows are measured, so that costs are fitted to pieces of two sizes."""


def model_simulated(*, quick: bool = False) -> list[Comparison]:
    """The errors of predictions of settings that were not measured."""
    if not has_delays():
        print(f"no {ROUND_TRIPS}: the figure is left out (ELF_REAL_LOGS names the folder)", file=sys.stderr)
        return []
    extent = QUICK if quick else FULL
    judged = [
        one
        for agents, fleets in extent.fleets
        for seed in range(fleets)
        for one in _fleet(agents, 1_000 * agents + seed, extent)
    ]
    windows = Comparison(NAME, KIND, extent.windows * len(judged), "windows")
    return [windows, *phase_lines(FLEET, judged, PHASES_PERCENT), *lines_of(FLEET, judged, BOUNDS)]


def _fleet(agents: int, seed: int, extent: Extent) -> list[Judged]:
    """A fleet that is measured at one setting, and the others."""
    rng = np.random.default_rng(seed)
    truth = _truth(agents, rng)
    now = _setting(rng, truth)
    record = simulated(truth, now, BASE_WINDOWS, rng)
    for phase, pieces in simulated(truth, now, BASE_WINDOWS // 4, rng, CALM).pieces.items():
        record.pieces[phase] = [*pieces[:: max(1, len(pieces) // 500)], *record.pieces[phase]]
    known = calibrated(truth, now, record)
    judged = []
    for _ in range(extent.settings):
        other, speed = _setting(rng, truth), float(rng.choice([0.7, 1.0, 1.4]))
        found = predict(other, known, 0.99, known.rate * speed)
        keys = known.groups.groups(known.rate * speed * known.pane)
        one = Judged.before(label_of(truth, other, speed), found, agents, keys)
        record = simulated(truth, other, extent.windows, rng, speed)
        one.after(Latency.of(record.latencies), _phases(record))
        judged.append(one)
    return judged


def _truth(agents: int, rng: np.random.Generator) -> Truth:
    """A fleet as it is: one kind of agents, or a fifth of them busier than the others."""

    def log(low: float, high: float) -> float:
        return float(math.exp(rng.uniform(math.log(low), math.log(high))))

    rate, busy = log(20, 1_000), agents // 5
    return Truth(
        kinds=((agents, rate),) if rng.random() < 0.5 else ((agents - busy, rate), (busy, rate * 3)),
        fanout=2,
        pane=float(rng.choice([0.5, 1.0, 2.0])),
        share=float(rng.uniform(0.5, 1.0)),
        parse=(log(1e-4, 5e-4), log(1e-6, 2e-5)),
        insert=(log(1e-4, 5e-4), log(1e-6, 2e-5)),
        seal=(log(1e-3, 1e-2), log(1e-6, 2e-5)),
        combine=(log(1e-3, 5e-3), log(2e-7, 2e-6)),
        finish=(log(1e-3, 1e-2), log(1e-6, 5e-6)),
        uplink=(0.0, 0.0),
        commit=(0.0, 0.0),
        spread=float(rng.uniform(0.1, 0.8)),
        groups=(log(2, 20), float(rng.uniform(0.4, 0.8))),
        other_seals=tuple(log(1e-3, 2e-2) for _ in range(int(rng.integers(0, 4)))),
        locked=bool(rng.random() < 0.4),
        links=planetlab_trees(agents),
    )


def _setting(rng: np.random.Generator, truth: Truth) -> Setting:
    cuts = [one for one in (1, 1, 2, 4) if truth.pane / one >= 0.25]
    return Setting(
        float(rng.choice([0.05, 0.125, 0.25, 0.5])),
        float(rng.choice([0.02, 0.05, 0.1, 0.2, 0.5, 1.0])),
        bool(rng.random() < 0.3),
        int(rng.choice(cuts)),
        int(rng.choice([1, 2, len(truth.links)])),
    )


def label_of(truth: Truth, setting: Setting, speed: float) -> str:
    """A setting in words."""
    due = " and on due" if setting.on_due else ""
    return (
        f"{sum(number for number, _ in truth.kinds):,} agents, panes {truth.pane:g} s, "
        f"grace {1000 * setting.grace:g} ms, looks {1000 * setting.look:g} ms{due}, "
        f"{setting.cuts} cuts, {setting.trees} trees, rate x{speed:g}"
    )


def calibrated(truth: Truth, setting: Setting, record: Record) -> Measured:
    """All that a fleet has measured of itself, and nothing of the truth beside it. Of its links, whose delays are no
    random numbers, each agent has measured its own."""
    classes = []
    for number, rate in truth.kinds:
        phases = {phase: Distribution.of_statistics(record.statistics(phase, rate)) for phase in PER_AGENT}
        phases[Phase.SEAL_WAIT] = Distribution.of_statistics(record.statistics(Phase.SEAL_WAIT))
        classes.append(AgentClass(number, rate, phases, truth.share, look_phase=0.0 if truth.locked else None))
    fleet = (Phase.COMMIT, Phase.DELIVER) if truth.links else (Phase.UPLINK, Phase.COMMIT, Phase.DELIVER)
    rows = np.geomspace(min(truth.rates) * truth.pane / 4, sum(truth.rates) * truth.pane, 8)
    trees = [_tree(truth, links) for links in truth.links]
    balanced = balanced_tree(tuple(number for number, _ in truth.kinds), truth.fanout)
    ways = LinearCost(spread=JITTER / math.sqrt(12), pieces=BASE_WINDOWS) if truth.links else LinearCost(1.0)
    costs = {
        phase: record.cost(phase)
        for phase in (Phase.PARSE, Phase.INSERT, Phase.SEAL, Phase.COMBINE, Phase.FINISH)
        if record.pieces[phase]
    }
    return Measured(
        pane=truth.pane,
        setting=setting,
        classes=classes,
        tree=trees[0] if trees else balanced,
        more_trees=trees[1:],
        phases={phase: Distribution.of_statistics(record.statistics(phase)) for phase in fleet},
        costs={Phase.UPLINK: ways} | costs,  # no bytes in these fleets' links
        groups=HeapsLaw.fitted(zip(rows, truth.distinct(rows), strict=True)),
    )


def _tree(truth: Truth, links: Links) -> Subtree:
    rates = [rate for _, rate in truth.kinds]
    kinds = [rates.index(rate) for rate in truth.rates[list(links.order)].tolist()]
    return tree_of(links.parents, kinds, [way * (1 + JITTER / 2) for way in links.ways])


def _phases(record: Record) -> dict[Phase, float]:
    """Means of phases: those of agents over the busiest of them, those of trees over the ways of last parts."""
    busiest: dict[Phase, tuple[float, list[np.ndarray]]] = {}
    for (phase, rate), told in record.phases.items():
        busiest[phase] = max(busiest.get(phase, (-1.0, [])), (rate, told), key=lambda one: one[0])
    means = {phase: float(np.mean(np.concatenate(told))) for phase, (_, told) in busiest.items()}
    return means | {phase: float(told.mean()) for phase, told in record.last_part.items()}
