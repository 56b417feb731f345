"""The tree of a parsed query: frozen; places in the text do not count in comparisons of trees."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from query.model.errors import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Duration:
    """`amount unit`; the unit is in capitals and plural."""

    amount: int
    unit: str
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class SizeClause:
    """`size [EVERY slide]`; without a slide windows follow each other."""

    size: Duration
    slide: Duration | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """`WINDOWING sizes [GRACE grace]`, or `WINDOWING SESSION gap [GRACE grace]`: then there are no sizes."""

    sizes: tuple[SizeClause, ...]
    gap: Duration | None = None
    grace: Duration | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class WithinClause:
    """`WITHIN limit [AT percent PERCENT | ON AVERAGE] [ELSE on_miss]`: LATE or PARTIAL; None where it is left out."""

    limit: Duration
    percent: float | None = None
    is_average: bool = False
    on_miss: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class StragglerClause:
    """`ON STRAGGLER choice [AFTER after PANES]`: WAIT, which takes no panes, LEAP, or MIRROR."""

    choice: str
    after: int | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class RecoverClause:
    """`RECOVER FOR time`."""

    time: Duration
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `type` is integer, number, string, boolean or null; it tells 1, 1.0 and TRUE apart."""

    value: int | float | str | bool | None
    type: str
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, or a field inside one: `user.location` has the parts ("user", "location")."""

    parts: tuple[str, ...]
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Star:
    """`*` as a select item or as the argument of COUNT."""

    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate with its arguments; the name is in capitals. A call of an unknown function is an aggregate.

    `where` is its FILTER. `gives`: the type of the results of an aggregate that a job's own code computes; "" for all
    others.
    """

    function: str
    arguments: tuple[Expression | Star, ...]
    distinct: bool = False
    where: Expression | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)
    gives: str = ""

    @property
    def aggregate(self) -> str:
        """The aggregate's key in `query.functions.aggregates`."""
        name = f"{self.function}:{self.gives.upper()}" if self.gives else self.function
        return f"{name} DISTINCT" if self.distinct else name


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A scalar function of `query.functions` with its arguments; the name is in capitals."""

    function: str
    arguments: tuple[Expression, ...]
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(operand AS type)`; the type is one of the values of `parser.TYPE_NAMES`."""

    operand: Expression
    type: str
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE [operand] WHEN a THEN b ... [ELSE otherwise] END`; `branches` are pairs (a, b)."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`NOT operand` or `- operand`."""

    operator: str
    operand: Expression
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic (`+ - * / // %`), `||`, or a comparison (`= <> < <= > >=`) of two expressions."""

    operator: str
    left: Expression
    right: Expression
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """`AND` or `OR` over two or more operands: a chain is one node, however long."""

    operator: str
    operands: tuple[Expression, ...]
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """`operand [NOT] IN (items)`."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """`operand [NOT] BETWEEN low AND high`."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """`operand [NOT] LIKE pattern`; the operator is LIKE, ILIKE or RLIKE."""

    operand: Expression
    pattern: Expression
    negated: bool = False
    operator: str = "LIKE"
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand IS [NOT] NULL`."""

    operand: Expression
    negated: bool = False
    span: SourceSpan = field(default=SourceSpan(), compare=False)


Expression: TypeAlias = (
    Literal
    | ColumnRef
    | AggregateCall
    | FunctionCall
    | Cast
    | Case
    | Unary
    | Binary
    | Logical
    | In
    | Between
    | Like
    | IsNull
)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of the answer; without an alias it is named by its own text."""

    expression: Expression | Star
    alias: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One key of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False
    span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """The streams that FROM, or JOIN, names: see `query.model.streams`."""

    name: str
    alias: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)

    @property
    def qualifier(self) -> str:
        """The name that qualifies its columns in a JOIN."""
        return self.name if self.alias is None else self.alias


@dataclass(frozen=True, slots=True)
class App:
    """`app('name')`: the results of another job."""

    name: str
    alias: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)

    @property
    def qualifier(self) -> str:
        """The name that qualifies its columns."""
        return self.name if self.alias is None else self.alias


@dataclass(frozen=True, slots=True)
class TableRef:
    """`table('name')`: a file of rows that every agent has."""

    name: str
    alias: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)

    @property
    def qualifier(self) -> str:
        """The name that qualifies its columns."""
        return self.name if self.alias is None else self.alias


@dataclass(frozen=True, slots=True)
class Subquery:
    """`(SELECT ... UNION ALL SELECT ...)`, of one branch or several."""

    branches: tuple[Query, ...]
    alias: str | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)

    @property
    def depth(self) -> int:
        """The number of sub-queries inside each other."""
        inner = (one.source.depth for one in self.branches if isinstance(one.source, Subquery))
        return 1 + max(inner, default=0)


@dataclass(frozen=True, slots=True)
class Join:
    """`[LEFT] JOIN source [WITHIN within] ON condition`; `outer` is a LEFT one, which keeps events without a match.

    Events of a stream are joined WITHIN a time, rows are not.
    """

    source: App | TableRef | Stream
    on: Expression
    outer: bool = False
    span: SourceSpan = field(default=SourceSpan(), compare=False)
    within: Duration | None = None


@dataclass(frozen=True, slots=True)
class KeyedClause:
    """`KEYED BY keys [GROUPING grouping] [OVER workers WORKERS]`; the grouping is in small letters, known or not."""

    keys: tuple[Expression, ...]
    grouping: str | None = None
    workers: int | None = None
    span: SourceSpan = field(default=SourceSpan(), compare=False)
    grouping_span: SourceSpan = field(default=SourceSpan(), compare=False)
    workers_span: SourceSpan = field(default=SourceSpan(), compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. `text` is what it was parsed from, kept for the excerpts of later errors."""

    select: tuple[SelectItem, ...]
    source: Stream | App | Subquery | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    window: WindowClause | None = None
    join: Join | None = None
    distinct: bool = False
    having: Expression | None = None
    text: str = field(default="", compare=False)
    limit_span: SourceSpan = field(default=SourceSpan(), compare=False)
    trees: int | None = None
    trees_span: SourceSpan = field(default=SourceSpan(), compare=False)
    changes: bool = False
    """Whether it has EMIT CHANGES."""
    emit_span: SourceSpan = field(default=SourceSpan(), compare=False)
    straggler: StragglerClause | None = None
    recover: RecoverClause | None = None
    keyed: KeyedClause | None = None
    within: WithinClause | None = None


def children(node: Expression | Star) -> tuple[Expression | Star, ...]:
    """The direct operands of an expression, left to right; a star only as the argument of a call."""
    match node:
        case AggregateCall(arguments=arguments, where=where):
            return arguments if where is None else (*arguments, where)
        case Literal() | ColumnRef() | Star():
            return ()
        case _:
            return operands(node)


def operands(node: Expression) -> tuple[Expression, ...]:
    """The direct operands of an operator, left to right; none for a call."""
    match node:
        case Logical(operands=operands) | FunctionCall(arguments=operands):
            return operands
        case Unary(operand=operand) | IsNull(operand=operand) | Cast(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case In(operand=operand, items=items):
            return (operand, *items)
        case Like(operand=operand, pattern=pattern):
            return (operand, pattern)
        case Between(operand=operand, low=low, high=high):
            return (operand, low, high)
        case Case(operand=subject, branches=branches, otherwise=otherwise):
            every = (subject, *(part for branch in branches for part in branch), otherwise)
            return tuple(part for part in every if part is not None)
        case _:
            return ()


def with_operands(node: Expression, new: Sequence[Expression]) -> Expression:
    """The node with other operands, as many as `operands` gave."""
    match node:
        case Logical():
            return replace(node, operands=tuple(new))
        case FunctionCall():
            return replace(node, arguments=tuple(new))
        case Unary() | IsNull() | Cast():
            return replace(node, operand=new[0])
        case Binary():
            return replace(node, left=new[0], right=new[1])
        case In():
            return replace(node, operand=new[0], items=tuple(new[1:]))
        case Like():
            return replace(node, operand=new[0], pattern=new[1])
        case Between():
            return replace(node, operand=new[0], low=new[1], high=new[2])
        case Case():
            return _case(node, list(new))
        case _:
            return node


def _case(node: Case, new: list[Expression]) -> Case:
    subject = None if node.operand is None else new.pop(0)
    otherwise = None if node.otherwise is None else new.pop()
    return replace(node, operand=subject, branches=tuple(zip(new[::2], new[1::2], strict=True)), otherwise=otherwise)


def first_call(node: Expression | Star) -> AggregateCall | None:
    """The leftmost aggregate in an expression."""
    if isinstance(node, AggregateCall):
        return node
    return next(filter(None, map(first_call, children(node))), None)


def has_call(node: Expression | Star) -> bool:
    """Whether an expression has an aggregate anywhere."""
    return first_call(node) is not None


def expressions(query: Query) -> Iterator[Expression | Star]:
    """The expressions of a query, clause by clause as they are written."""
    yield from (item.expression for item in query.select)
    if query.keyed is not None:
        yield from query.keyed.keys
    if query.join is not None:
        yield query.join.on
    if query.where is not None:
        yield query.where
    yield from query.group_by
    if query.having is not None:
        yield query.having
    yield from (item.expression for item in query.order_by)


def sources(query: Query) -> tuple[Stream | App | TableRef, ...]:
    """All sources that a query and its sub-queries read, in the order of the text: FROM's before JOIN's."""
    joined = () if query.join is None else (query.join.source,)
    if isinstance(query.source, Subquery):
        return (*(one for branch in query.source.branches for one in sources(branch)), *joined)
    return joined if query.source is None else (query.source, *joined)


def apps(query: Query) -> tuple[App, ...]:
    """The other jobs whose results a query reads."""
    return tuple(source for source in sources(query) if isinstance(source, App))


def streams_read(query: Query) -> tuple[str, ...]:
    """The selections of streams that a query reads, as `query.model.streams` spells them."""
    return tuple(source.name for source in sources(query) if isinstance(source, Stream))


def within(query: Query) -> Iterator[Query]:
    """The query and its sub-queries."""
    yield query
    if isinstance(query.source, Subquery):
        for branch in query.source.branches:
            yield from within(branch)


def with_apps(query: Query, names: Mapping[str, str]) -> Query:
    """The query with other names for some of the jobs it reads; the qualifiers of their columns stay."""

    def named(app: App) -> App:
        return replace(app, name=names[app.name], alias=app.qualifier) if app.name in names else app

    source, join = query.source, query.join
    match source:
        case App():
            source = named(source)
        case Subquery(branches=branches):
            source = replace(source, branches=tuple(with_apps(branch, names) for branch in branches))
    if join is not None and isinstance(join.source, App):
        join = replace(join, source=named(join.source))
    return replace(query, source=source, join=join)


def with_aggregates(query: Query, gives: Mapping[str, str]) -> Query:
    """The query with the calls of aggregates that a job's own code computes told apart. `gives`: the type of the
    results of each, by its name in capitals."""

    def called(node: Expression | Star) -> Any:
        changed = {}
        for one in fields(node):
            value = getattr(node, one.name)
            if (new := _each(value, called)) is not value:
                changed[one.name] = new
        if isinstance(node, AggregateCall) and node.function in gives:
            changed["gives"] = gives[node.function]
        return replace(node, **changed) if changed else node

    select = tuple(replace(item, expression=called(item.expression)) for item in query.select)
    order_by = tuple(replace(item, expression=called(item.expression)) for item in query.order_by)
    where, having = (None if one is None else called(one) for one in (query.where, query.having))
    group_by = tuple(map(called, query.group_by))
    source = query.source
    if isinstance(source, Subquery):
        source = replace(source, branches=tuple(with_aggregates(branch, gives) for branch in source.branches))
    return replace(
        query, select=select, where=where, group_by=group_by, order_by=order_by, having=having, source=source
    )


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A field of an expression with `change` applied to the expressions in it; itself where none is another one."""
    if isinstance(value, tuple):
        new = tuple(_each(one, change) for one in value)
        return value if all(one is other for one, other in zip(new, value, strict=True)) else new
    return change(value) if is_dataclass(value) and not isinstance(value, SourceSpan) else value
