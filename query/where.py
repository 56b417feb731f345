"""WHERE over frames of events: cheap conditions on all of them, costly ones on those that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from query.rewrite.cost import cost
from query.rewrite.expressions import conjunction, conjuncts

if TYPE_CHECKING:
    from query.expression import Expression
    from query.translation import Translator

COSTLY_NS = 20.0
"""Conditions that cost more for an event are tested where the cheaper ones before them leave it open."""
FEW = 0.5
"""At most such a share of a frame is worth copying before costly conditions are tested."""


def cheap_and_costly(condition: Expression | None) -> tuple[Expression | None, Expression | None]:
    """What is tested first, and what of the events that are left; None where there is nothing of the kind."""
    conditions = conjuncts(condition)
    costly = next((n for n, one in enumerate(conditions) if cost(one) > COSTLY_NS), len(conditions))
    return conjunction(conditions[:costly]), conjunction(conditions[costly:])


class Where:
    """A condition over frames of events; afterwards `translator` knows what it shares with other expressions.

    `first` translates over the same columns: what is tested first is tested apart from everything else.
    """

    def __init__(self, condition: Expression | None, translator: Translator, first: Translator) -> None:
        cheap, rest = cheap_and_costly(condition)
        self._prepare = translator.prepare
        self._condition = None if condition is None else translator.translate(condition).as_boolean()
        self._cheap = self._rest = None
        if cheap is not None and rest is not None:
            self._first = first
            self._cheap = first.translate(cheap).as_boolean()
            self._rest = translator.translate(rest).as_boolean()

    def kept(self, frame: pl.DataFrame) -> pl.LazyFrame:
        """The events for which the condition is TRUE, with what the translator prepared."""
        if self._condition is None:
            return frame.lazy()
        condition = self._condition
        if self._cheap is not None and self._rest is not None:
            passed = self._first.prepare(frame.lazy()).select(passed=self._cheap).collect()["passed"]
            if len(passed) == 1 != frame.height:  # of constants, one for all
                passed = passed.new_from_index(0, frame.height)
            if (passed.sum() or 0) <= FEW * frame.height:
                frame, condition = frame.filter(passed), self._rest
        return self._prepare(frame.lazy()).filter(condition)
