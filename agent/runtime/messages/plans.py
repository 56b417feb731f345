"""Questions of a master to its shell on the plan of its job, and answers; neither travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import query
from agent.runtime.messages.views.latency import LatencyView
from overlay import Id
from query.latency.phases import Phase
from query.latency.prediction import Prediction


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Question of a master: which plan is its job to have, whose `plan` has been in force for `held_s`? `view`: what
    was measured with the plan `basis` in force. `longer`: seconds by which phases are longer since. `may_turn`: whether
    another setting may be chosen."""

    app_id: Id
    number: int
    plan: query.Plan
    basis: query.Plan
    view: LatencyView
    longer: Mapping[Phase, float]
    held_s: float
    may_turn: bool


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """The prediction of the setting in force; `wanted`: the plan that is to follow it, with its prediction, if one is.
    `outcome`: what follows for the limit, in words; "" if it holds."""

    app_id: Id
    number: int
    prediction: Prediction
    wanted: tuple[query.Plan, Prediction] | None = None
    outcome: str = ""
    is_out_of_reach: bool = False
