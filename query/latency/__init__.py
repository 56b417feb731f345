"""A model of latency: how long after its end a window is delivered, by what agents have measured.

Pure functions, without a clock. Comes in: statistics of phases, rates, costs, the shape of the tree. Goes out:
distributions, predictions, plans. Imports nothing of the rooms, nor of the other packages of `query`.
Sections 3.1 to 3.4 of the paper (Li, Diao, Shenoy: Supporting Scalable Analytics with Latency Constraints, VLDB 2015);
docs/latency-model.md says where it departs from them.
"""

from query.latency.distribution import Distribution, greatest, mixture, total
from query.latency.fits import exponential, gamma, lognormal, normal, waits
from query.latency.groups import GROUP_EACH_ROW, HeapsLaw
from query.latency.papers_model import MeanVariance, papers_model
from query.latency.parts import ASSUMED_COSTS
from query.latency.phases import AGENT_PHASES, LEVEL_PHASES, MASTER_PHASES, Phase, PhaseKind
from query.latency.planner import Choices, LatencyPlan, LatencyRefusal, Price, is_replaced, plan, price, review
from query.latency.polling import look_wait
from query.latency.prediction import PredictedPhase, Prediction, anchored, largest_rate, predict
from query.latency.queues import (
    RawMoments,
    batch_waits,
    kingman_bound,
    mean_wait,
    queue_wait,
    replayed,
    wait_variance,
    waiting_share,
)
from query.latency.resources import Amount, LinearCost, share_of_processor
from query.latency.setting import AgentClass, Evidence, Measured, Setting, Subtree, balanced_tree, tree_of
from query.latency.statistics import PhaseStatistics, phases_from_bytes, phases_to_bytes
from query.latency.tails import Tail, pooled

__all__ = [
    "AGENT_PHASES",
    "ASSUMED_COSTS",
    "GROUP_EACH_ROW",
    "LEVEL_PHASES",
    "MASTER_PHASES",
    "AgentClass",
    "Amount",
    "Choices",
    "Distribution",
    "Evidence",
    "HeapsLaw",
    "LatencyPlan",
    "LatencyRefusal",
    "LinearCost",
    "MeanVariance",
    "Measured",
    "Phase",
    "PhaseKind",
    "PhaseStatistics",
    "PredictedPhase",
    "Prediction",
    "Price",
    "RawMoments",
    "Setting",
    "Subtree",
    "Tail",
    "anchored",
    "balanced_tree",
    "batch_waits",
    "exponential",
    "gamma",
    "greatest",
    "is_replaced",
    "kingman_bound",
    "largest_rate",
    "lognormal",
    "look_wait",
    "mean_wait",
    "mixture",
    "normal",
    "papers_model",
    "phases_from_bytes",
    "phases_to_bytes",
    "plan",
    "pooled",
    "predict",
    "price",
    "queue_wait",
    "replayed",
    "review",
    "share_of_processor",
    "total",
    "tree_of",
    "wait_variance",
    "waiting_share",
    "waits",
]
