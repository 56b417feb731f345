"""A model of latency: how long after its end a window is delivered, by what agents have measured.

Pure functions, without a clock. Comes in: statistics of phases, rates, costs, the shape of the tree. Goes out:
distributions, predictions, plans. Imports nothing of the rooms, nor of the other packages of `query`.
Sections 3.1 to 3.4 of the paper (Li, Diao, Shenoy: Supporting Scalable Analytics with Latency Constraints, VLDB 2015);
[docs/latency.md] says where it departs from them.
"""

from query.latency.phases import AGENT_PHASES, LEVEL_PHASES, MASTER_PHASES, Phase, PhaseKind
from query.latency.statistics import PhaseStatistics, phases_from_bytes, phases_to_bytes

__all__ = [
    "AGENT_PHASES",
    "LEVEL_PHASES",
    "MASTER_PHASES",
    "Phase",
    "PhaseKind",
    "PhaseStatistics",
    "phases_from_bytes",
    "phases_to_bytes",
]
