"""Makes the operators of queries that read each other: of a query with its sub-queries, or of a job with its stages."""

from __future__ import annotations

from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from query.operators.operator import DataOperator, OperatorGraph
from query.operators.plan_level import PlanLevel, TracedRows
from query.operators.tracing import determines, in_order, varies
from query.syntax.ast import App, TableRef
from query.syntax.printer import format_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from query.model.expression import Expression
    from query.operators.operator import Attribute
    from query.plan.plan import Plan

NO_KEYS: frozenset[Expression] = frozenset()


def job_operators(plans: Mapping[str, Plan]) -> OperatorGraph:
    """The operators of plans, by the names under which they read each other's results; "" is the name of a query that
    none reads. Raises graphlib.CycleError for plans that read each other in a circle.

    Queries that read the same events share the `map` of these.

    >>> from query import Schema, analyze, parse
    >>> plan = analyze(parse("SELECT host, COUNT(*) FROM web GROUP BY host"), {"web": Schema({}, open=True)})
    >>> [(one.name, one.is_placed) for one in job_operators({"": plan}).operators]
    [('map web', True), ('compute', True), ('consolidate', False), ('merge', False)]
    """
    reads = {name: [read for read in plan.apps if read in plans] for name, plan in plans.items()}
    builder = _Builder()
    for name in TopologicalSorter(reads).static_order():
        builder.add(name, plans[name])
    return OperatorGraph(builder.finished())


class _Builder:
    """Operators under construction, by their names, with the keys of each; a map has None."""

    def __init__(self) -> None:
        self._jobs: dict[str, TracedRows] = {}
        self._maps: dict[object, str] = {}
        self._made: dict[str, DataOperator] = {}
        self._keys: dict[str, frozenset[Expression] | None] = {}

    def add(self, name: str, plan: Plan) -> None:
        """Adds the operators of a plan, and of those over its rows."""
        rows, number, left = None if plan.app is None else self._job(plan.app), 1, plan
        while True:
            rows = self._add_level(PlanLevel(name, number, left, rows, self._joined(left)))
            if left.outer is None:
                break
            number, left = number + 1, left.outer
        self._jobs[name] = rows

    def finished(self) -> tuple[DataOperator, ...]:
        """The operators with their partition attributes: of all keys of the job, and of all keys of an operator
        together, those that its own keys determine."""
        candidates: dict[Attribute, None] = {}
        for keys in self._keys.values():
            varying = in_order(filter(varies, keys or ()))
            candidates |= dict.fromkeys((one,) for one in varying)
            candidates |= {varying: None} if varying else {}
        known: dict[frozenset[Expression] | None, frozenset[Attribute] | None] = {None: None}
        for keys in self._keys.values():
            if keys is not None and keys not in known:
                known[keys] = frozenset(one for one in candidates if all(determines(keys, part) for part in one))
        return tuple(replace(one, attributes=known[self._keys[name]]) for name, one in self._made.items())

    def _job(self, name: str) -> TracedRows:
        return self._jobs.get(name, TracedRows(format_source(App(name))))

    def _joined(self, plan: Plan) -> TracedRows | None:
        if plan.join is None:
            return None
        named = plan.join.app
        return TracedRows(format_source(TableRef(plan.join.table or ""))) if named is None else self._job(named)

    def _add_level(self, level: PlanLevel) -> TracedRows:
        """Adds the operators of one plan; gives its rows."""
        last = self._mapped(level)
        if level.plan.kind == "aggregate":
            last = self._aggregated(level, last)
        if level.plan.limit is not None:
            # The first rows of all: they are in no partition but one.
            last = self._add_last(level, "top", last)
        elif level.is_owned:
            # The master makes rows of the windows of all owners, and publishes them.
            last = self._add_last(level, "merge", last)
        return TracedRows(level.source, last, level)

    def _add_last(self, level: PlanLevel, operator: str, above: str) -> str:
        """Adds the operator in one partition that gives the rows of a plan."""
        read = self._made[above]
        made = DataOperator(
            self._free(level.named(operator)), "consolidate", (above,), (), read.outputs, level.shown_columns, None
        )
        return self._add(made, NO_KEYS)

    def _mapped(self, level: PlanLevel) -> str:
        """The operator whose rows a plan aggregates: a map, or the one that makes the rows."""
        rows, plan = level.below, level.plan
        if not level.is_mapped and rows is not None and rows.operator is not None:
            return rows.operator
        identity = level.event_identity
        if identity in self._maps:
            shared = self._made[self._maps[identity]]
            inputs = tuple(dict.fromkeys((*shared.inputs, *level.read_columns)))
            outputs = tuple(dict.fromkeys((*shared.outputs, *level.lifted_columns)))
            self._made[shared.name] = replace(shared, inputs=inputs, outputs=outputs)
            return shared.name
        read = [one for one in (rows, level.joined) if one is not None]
        streams = (plan.streams_read,) if rows is None else ()
        made = DataOperator(
            self._free(f"map {plan.streams_read}" if rows is None else level.named("map")),
            "map",
            reads=tuple(dict.fromkeys(one.operator for one in read if one.operator is not None)),
            sources=(*streams, *(one.source for one in read if one.operator is None)),
            inputs=level.read_columns,
            outputs=level.lifted_columns,
            attributes=None,
            is_placed=rows is None,
        )
        self._maps[identity] = made.name
        # The rows of another job come to one agent, from its master.
        return self._add(made, NO_KEYS if rows is not None and rows.operator is None else None)

    def _aggregated(self, level: PlanLevel, above: str) -> str:
        """The operator that merges the partial aggregates of a plan, whose rows come from `above`; or these rows
        themselves, where there are no partial ones."""
        keys, inputs = frozenset(level.keys.values()), level.lifted_columns
        if not (level.takes_states or level.plan.is_rigid):
            computed = DataOperator(
                self._free(level.named("compute")),
                "compute",
                reads=(above,),
                sources=(),
                inputs=inputs,
                outputs=level.state_columns,
                attributes=None,
                is_placed=self._made[above].is_placed,
            )
            above, inputs = self._add(computed, keys), computed.outputs
        elif level.takes_states and level.below is not None and level.below.level is not None:
            inputs = level.below.level.state_columns
        made = DataOperator(
            self._free(level.named("consolidate")),
            "consolidate",
            reads=(above,),
            sources=(),
            inputs=inputs,
            outputs=level.state_columns if level.is_owned else level.shown_columns,
            attributes=None,
            takes_states=level.takes_states,
            owners=level.plan.trees if level.is_owned else 1,
        )
        return self._add(made, NO_KEYS if level.is_of_master else keys)

    def _add(self, operator: DataOperator, keys: frozenset[Expression] | None) -> str:
        self._made[operator.name] = operator
        self._keys[operator.name] = keys
        return operator.name

    def _free(self, name: str) -> str:
        """A name that no operator has yet."""
        number, free = 1, name
        while free in self._made:
            number += 1
            free = f"{name} ({number})"
        return free
