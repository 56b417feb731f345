"""A simulated fleet that delivers windows, by code that shares nothing with the model: looks, a reader that takes
blocks one by one, seals in a known order, trees with barriers, a master. It also measures itself, as agents do.

It is a simulation of phases, not of agents: in the trees of a production overlay if it has such `Links`, else in
balanced ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from query.latency import ASSUMED_COSTS, Amount, LinearCost, Phase, PhaseStatistics, Setting

WAKE_S = 0.002
JITTER = 0.1
"""A message takes up to so much longer than its link does, as in `overlay.MatrixLatency`."""


@dataclass(frozen=True)
class Links:
    """A tree: `order` has the agent at each place, the root first; `parents` the places of their parents, which come
    before them; `ways` the seconds to those. `held_s`: until neighbours hold a result; `delivered_s`: its way on."""

    order: tuple[int, ...]
    parents: tuple[int, ...]
    ways: tuple[float, ...]
    held_s: float
    delivered_s: float


@dataclass(frozen=True)
class Truth:
    """The fleet as it is: `kinds` are (agents, lines a second each); costs are (fixed, per unit) processor seconds."""

    kinds: tuple[tuple[int, float], ...]
    fanout: int
    pane: float
    share: float
    parse: tuple[float, float]
    insert: tuple[float, float]
    seal: tuple[float, float]
    combine: tuple[float, float]
    finish: tuple[float, float]
    uplink: tuple[float, float]
    commit: tuple[float, float]
    spread: float
    groups: tuple[float, float]
    other_seals: tuple[float, ...]
    locked: bool
    links: tuple[Links, ...] = ()

    def distinct(self, rows: np.ndarray) -> np.ndarray:
        """Groups in so many rows."""
        return np.minimum(self.groups[0] * np.maximum(rows, 0.0) ** self.groups[1], rows)

    @property
    def rates(self) -> np.ndarray:
        """Lines a second of each agent, those of all kinds in turn."""
        spread = sorted(((at + 0.5) / number, rate) for number, rate in self.kinds for at in range(number))
        return np.array([rate for _, rate in spread])


@dataclass
class Record:
    """A run: the latency of each window, and what agents measured of phases and of pieces of work."""

    latencies: np.ndarray
    phases: dict[tuple[Phase, float], list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    pieces: dict[Phase, list[tuple[Amount, float]]] = field(default_factory=lambda: defaultdict(list))
    last_part: dict[Phase, np.ndarray] = field(default_factory=dict)
    """Uplinks and merges, of all levels together, on the way of each window's last part."""
    work_s: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Seconds of a processor that all windows have taken of each agent."""
    sent: float = 0.0
    """Groups that were sent from agent to agent."""

    def statistics(self, phase: Phase, rate: float = 0.0) -> PhaseStatistics:
        """As agents count them, one by one."""
        made = PhaseStatistics()
        for one in np.concatenate(self.phases[phase, rate])[:4_000]:
            made.add(float(one))
        return made

    def cost(self, phase: Phase) -> LinearCost:
        """Fitted to the pieces of work."""
        pieces = self.pieces[phase]
        return LinearCost.fitted(pieces[:: max(1, len(pieces) // 2_000)], ASSUMED_COSTS[phase])


def simulated(truth: Truth, setting: Setting, windows: int, rng: np.random.Generator, speed: float = 1.0) -> Record:
    """Delivers so many windows, with `speed` times the lines."""
    rates = truth.rates * speed
    record = Record(np.empty(0), work_s=np.zeros(len(rates)))
    ends = (np.arange(windows) + 5) * truth.pane
    ready = np.stack(
        [_agent(truth, setting, agent, rate, ends, rng, record) for agent, rate in enumerate(rates)], axis=1
    )
    rows = rng.poisson(np.broadcast_to(rates * truth.pane / setting.cuts, ready.shape)).astype(float)
    sealed = ready + _batch(truth, ready.shape, rng, record) + _sealing(truth, setting, rows, rates, rng, record)
    done = [_tree(truth, setting, number, sealed, rows, rng, record) for number in range(setting.trees)]
    finished = np.array([one[0] for one in done])
    last = finished.argmax(axis=0), np.arange(windows)
    for phase, told in zip((Phase.UPLINK, Phase.COMBINE), zip(*(one[1:] for one in done), strict=True), strict=True):
        record.last_part[phase] = np.array(told)[last]
    if truth.links:
        base = truth.links[0]
        commit, deliver = (each * rng.uniform(1, 1 + JITTER, windows) for each in (base.held_s, base.delivered_s))
    else:
        commit = rng.lognormal(np.log(truth.commit[0]), truth.commit[1], windows)
        deliver = rng.exponential(0.004, windows)
    record.phases[Phase.COMMIT, 0.0].append(commit)
    record.phases[Phase.DELIVER, 0.0].append(deliver)
    record.latencies = finished[last] + commit + deliver - ends
    return record


def _noise(truth: Truth, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.gamma(1 / truth.spread**2, truth.spread**2, shape)


def _agent(
    truth: Truth,
    setting: Setting,
    agent: int,
    rate: float,
    ends: np.ndarray,
    rng: np.random.Generator,
    record: Record,
) -> np.ndarray:
    """The times at which an agent has inserted what closes each pane."""
    until = ends[-1] + setting.grace + 3 * setting.look + 1
    number = int(1.05 * until / setting.look) + 20
    if truth.locked:
        looks = np.arange(number) * setting.look
    else:
        looks = rng.uniform(0, setting.look) + np.cumsum(setting.look * rng.uniform(0.9, 1.1, number))
    due = ends + setting.grace
    if setting.on_due:
        looks = np.sort(np.concatenate((looks, due + rng.exponential(WAKE_S, len(due)))))
    lines = rng.poisson(rate * np.diff(looks, prepend=looks[0] - setting.look)).astype(float)
    parse = (truth.parse[0] + truth.parse[1] * lines) * _noise(truth, lines.shape, rng)
    insert = (truth.insert[0] + truth.insert[1] * lines) * _noise(truth, lines.shape, rng)
    work = (parse + insert) / truth.share
    before = np.cumsum(work) - work
    starts = before + np.maximum.accumulate(looks - before)  # a block waits for those before it
    closing = np.searchsorted(looks, due - 1e-9)
    for phase, told in (
        (Phase.TAIL, looks[closing] - due),
        (Phase.READ_WAIT, (starts - looks)[closing]),
        (Phase.PARSE, parse[closing] / truth.share),
        (Phase.INSERT, insert[closing] / truth.share),
    ):
        record.phases[phase, rate].append(np.maximum(told, 0.0))
    record.work_s[agent] += parse.sum() + insert.sum()
    for phase, took in ((Phase.PARSE, parse), (Phase.INSERT, insert)):
        record.pieces[phase] += [(Amount(rows=n), s) for n, s in zip(lines[:200], took[:200], strict=True)]
    return (starts + work)[closing]


def _batch(truth: Truth, shape: tuple[int, ...], rng: np.random.Generator, record: Record) -> np.ndarray:
    """The seals of other jobs whose panes end together, which go first."""
    waited = np.zeros(shape)
    for mean in truth.other_seals:
        waited += mean * _noise(truth, shape, rng)
    record.phases[Phase.SEAL_WAIT, 0.0].append(waited.ravel())
    return waited


def _sealing(
    truth: Truth, setting: Setting, rows: np.ndarray, rates: np.ndarray, rng: np.random.Generator, record: Record
) -> np.ndarray:
    groups = truth.distinct(rows)
    took = (truth.seal[0] + truth.seal[1] * groups) * _noise(truth, rows.shape, rng)
    for at, rate in enumerate(rates):
        record.phases[Phase.SEAL, float(rate)].append(took[:, at] / truth.share)
    record.work_s += setting.cuts * took.sum(axis=0)
    told = zip(groups[:100].ravel(), took[:100].ravel(), strict=True)
    record.pieces[Phase.SEAL] += [(Amount(groups=g), s) for g, s in told]
    return took / truth.share


def _tree(
    truth: Truth,
    setting: Setting,
    number: int,
    sealed: np.ndarray,
    rows: np.ndarray,
    rng: np.random.Generator,
    record: Record,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times at which a tree's root has finished the windows, and what of that were uplinks and merges."""
    windows, agents = sealed.shape
    links = truth.links[number % len(truth.links)] if truth.links else None
    order = list(range(agents)) if links is None else list(links.order)
    parents = [(node - 1) // truth.fanout for node in range(agents)] if links is None else links.parents
    workers = [(agent + number) % agents for agent in order] if links is None else order  # each tree has its own root
    ready, below = sealed[:, order], rows[:, order]
    taken = truth.distinct(below) / setting.trees
    is_parent, up, merges = set(parents[1:]), np.zeros_like(ready), np.zeros_like(ready)
    for node in reversed(range(agents)):
        if node in is_parent:
            merged = truth.distinct(below[:, node]) / setting.trees
            took = (truth.combine[0] + truth.combine[1] * taken[:, node]) * _noise(truth, (windows,), rng)
            record.work_s[workers[node]] += setting.cuts * took.sum()
            ready[:, node] += took / truth.share
            merges[:, node] += took / truth.share
            told = zip(taken[:100, node], merged[:100], took[:100], strict=True)
            record.pieces[Phase.COMBINE] += [(Amount(rows=r, groups=g), s) for r, g, s in told]
        if node:
            parent = parents[node]
            sent = truth.distinct(below[:, node]) / setting.trees
            if links is None:
                way = rng.lognormal(np.log(truth.uplink[0]), truth.uplink[1], windows)
            else:
                way = links.ways[node] * rng.uniform(1, 1 + JITTER, windows)
            record.phases[Phase.UPLINK, 0.0].append(way)
            record.sent += setting.cuts * sent.sum()
            is_last = ready[:, node] + way > ready[:, parent]
            for array, more in ((ready, way), (up, way), (merges, 0.0)):
                array[:, parent] = np.where(is_last, array[:, node] + more, array[:, parent])
            below[:, parent] += below[:, node]
            taken[:, parent] += sent
    groups = truth.distinct(rows.sum(axis=1) * setting.cuts) / setting.trees
    finish = (truth.finish[0] + truth.finish[1] * groups) * _noise(truth, (windows,), rng)
    record.work_s[workers[0]] += finish.sum()
    told = zip(groups[:300], finish[:300], strict=True)
    record.pieces[Phase.FINISH] += [(Amount(groups=g), s) for g, s in told]
    record.phases[Phase.FINISH, 0.0].append(finish)
    return ready[:, 0] + finish, up[:, 0], merges[:, 0]
