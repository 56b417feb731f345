"""The form of a plan on the wire, and the checks of plans that peers send: their shape, sizes and expressions.

Types of expressions are not taken from the wire but inferred again, so a plan that was read is consistent and runs
without a type error on any frame that suits its columns.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from typing import Literal as OneOf

import msgspec
from msgspec import Meta

from query.functions import ConstantError
from query.model.expression import Constant, Expression, Operation, Reference
from query.model.limits import (
    APP_NAME_MAX,
    BRANCHES_OF_UNION_MAX,
    COLUMNS_MAX,
    DAY_MS,
    DEPTH_MAX,
    GROUPS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    KEYS_MAX,
    NODES_MAX,
    QUERY_BYTES_MAX,
    SELECT_MAX,
    TREES_MAX,
    WINDOW_DAYS_MAX,
)
from query.model.types import TypeMismatchError
from query.plan.operations import REGEXES_MAX, is_regex, operation
from query.plan.stragglers import StragglersMessage
from query.plan.windows import SIZES_MAX, PlanWindowSize, Windowing, WindowsError, session
from query.plan.within import WithinMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

WIRE_VERSION = 1
"""The only version that is read; a change of the shape or meaning of plans raises it."""
# NOT IN, NOT LIKE and IS NOT NULL are one operation in a query and two in its plan.
_DEPTH_MAX = 2 * DEPTH_MAX + 1

BeyondGroups: TypeAlias = OneOf["other", "error"]
_Text = Annotated[str, Meta(max_length=QUERY_BYTES_MAX)]
_Path = Annotated[list[_Text], Meta(min_length=1, max_length=QUERY_BYTES_MAX)]
_Length = Annotated[int, Meta(ge=1, le=WINDOW_DAYS_MAX * DAY_MS)]
_Type = OneOf["any", "number", "integer", "string", "boolean", "timestamp"]
_Column = tuple[_Text, _Path, _Type]
_Fields = Annotated[list[tuple[_Text, _Type]], Meta(max_length=COLUMNS_MAX)]
TYPES_MAX = 64
"""Upper bound on the types of events of another job's elements that a plan reads."""
_App = Annotated[str, Meta(min_length=1, max_length=APP_NAME_MAX)]
_Number = int | float


class PlanError(Exception):
    """A message that a peer sent as a plan is not a valid plan."""


class JoinMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of a JOIN."""

    alias: _Text
    outer: bool
    columns: Annotated[list[_Column], Meta(min_length=1, max_length=COLUMNS_MAX)]
    keys: Annotated[list[tuple[_Text, _Text]], Meta(min_length=1, max_length=KEYS_MAX)]
    app: _App | None = None
    table: _App | None = None


class BranchMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of a branch of a union."""

    stream: _Text
    columns: Annotated[list[_Column], Meta(max_length=COLUMNS_MAX)]
    where: object
    outputs: Annotated[list[object], Meta(max_length=COLUMNS_MAX)]


class WindowsMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Windows that are not one pane each. `gap_ms` is the gap of sessions, which have no sizes."""

    sizes: Annotated[list[tuple[_Length, _Length]], Meta(max_length=SIZES_MAX)] = []
    gap_ms: _Length | None = None
    changes: bool = False
    grace_ms: Annotated[int, Meta(ge=0, le=DAY_MS)] | None = None
    part_ms: _Length | None = None


class PlanMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The outer shape of a plan; expressions are still unread."""

    version: int
    stream: _Text
    columns: Annotated[list[_Column], Meta(max_length=COLUMNS_MAX)]
    window_ms: _Length | None
    kind: OneOf["aggregate", "rows"]
    where: object
    keys: Annotated[list[tuple[_Text, object]], Meta(max_length=KEYS_MAX)]
    arguments: Annotated[list[tuple[_Text, object]], Meta(max_length=NODES_MAX)]
    aggregates: Annotated[list[tuple[_Text, _Text, _Text | None]], Meta(max_length=NODES_MAX)]
    output: Annotated[list[tuple[_Text, object]], Meta(min_length=1, max_length=SELECT_MAX)]
    order: Annotated[list[tuple[object, bool]], Meta(max_length=KEYS_MAX)]
    limit: Annotated[int, Meta(ge=0, le=INTEGER_MAX)] | None
    max_groups: Annotated[int, Meta(ge=1, le=GROUPS_MAX)]
    beyond_groups: BeyondGroups
    app: _App | None = None
    join: JoinMessage | None = None
    trees: Annotated[int, Meta(ge=1, le=TREES_MAX)] = 1
    trees_stated: bool = False
    parameters: Annotated[dict[_Text, list[_Number]], Meta(max_length=NODES_MAX)] = {}
    having: object = None
    outer: object = None
    branches: Annotated[list[BranchMessage], Meta(max_length=BRANCHES_OF_UNION_MAX)] = []
    nulls_first: Annotated[list[int], Meta(max_length=KEYS_MAX)] = []
    windows: WindowsMessage | None = None
    stragglers: StragglersMessage | None = None
    within: WithinMessage | None = None
    elements: dict[str, Any] | None = None
    types: Annotated[dict[_Text, _Fields], Meta(min_length=1, max_length=TYPES_MAX)] | None = None


def read_message(data: object) -> PlanMessage:
    """The outer shape of a plan that a peer sent; raises PlanError."""
    if isinstance(data, dict) and (version := data.get("version")) != WIRE_VERSION:
        found = f"of version {version}" if type(version) is int else "without a version"
        raise PlanError(f"not a plan that can run: it is {found}, and plans of version {WIRE_VERSION} run here")
    try:
        message = msgspec.convert(data, PlanMessage, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PlanError(f"not a plan: {error}") from None
    names = [message.stream, *(name for name, _ in (*message.keys, *message.arguments, *message.output))]
    columns = [*message.columns]
    if message.app is not None:
        names.append(message.app)
    if (join := message.join) is not None:
        names += [join.app or join.table or "", join.alias, *(name for pair in join.keys for name in pair)]
        columns += join.columns
    names += [part for name, fields in (message.types or {}).items() for part in (name, *(one for one, _ in fields))]
    for branch in message.branches:
        names.append(branch.stream)
        columns += branch.columns
    names += [part for name, path, _ in columns for part in (name, *path)]
    for name in names:
        _check_text(name)
    return message


def encode_windowing(windowing: Windowing | None) -> object:
    """The form of windows on the wire, beside the length of their panes; None where each window is one pane."""
    if windowing is None or (windowing.is_of_panes and windowing.grace_ms is None):
        return None
    gap_ms = None if windowing.session is None else windowing.session.gap_ms
    sizes = [(one.size_ms, one.slide_ms) for one in windowing.sizes]
    return msgspec.to_builtins(WindowsMessage(sizes, gap_ms, windowing.changes, windowing.grace_ms, windowing.part_ms))


def read_windowing(message: PlanMessage) -> Windowing | None:
    """The windows of a plan that a peer sent; raises PlanError."""
    windows, pane_ms = message.windows, message.window_ms
    if windows is None:
        return None if pane_ms is None else Windowing((PlanWindowSize(pane_ms, pane_ms),))
    gap = None if windows.gap_ms is None else session(windows.gap_ms)
    sizes = tuple(PlanWindowSize(*one) for one in windows.sizes)
    windowing = Windowing(sizes, gap, windows.changes, windows.grace_ms, windows.part_ms)
    try:
        windowing.check()
    except WindowsError as error:
        raise PlanError(f"not a plan that can run: {error}") from None
    if windowing.pane_ms != pane_ms:
        raise PlanError("not a plan that can run: its windows are not made of its panes")
    return windowing


def _check_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PlanError("a text in the plan is not valid Unicode") from None
    if size > QUERY_BYTES_MAX:
        raise PlanError(f"a text in the plan has {size:,} bytes; at most {QUERY_BYTES_MAX:,} are allowed")


class ExpressionReader:
    """Reads the expressions of one plan, all within one limit on their number of nodes."""

    def __init__(self) -> None:
        self._nodes = 0
        self._regexes = 0

    def read(self, data: object, scope: Mapping[str, str], depth: int = 1) -> Expression:
        """The expression over names of known types; raises PlanError."""
        self._nodes += 1
        if self._nodes > 2 * NODES_MAX or depth > _DEPTH_MAX:
            raise PlanError("an expression in the plan is too large or nests too deeply")
        match data:
            case str(name):
                if name not in scope:
                    raise PlanError("an expression in the plan names a column that is not there")
                return Reference(name, scope[name])
            case ["value", str(type_), value]:
                return _read_value(type_, value)
            case [str(operator), *operands]:
                self._regexes += is_regex(operator)
                if self._regexes > 2 * REGEXES_MAX:
                    raise PlanError("the plan has too many regular expressions")
                return _call(operator, tuple(self.read(operand, scope, depth + 1) for operand in operands))
        raise PlanError("an expression in the plan is neither a name, nor a value, nor a call")


def _call(operator: str, operands: tuple[Expression, ...]) -> Operation:
    try:
        return operation(operator, operands)
    except (TypeMismatchError, ConstantError) as error:
        raise PlanError(f"an expression in the plan cannot be computed: {str(error)[:200]}") from None


def _read_value(type_: str, value: object) -> Constant:
    match type_, value:
        case (("any" | "number" | "integer" | "string" | "boolean" | "timestamp"), None):
            return Constant(None, type_)
        case "boolean", bool():
            return Constant(value, type_)
        case (("integer" | "timestamp"), int()) if not isinstance(value, bool):
            if INTEGER_MIN <= value <= INTEGER_MAX:
                return Constant(value, type_)
        case "number", float():
            if isfinite(value):
                return Constant(value, type_)
        case "string", str():
            _check_text(value)
            return Constant(value, type_)
    raise PlanError(f"a value in the plan is not of its type, {type_[:20]}")
