"""Infers the types of columns from their use: JSON declares no type for a field, so the query's use of it decides.

Every expression node gets a *type variable*; nodes that must agree (both sides of a comparison, say) share one. A
variable is fixed by the first use that demands a type; a later use that demands another is an error naming both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from query.functions import FUNCTIONS
from query.functions.aggregates import aggregate_function
from query.model.errors import QueryError, SourceSpan, position
from query.model.types import COMPARISONS, family
from query.syntax.ast import (
    AggregateCall,
    Between,
    Binary,
    Case,
    Cast,
    ColumnRef,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Like,
    Literal,
    Logical,
    Star,
    Unary,
    children,
)
from query.syntax.printer import format_expression

if TYPE_CHECKING:
    from query.binder.scope import Scope
    from query.functions import ScalarFunction as ScalarFunction

_A = {
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "timestamp": "a time",
}


_CAST_KINDS = {
    "VARCHAR": "string",
    "BIGINT": "number",
    "DOUBLE": "number",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "timestamp",
}
_TYPES = {"string": "VARCHAR", "number": "DOUBLE", "boolean": "BOOLEAN", "timestamp": "TIMESTAMP"}


@dataclass(slots=True, eq=False)
class TypeVariable:
    """The kind that expressions share: number, string, boolean, timestamp, or None while it is unknown."""

    name: str | None = None
    origin: SourceSpan | None = None
    declared: bool = False
    text: bool = False
    merged_into: TypeVariable | None = None

    def root(self) -> TypeVariable:
        """The variable that this one was merged into, or itself."""
        kind = self
        while kind.merged_into is not None:
            kind = kind.merged_into
        return kind

    def allows(self, name: str) -> bool:
        """Whether the expressions can be of the named kind."""
        if self.name is not None:
            return self.name == name
        # Text from a CSV file can be read as a string, a number or a time.
        return not (self.text and name == "boolean")


class Inference:
    """Assigns kinds to expression nodes, by identity."""

    def __init__(self, scope: Scope, text: str) -> None:
        self._scope = scope
        self._text = text
        self._kinds: dict[int, TypeVariable] = {}
        self._columns: dict[str, TypeVariable] = {}

    def kind(self, node: Expression) -> str:
        """The kind of a visited node, "any" if no use fixed it, once everything was visited."""
        return _settled(self._kinds[id(node)])

    def column_type(self, name: str) -> str:
        """The type a column has in the plan, once everything was visited."""
        declared = self._scope.declared_type(name)
        return _settled(self._columns[name]) if declared in ("any", "text") else declared

    def untyped(self, node: Expression | Star) -> str | None:
        """ "any" or "text" for a visited node whose type is still unknown, otherwise None."""
        kind = self._kinds[id(node)].root()
        return None if kind.name is not None else "text" if kind.text else "any"

    def require_type(self, node: Expression | Star, type_: str) -> None:
        """Requires a visited node to be of a type; "any" allows every type."""
        if type_ != "any":
            self._require(node, family(type_))

    def condition(self, node: Expression) -> None:
        """Visits an expression that must be boolean."""
        self.visit(node)
        self._require(node, "boolean")

    def visit(self, node: Expression | Star) -> None:
        """Infers the kinds of this node and of all below it; raises QueryError where two uses disagree."""
        if isinstance(node, Star) or id(node) in self._kinds:
            return
        for child in children(node):
            self.visit(child)
        self._kinds[id(node)] = self._infer(node)

    def _infer(self, node: Expression) -> TypeVariable:
        match node:
            case Literal(type=type_):
                return TypeVariable(None if type_ == "null" else family(type_), node.span)
            case ColumnRef():
                return self._column(node)
            case AggregateCall():
                return self._aggregate(node)
            case FunctionCall():
                return self._function(node)
            case Cast(type=type_):
                return TypeVariable(_CAST_KINDS[type_], node.span)
            case Case():
                return self._case(node)
            case Binary(operator="||", left=left, right=right):
                self._require(left, "string")
                self._require(right, "string")
                return TypeVariable("string", node.span)
            case Unary(operator="-", operand=operand):
                self._require(operand, "number")
                return TypeVariable("number", node.span)
            case Binary(operator=operator, left=left, right=right) if operator not in COMPARISONS:
                self._require(left, "number")
                self._require(right, "number")
                return TypeVariable("number", node.span)
            case Binary(left=left, right=right):
                self._same(left, right)
            case In(operand=operand, items=items):
                for item in items:
                    self._same(operand, item)
            case Between(operand=operand, low=low, high=high):
                self._same(operand, low)
                self._same(operand, high)
            case Like(operand=operand, pattern=pattern):
                self._require(operand, "string")
                self._require(pattern, "string")
            case Logical() | Unary():
                for child in children(node):
                    self._require(child, "boolean")
            case IsNull():
                pass
        return TypeVariable("boolean", node.span)

    def _function(self, node: FunctionCall) -> TypeVariable:
        function = FUNCTIONS[node.function]
        same = None
        for place, argument in enumerate(node.arguments):
            wanted = function.parameter(place).type
            if wanted == "same":
                same = self._alike(same, argument)
            elif wanted != "any":
                self._argument(function, argument, family(wanted))
        if function.gives != "same":
            return TypeVariable("number" if function.gives == "numeric" else family(function.gives), node.span)
        assert same is not None
        return self._kinds[id(same)]

    def _argument(self, function: ScalarFunction, argument: Expression, wanted: str) -> None:
        if wanted == "timestamp" and isinstance(argument, Literal) and argument.type == "string":
            self._kinds[id(argument)] = TypeVariable("timestamp", argument.span)
            return
        try:
            self._require(argument, wanted)
        except QueryError as error:
            if error.hint is None:
                hint = (
                    f"it is written {function.signature}; CAST({_shown(argument)} AS {_TYPES[wanted]}) makes one of it"
                )
                raise QueryError(error.message, self._text, argument.span, hint=hint) from None
            raise

    def _alike(self, same: Expression | None, other: Expression) -> Expression:
        """One of two values of one kind: the one whose type is better known."""
        if same is None:
            return other
        self._same(same, other)
        return other if isinstance(same, Literal) and same.type == "null" else same

    def _case(self, node: Case) -> TypeVariable:
        same = None
        for condition, result in node.branches:
            if node.operand is None:
                self._require(condition, "boolean")
            else:
                self._same(node.operand, condition)
            same = self._alike(same, result)
        if node.otherwise is not None:
            same = self._alike(same, node.otherwise)
        assert same is not None
        return self._kinds[id(same)]

    def _column(self, node: ColumnRef) -> TypeVariable:
        column = self._scope.resolve(node)
        if column.name not in self._columns:
            declared = column.type
            fixed = None if declared in ("any", "text") else family(declared)
            self._columns[column.name] = TypeVariable(fixed, node.span, fixed is not None, declared == "text")
        return self._columns[column.name]

    def _aggregate(self, call: AggregateCall) -> TypeVariable:
        function, argument = aggregate_function(call.aggregate), call.arguments[0]
        if call.where is not None:
            self._require(call.where, "boolean")
        if isinstance(argument, Star):
            return TypeVariable("number", call.span)
        kind = self._kinds[id(argument)]
        if function.takes == "no time" and kind.root().name == "timestamp":
            message = f"{_shown(argument)} is a time, which {function.name} does not take"
            raise QueryError(message, self._text, argument.span)
        if function.takes in ("number", "boolean"):
            self._require(argument, function.takes)
        return kind if function.gives == "argument" else TypeVariable(family(function.gives), call.span)

    def _require(self, node: Expression | Star, name: str) -> None:
        assert not isinstance(node, Star)
        kind = self._kinds[id(node)].root()
        if not kind.allows(name):
            raise self._misuse(node, kind, name)
        if kind.name is None:
            kind.name, kind.origin = name, node.span

    def _same(self, left: Expression, right: Expression) -> None:
        """Unifies both sides of a comparison; a string literal beside a time becomes a time."""
        one, other = self._kinds[id(left)].root(), self._kinds[id(right)].root()
        if one is other:
            return
        for kind, node in ((one, right), (other, left)):
            if kind.name == "timestamp" and isinstance(node, Literal) and node.type == "string":
                self._kinds[id(node)] = kind
                return
        if other.name is not None and not one.allows(other.name):
            raise self._different(left, one, right, other)
        if one.name is not None and not other.allows(one.name):
            raise self._different(left, one, right, other)
        self._merge(one, other)

    def _merge(self, one: TypeVariable, other: TypeVariable) -> None:
        kept, gone = (one, other) if one.name is not None or other.name is None else (other, one)
        kept.text |= gone.text
        gone.merged_into = kept

    def _misuse(self, node: Expression, kind: TypeVariable, wanted: str) -> QueryError:
        shown = _shown(node)
        if kind.name is None:
            hint = f"compare it with a string, as in {shown} = 'true'" if wanted == "boolean" else None
            return QueryError(f"{shown} is text, not {_A[wanted]}", self._text, node.span, hint=hint)
        if not isinstance(node, ColumnRef) or kind.declared:
            return QueryError(f"{shown} is {_A[kind.name]}, not {_A[wanted]}", self._text, node.span)
        message = f"{shown} is used as {_A[wanted]} here, but as {_A[kind.name]} {self._place(kind)}"
        return QueryError(message, self._text, node.span)

    def _different(self, left: Expression, one: TypeVariable, right: Expression, other: TypeVariable) -> QueryError:
        span = left.span.to(right.span)
        if "timestamp" in (one.name, other.name):
            time, wrong = (left, right) if one.name == "timestamp" else (right, left)
            hint = "compare a time with one in quotes, as in '2024-05-01 12:00:00'"
            return QueryError(f"{_shown(time)} is a time and {_shown(wrong)} is not", self._text, span, hint=hint)
        sides = " and ".join(self._side(node, kind) for node, kind in ((left, one), (right, other)))
        return QueryError(f"{sides}: they cannot be compared", self._text, span)

    def _side(self, node: Expression, kind: TypeVariable) -> str:
        if kind.name is None:
            return f"{_shown(node)} is text"
        if isinstance(node, ColumnRef) and not kind.declared:
            return f"{_shown(node)} is {_A[kind.name]} ({self._place(kind)})"
        return f"{_shown(node)} is {_A[kind.name]}"

    def _place(self, kind: TypeVariable) -> str:
        line, column = position(self._text, kind.origin.start if kind.origin else 0)
        return f"at line {line}, column {column}"


def _settled(kind: TypeVariable) -> str:
    root = kind.root()
    return root.name or ("string" if root.text else "any")


def _shown(node: Expression) -> str:
    text = format_expression(node)
    return text if len(text) <= 60 else f"{text[:57]}…"
