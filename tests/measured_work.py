"""Work whose costs are measured on a machine or in a dry run, and a clock for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from query.latency import Phase

OF_WORK = (Phase.PARSE, Phase.INSERT, Phase.SEAL, Phase.COMBINE, Phase.FINISH)


def ticking(step: float) -> Callable[[], float]:
    """A clock that goes on by a step whenever it is looked at."""
    return (step * number for number in count()).__next__
