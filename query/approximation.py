"""What is approximate or limited about the aggregates of a plan, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.aggregates import AGGREGATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from query.plan import Plan


def relative_error(plan: Plan, limited: Collection[str] = ()) -> float | None:
    """How far a plan's results may be off in 99 of 100 cases, as a part of a count or of all values; None if they are
    exact. `limited`: the aggregates, by their names in the plan, that have met their limit.
    """
    errors = []
    for one in plan.aggregates:
        function = AGGREGATES[one.function.upper()]
        if function.error is not None:
            errors.append(function.error(one.parameters))
        if one.name in limited and function.limited_error is not None:
            errors.append(function.limited_error)
    return float(f"{max(errors):.3g}") if errors else None


def notes(plan: Plan, texts: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each aggregate that is approximate or limited; `texts` are the aggregates as people write them."""
    for one in plan.aggregates:
        function = AGGREGATES[one.function.upper()]
        if function.error is not None:
            error = f"{100 * function.error(one.parameters):.2g} % {function.of}"
            yield f"{texts[one.name]} is approximate: within {error}, in 99 of 100 cases"
        if function.limit is not None:
            beyond = function.limited_error
            within = "" if beyond is None else f", within {100 * beyond:.2g} % in 99 of 100 cases"
            yield f"{texts[one.name]}: {function.limit(one.parameters)}{within}"
