"""The operators of a job, after Enorm's `map`, `compute` and `consolidate` (sections 4.2 and 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from query.model.expression import Expression

OPERATORS_MAX = 256
"""Upper bound on the operators of a job whose components are planned; of larger jobs all that may be are in one
partition."""
OperatorKind: TypeAlias = Literal["map", "compute", "consolidate"]
Attribute: TypeAlias = "tuple[Expression, ...]"
"""Expressions over columns of sources whose values together say the partition of a row."""
Columns: TypeAlias = tuple[tuple[str, str], ...]
"""A schema: the names of columns, with their types."""


@dataclass(frozen=True, slots=True)
class DataOperator:
    """One operator of a job. A `map` filters and computes columns, a `compute` aggregates rows of a pane, and a
    `consolidate` merges such partial aggregates into windows.

    `reads`: the operators whose rows it gets; `sources`: the streams, jobs and tables beside these. `attributes` is PA,
    None for all: any of them may partition it, and none means that it has one partition. `is_placed`: it runs beside
    every agent, on what lies there. `takes_states`: it takes the states that the operator before it has merged, not the
    rows that this one makes of them (Figure 5.3). `owners`: the number of those who share the keys of its query.
    """

    name: str
    kind: OperatorKind
    reads: tuple[str, ...]
    sources: tuple[str, ...]
    inputs: Columns
    outputs: Columns
    attributes: frozenset[Attribute] | None
    is_placed: bool = False
    takes_states: bool = False
    owners: int = 1

    @property
    def is_stateful(self) -> bool:
        """Whether it keeps state that nobody could send again (Table 1)."""
        return self.kind == "compute"

    @property
    def is_flexible(self) -> bool:
        """Whether its rows may be partitioned in another way at any time, without moving state (Table 1)."""
        return self.kind != "consolidate"


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """The operators of a job, each after those that it reads."""

    operators: tuple[DataOperator, ...]

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Each operator that is read, with its reader."""
        return tuple((read, one.name) for one in self.operators for read in one.reads)

    @property
    def gathering(self) -> frozenset[str]:
        """The names of operators that merge what comes from beside every agent."""
        placed = {one.name for one in self.operators if one.is_placed}
        return frozenset(one.name for one in self.operators if not one.is_placed and not placed.isdisjoint(one.reads))
