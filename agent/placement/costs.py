"""Costs of splitting compute from consolidate, and of combining them, as they are published (Enorm, sections 5.1.1 and
5.1.2). ELF decides by `agent.placement.decisions`; this is the rival, and the base of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import NamedTuple

from agent.placement.amounts import check_amount


@dataclass(frozen=True, slots=True)
class SplitInputs:
    """Measurements of one operator over a period `p`, that of its longest window; the paper's letters in brackets.

    `rows`: tuples (T). `row_s`: seconds of user logic for a tuple (E). `overlap`: windows that a tuple is in (W).
    `panes`: partial windows (PW). `groups`: key groups (kg). `copy_s`: seconds to ship one copy of a key group's state
    (K₁). `moves`: key groups that move (MK). `pause_s`: seconds for which one that moves with its state stands still
    (L). Raises ValueError, which names the field, for what is negative, no number or beyond 10¹⁵.
    """

    rows: float
    row_s: float
    overlap: float
    panes: float
    groups: float
    copy_s: float
    moves: float = 0.0
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            check_amount(field.name, getattr(self, field.name))


class SplitCost(NamedTuple):
    """Processor time and latency that a component costs in a period, in seconds."""

    cpu_s: float
    latency_s: float


def split_cost(inputs: SplitInputs) -> SplitCost:
    """The cost where compute and consolidate are apart: T·E + PW·K₁·kg + MK·K₁; groups move instantly.

    >>> split_cost(SplitInputs(rows=1e6, row_s=1e-6, overlap=2, panes=10, groups=64, copy_s=1e-3, moves=5))
    SplitCost(cpu_s=1.645, latency_s=0.0)
    """
    shipped_s = inputs.panes * inputs.copy_s * inputs.groups
    return SplitCost(inputs.rows * inputs.row_s + shipped_s + inputs.moves * inputs.copy_s, 0.0)


def combined_cost(inputs: SplitInputs) -> SplitCost:
    """The cost where they are one: T·W·E + MK·K₁·PW; groups move with their state, which takes MK·L.

    >>> combined_cost(SplitInputs(1e6, 1e-6, overlap=2, panes=10, groups=64, copy_s=1e-3, moves=5, pause_s=0.5))
    SplitCost(cpu_s=2.05, latency_s=2.5)
    """
    moved_s = inputs.moves * inputs.copy_s * inputs.panes
    return SplitCost(inputs.rows * inputs.overlap * inputs.row_s + moved_s, inputs.moves * inputs.pause_s)


def split_gain_s(inputs: SplitInputs) -> float:
    """Processor time that splitting saves in a period, in seconds: (W − 1)·T·E + MK·K₁·(PW − 1) − PW·K₁·kg."""
    saved_s = (inputs.overlap - 1) * inputs.rows * inputs.row_s + inputs.moves * inputs.copy_s * (inputs.panes - 1)
    return saved_s - inputs.panes * inputs.copy_s * inputs.groups


def split_pays(inputs: SplitInputs, latency_max_s: float = inf) -> bool:
    """Whether the paper splits: what costs less time, unless combined takes longer to move than it may."""
    return combined_cost(inputs).latency_s > latency_max_s or split_gain_s(inputs) > 0
