"""Tells people the operators and components of a job, for EXPLAIN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from query.fusion.components import fused_job
from query.operators.job_operators import job_operators
from query.operators.tracing import attribute_text, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from query.fusion.components import FusedComponent, FusedJob
    from query.operators.operator import Attribute, DataOperator
    from query.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class FusionText:
    """A line for each operator of a job, and for each component."""

    operators: tuple[str, ...]
    components: tuple[str, ...]


def fusion_text(plans: Mapping[str, Plan]) -> FusionText:
    """The operators and components of queries that read each other, by their names. Raises graphlib.CycleError.

    >>> from query import Schema, analyze, parse
    >>> counts = "SELECT url, COUNT(*) AS n FROM web GROUP BY url"
    >>> parsed = parse(f"SELECT URL_HOST(url) AS host, MAX(n) FROM ({counts}) GROUP BY host")
    >>> told = fusion_text({"": analyze(parsed, {"web": Schema({}, open=True)})})
    >>> told.components[1:3]
    ('at the owner of url, the master: consolidate', 'in one partition, at the master: merge, compute 2, consolidate 2')
    """
    graph = job_operators(plans)
    attributes = {one for operator in graph.operators for one in operator.attributes or ()}
    text = _Text(qualified=len(set[str]().union(*map(sources_of, attributes))) > 1)
    return FusionText(tuple(map(text.operator, graph.operators)), tuple(text.components(fused_job(graph))))


@dataclass(frozen=True, slots=True)
class _Text:
    """Tells of operators and components, with the sources of attributes where these are `qualified`."""

    qualified: bool

    def operator(self, operator: DataOperator) -> str:
        """An operator, its inputs, and the attributes that may partition it.

        >>> from query.operators.operator import DataOperator
        >>> _Text(qualified=False).operator(DataOperator("rates.map", "map", ("bought.top",), ("fx",), (), (), None))
        'rates.map of bought.top, fx: PA any (stateless, flexible)'
        """
        named = sorted(map(self._attribute, operator.attributes or ()))
        shown = "any" if operator.attributes is None else " | ".join(named) or "none"
        states = ", merges states" if operator.takes_states else ""
        state = "stateful" if operator.is_stateful else "stateless"
        flexible = "flexible" if operator.is_flexible else "rigid"
        read = ", ".join((*operator.reads, *operator.sources))
        return f"{operator.name} of {read}: PA {shown} ({state}, {flexible}{states})"

    def components(self, job: FusedJob) -> Iterator[str]:
        """The components, and the ways of rows between their agents."""
        for component in job.components:
            yield f"{self._place(component)}: {', '.join(component.operators)}"
        at_master = {name for component in job.components if component.is_at_master for name in component.operators}
        between = [f"{read} → {reader}" for read, reader in job.between if not {read, reader} <= at_master]
        if between:
            yield f"between them: {', '.join(between)}"
        if job.note:
            yield job.note

    def _place(self, component: FusedComponent) -> str:
        if component.place == "agents":
            return "beside every agent"
        if component.place == "one":
            return "in one partition, at the master"
        of = self._attribute(component.attributes) or "any partition"
        return f"at the owner of {of}, the master" if component.owners == 1 else f"at {component.owners} owners of {of}"

    def _attribute(self, attribute: Attribute) -> str:
        return attribute_text(attribute, qualified=self.qualified)
