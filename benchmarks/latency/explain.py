"""The work of EXPLAIN LATENCY: to predict, find the largest rate and plan, once agents have told what they know.

What they know is made up: each class of agents has phases of its own, with some thousand durations. Each run is in a
new process, so that nothing is known from the run before. It is the processor's time: others may be there, too.
"""

from dataclasses import replace
from multiprocessing import get_context
from statistics import median
from time import process_time

import numpy as np

import query as ql
from agent.control.latency.measurements import known_of
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison, within
from elf.latency_explanation import explanation
from query.latency import AGENT_PHASES, AgentClass, Distribution, Measured, Phase

TARGETS_S = {32: 1.0, 1_280: 3.0}
"""The most that it may take, by agents."""
CLASSES = (1, 4)
"""Kinds of agents that are unlike."""
RUNS, QUICK_RUNS = 9, 3
DURATIONS = 5_000
_TEXT = (
    "SELECT product, SUM(clicks_count) AS clicks FROM web GROUP BY product ORDER BY clicks DESC LIMIT 10"
    " WINDOWING 1 SECOND WITHIN 500 MILLISECONDS"
)
_MEANS_MS = (2, 1, 3, 2, 0, 1, 25, 3, 5, 4, 12, 3)


def explain(*, quick: bool) -> list[Comparison]:
    """A line for each number of agents and classes of them: the median of all runs."""
    lines = []
    for agents, target_s in TARGETS_S.items():
        for classes in CLASSES:
            progress(f"{agents:,} agents of {classes} kinds")
            took_s = median(_in_new_process(agents, classes) for _ in range(QUICK_RUNS if quick else RUNS))
            case = f"processor time of EXPLAIN LATENCY, {agents:,} agents of {classes} kind{'s' if classes > 1 else ''}"
            lines.append(within("latency", case, took_s, "s", target_s))
    return lines


def _in_new_process(agents: int, classes: int) -> float:
    with get_context("fork").Pool(1) as pool:
        return pool.apply(_took_s, (agents, classes))


def _took_s(agents: int, classes: int) -> float:
    """The processor time of one explanation (s)."""
    parsed = ql.parse(_TEXT)
    found = ql.analyze(parsed, {"web": ql.Schema({}, open=True)})
    measured = _measured(found, agents, classes)
    began = process_time()
    explanation(ql.format_query(parsed), found, measured)
    return process_time() - began


def _measured(found: ql.Plan, agents: int, classes: int) -> Measured:
    random = np.random.default_rng(1)

    def durations(phase: Phase, factor: float) -> Distribution:
        return Distribution.of_samples(random.gamma(2.0, factor * _MEANS_MS[phase] / 2_000, DURATIONS))

    own = [phase for phase in AGENT_PHASES if phase is not Phase.CLOSE]
    kinds = tuple(
        AgentClass(agents // classes, 500.0 * (1 + kind), {phase: durations(phase, 1 + kind / 2) for phase in own})
        for kind in range(classes)
    )
    shared = {phase: durations(phase, 1.0) for phase in Phase if phase not in AGENT_PHASES}
    return replace(known_of(found, None, agents, is_same=True), classes=kinds, phases=shared)
