"""One plan of a job, over events or over rows of another plan, with all that it reads traced to columns of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from query.model.expression import references
from query.operators.nesting import takes_states
from query.operators.tracing import attribute_text, made_column, row_meanings, stream_meanings, traced, varies
from query.syntax.ast import App
from query.syntax.printer import format_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from query.model.expression import Expression
    from query.operators.operator import Columns
    from query.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class TracedRows:
    """Rows that a plan reads: their source for people, the name of the operator that makes them, and the meanings of
    their columns. Those of other jobs and of tables come from outside: no operator makes them.
    """

    source: str
    operator: str | None = None
    level: PlanLevel | None = None

    @property
    def meanings(self) -> Mapping[str, Expression]:
        """The meanings of the rows' columns, as far as they are known."""
        return {} if self.level is None else self.level.output_meanings


@dataclass(frozen=True)
class PlanLevel:
    """The plan of a query of this name, without those over its rows. `number`: 1 for the query itself, then one more
    for each plan over rows. `below`: the rows that it reads, None for events; `joined`: those that it looks up."""

    query_name: str
    number: int
    plan: Plan
    below: TracedRows | None
    joined: TracedRows | None

    def named(self, operator: str) -> str:
        """The name of one of its operators.

        >>> PlanLevel("best", 2, None, None, None).named("compute")
        'best.compute 2'
        """
        name = f"{self.query_name}.{operator}" if self.query_name else operator
        return name if self.number == 1 else f"{name} {self.number}"

    @property
    def source(self) -> str:
        """Its rows as a source."""
        source = format_source(App(self.query_name))
        return source if self.number == 1 else f"{source} {self.number}"

    @property
    def is_mapped(self) -> bool:
        """Whether a map comes before its aggregation: of events, or of rows that it filters, looks up or projects."""
        plan = self.plan
        inside = self.below is not None and self.below.operator is not None
        return not inside or plan.where is not None or plan.join is not None or plan.kind == "rows"

    @property
    def takes_states(self) -> bool:
        """Whether its aggregates are merged states of the aggregates below."""
        below = None if self.below is None else self.below.level
        return not self.is_mapped and below is not None and takes_states(self.plan, below.plan)

    @property
    def is_of_master(self) -> bool:
        """Whether the master alone makes windows of what agents have counted: sessions, those that are shown while they
        grow, and those of a job's own aggregates, whose states nobody else can merge."""
        windowing = self.plan.windowing
        is_grown = windowing is not None and (windowing.session is not None or windowing.changes)
        return self.below is None and (is_grown or bool(self.plan.aggregates_of_job))

    @property
    def is_owned(self) -> bool:
        """Whether owners of keys merge what agents have counted, and the master what the owners have."""
        is_keyed = self.plan.kind == "aggregate" and any(map(varies, self.keys.values()))
        return self.below is None and is_keyed and not self.is_of_master

    @cached_property
    def meanings(self) -> dict[str, Expression]:
        """The meanings of the columns that it reads."""
        plan, rows = self.plan, self.below
        found = stream_meanings(plan) if rows is None else row_meanings(plan.columns, rows.source, rows.meanings)
        if plan.join is not None and self.joined is not None:
            found |= row_meanings(plan.join.columns, self.joined.source, self.joined.meanings)
        return found

    @cached_property
    def keys(self) -> dict[str, Expression]:
        """The meanings of its keys, by their names."""
        return {key.name: traced(key.expression, self.meanings) for key in self.plan.keys}

    @cached_property
    def output_meanings(self) -> dict[str, Expression]:
        """The meanings of its columns. Those that aggregates or the bounds of windows make are its own."""
        known = self.keys if self.plan.kind == "aggregate" else self.meanings

        def meaning(name: str, expression: Expression) -> Expression:
            is_known = all(one.name in known for one in references(expression))
            return traced(expression, known) if is_known else made_column(self.query_name, self.number, name)

        return {one.name: meaning(one.name, one.expression) for one in self.plan.output}

    @property
    def event_identity(self) -> object:
        """Equal for plans that keep the same events, or rows, of one source: these may share a map."""
        plan = self.plan
        where = None if plan.where is None else traced(plan.where, self.meanings)
        below = None if self.below is None else self.below.source
        own = plan.elements is not None or below is not None
        return (self.source if own else None, plan.stream, plan.branches, where, plan.join, below)

    @property
    def read_columns(self) -> Columns:
        """The schema of what it reads."""
        return tuple((".".join(one.path), one.type) for one in self.plan.event_columns)

    @cached_property
    def lifted_columns(self) -> Columns:
        """The schema of keys and arguments, which its map computes; of a plan without aggregates, of its result."""
        plan = self.plan
        if plan.kind == "rows":
            return self.shown_columns
        return self._typed(one.expression for one in (*plan.keys, *plan.arguments))

    @property
    def state_columns(self) -> Columns:
        """The schema of partial aggregates: the keys, and a state for each aggregate."""
        texts = {one.name: attribute_text((traced(one.expression, self.meanings),)) for one in self.plan.arguments}
        named = ((one, one.function.partition(":")[0]) for one in self.plan.aggregates)
        states = ((f"{name}({texts.get(one.argument or '', '*')})", "state") for one, name in named)
        return (*self._typed(key.expression for key in self.plan.keys), *states)

    @property
    def shown_columns(self) -> Columns:
        """The schema of its result."""
        return tuple((one.name, one.type) for one in self.plan.output)

    def _typed(self, expressions: Iterable[Expression]) -> Columns:
        named = ((attribute_text((traced(one, self.meanings),)), one.type) for one in expressions)
        return tuple(dict.fromkeys(named))
