"""What a plan reads: columns of events, the rows they are joined with, and the branches of a union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from query.expression import encode_expression
from query.types import RESERVED_COLUMNS, family
from query.wire import WIRE_VERSION, WIRE_VERSION_OF_APPS, PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from query.expression import Expression
    from query.wire import BranchMessage, ExpressionReader, JoinMessage


@dataclass(frozen=True, slots=True)
class Column:
    """A column the query needs of its events: `path` leads into nested objects."""

    name: str
    path: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True)
class PlanJoin:
    """A look-up of each event in rows, before `where`: those of another job's latest result (`app`), or of a file that
    every agent has (`table`); one of both is None.

    `alias` is for people. `columns` are those needed of the rows; of each pair of `keys`, the first is a column of the
    events, the second one of these. `outer` keeps events without a row, with NULL for these columns.
    """

    app: str | None
    alias: str
    outer: bool
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, str], ...]
    table: str | None = None


@dataclass(frozen=True, slots=True)
class PlanBranch:
    """What a union has of some streams: of those events that `where` keeps, an expression for each of the plan's
    columns, over columns of its own.
    """

    stream: str
    columns: tuple[Column, ...]
    where: Expression | None
    outputs: tuple[Expression, ...]


def encode_columns(columns: Sequence[Column]) -> list[list[object]]:
    """Columns as they travel."""
    return [[column.name, list(column.path), column.type] for column in columns]


def read_columns(columns: Sequence[tuple[str, list[str], str]]) -> tuple[Column, ...]:
    """Columns as they are here."""
    return tuple(Column(name, tuple(path), type_) for name, path, type_ in columns)


def encode_join(join: PlanJoin) -> dict[str, object]:
    """A JOIN as it travels."""
    named = {"app": join.app} if join.table is None else {"table": join.table}
    return named | {
        "alias": join.alias,
        "outer": join.outer,
        "columns": encode_columns(join.columns),
        "keys": [list(pair) for pair in join.keys],
    }


def read_join(join: JoinMessage, types: Mapping[str, str], version: int) -> PlanJoin:
    """A JOIN with events of these columns, in a plan of a version; raises PlanError."""
    _require((join.app is None) != (join.table is None), "its JOIN names neither an app nor a table, or both")
    oldest = WIRE_VERSION_OF_APPS if join.table is None else WIRE_VERSION
    _require(version >= oldest, "its version knows no such JOIN")
    own = {name: type_ for name, _, type_ in join.columns}
    for ours, theirs in join.keys:
        _require(ours in types and theirs in own, "its JOIN compares a column that is not there")
        _require(family(types[ours]) == family(own[theirs]), "its JOIN compares columns of different types")
    columns, keys = read_columns(join.columns), tuple(join.keys)
    return PlanJoin(join.app, join.alias, join.outer, columns, keys, join.table)


def encode_branch(branch: PlanBranch) -> dict[str, object]:
    """A branch as it travels."""
    return {
        "stream": branch.stream,
        "columns": encode_columns(branch.columns),
        "where": None if branch.where is None else encode_expression(branch.where),
        "outputs": list(map(encode_expression, branch.outputs)),
    }


def read_branch(
    branch: BranchMessage, columns: Sequence[Column], windows: Mapping[str, str], expressions: ExpressionReader
) -> PlanBranch:
    """A branch of a plan with these columns and names of bounds of windows; raises PlanError."""
    events = dict(windows) | {name: type_ for name, _, type_ in branch.columns}
    _require(len(events) == len(windows) + len(branch.columns), "two columns of a branch have one name")
    _require(not events.keys() & RESERVED_COLUMNS, "a column of a branch has a reserved name")
    where = None if branch.where is None else expressions.read(branch.where, events)
    _require(where is None or where.type == "boolean", "the condition of a branch is not a condition")
    outputs = tuple(expressions.read(one, events) for one in branch.outputs)
    _require(len(outputs) == len(columns), "a branch has other columns than its union")
    for output, column in zip(outputs, columns, strict=True):
        _require(column.type == "any" or family(output.type) == family(column.type), "a branch has other types")
    return PlanBranch(branch.stream, read_columns(branch.columns), where, outputs)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise PlanError(f"not a plan that can run: {problem}")
