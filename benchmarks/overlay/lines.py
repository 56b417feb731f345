"""Lines of this benchmark's report. A case is `{label}: {place}`, so that places become points of a curve."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.report import Comparison, reaching, smaller, within

NAME = "overlay"
TARGET_NODES = 1_280
"""Size of the fleet that most targets are for."""
at_most = partial(within, NAME)
"""A figure where less is better, with its upper limit; without one it is only printed."""
at_least = partial(reaching, NAME)
beside = partial(smaller, NAME)
"""A figure where less is better, next to a rival's, published or measured here."""


def size(nodes: int) -> str:
    """Return a number of nodes as the place of a line."""
    return f"{nodes:,}"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies; 0 for none."""
    return float(np.quantile(values, share)) if values else 0.0


def shown(comparison: Comparison) -> str:
    """Return a progress line."""
    verdict = "" if comparison.met is None else " met" if comparison.met else " MISSED"
    aim = "" if comparison.target is None else f" (target {comparison.target:.4g})"
    rival = f" [{comparison.rival}: {comparison.rival_value:.4g}]" if comparison.rival_value is not None else ""
    return f"{comparison.case}: {comparison.value:.4g} {comparison.unit}{aim}{rival}{verdict}"
