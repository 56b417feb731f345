"""UNION ALL in FROM: several streams, each with a filter and a projection of its own, read as one.

Columns are matched by position and have the names of the first branch. A column has the same type in all branches; a
JSON field of unknown type is read as the type that the other branches, or the outer query, need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.binder.analysis import Analysis
from query.binder.scope import Scope, sources_of
from query.binder.subqueries import is_projection, names_of
from query.model.errors import QueryError
from query.model.streams import patterns, selection
from query.model.types import family
from query.plan.plan import PlanBranch
from query.syntax import ast
from query.syntax.printer import format_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from query.binder.scope import Known
    from query.plan.plan import Plan

_UNTYPED = ("any", "text")


class Union:
    """The resolved branches of one UNION ALL. Raises QueryError for branches that cannot be united."""

    def __init__(self, source: ast.Subquery, known: Known) -> None:
        self._branches = source.branches
        self._known = known
        self._names = names_of(source.branches[0])
        for branch in self._branches:
            _check(branch, len(self._names))

    def columns(self) -> dict[str, str]:
        """The columns and their types, "any" or "text" where their use decides."""
        types = [self._analysis(branch).output_types() for branch in self._branches]
        return {name: self._common(place, [one[place] for one in types]) for place, name in enumerate(self._names)}

    def plan(self, outer: Plan) -> Plan:
        """The plan of the outer query, with branches for the columns it reads."""
        wanted = {column.path[0]: column.type for column in outer.columns}
        branches = tuple(self._branch(branch, wanted) for branch in self._branches)
        stream = selection(pattern for branch in branches for pattern in patterns(branch.stream))
        return replace(outer, stream=stream, branches=branches)

    def _branch(self, branch: ast.Query, wanted: Mapping[str, str]) -> PlanBranch:
        items = dict(zip(self._names, branch.select, strict=True))
        needed = replace(branch, select=tuple(items[name] for name in wanted), order_by=())
        plan = self._analysis(needed, list(wanted.values())).plan()
        outputs = tuple(output.expression for output in plan.output)
        return PlanBranch(plan.stream, plan.columns, plan.where, outputs)

    def _analysis(self, branch: ast.Query, wanted: Sequence[str] = ()) -> Analysis:
        sources = sources_of(branch, self._known)
        scope = Scope(sources, branch.text, windowed=branch.window is not None)
        return Analysis(branch, sources[0].name, scope, wanted=wanted)

    def _common(self, place: int, types: Sequence[str]) -> str:
        """The common type of a column that has these types in the branches."""
        known = [(type_, branch) for type_, branch in zip(types, self._branches, strict=True) if type_ not in _UNTYPED]
        if not known:
            return "text" if set(types) == {"text"} else "any"
        first, _ = known[0]
        for type_, branch in known:
            if family(type_) != family(first):
                item = branch.select[place]
                name = format_name(self._names[place])
                message = f"{name} is a {family(first)} in one branch of UNION ALL, and a {family(type_)} here"
                hint = "say with CAST what it is in both"
                raise QueryError(message, branch.text, item.span, hint=hint)
        return first if {type_ for type_, _ in known} == {first} else "number"


def _check(branch: ast.Query, columns: int) -> None:
    text, span = branch.text, branch.select[0].span
    if not is_projection(branch):
        hint = "group or limit around it: SELECT ... FROM (... UNION ALL ...) GROUP BY ..."
        raise QueryError("a branch of UNION ALL only selects and filters", text, span, hint=hint)
    if branch.join is not None:
        hint = "JOIN after it: FROM (... UNION ALL ...) AS u JOIN ..."
        raise QueryError("a branch of UNION ALL has no JOIN", text, branch.join.span, hint=hint)
    if isinstance(branch.source, ast.App | ast.Subquery):
        hint = "its branches read streams"
        raise QueryError("UNION ALL unites streams only", text, branch.source.span, hint=hint)
    if len(branch.select) != columns:
        message = (
            f"the first branch of UNION ALL gives {columns} column{'s' * (columns != 1)}, this one {len(branch.select)}"
        )
        raise QueryError(message, text, span)
