"""The plan of a query, with its names and types settled: plain data that every agent can run.

An *aggregate* plan groups events by its keys: agents evaluate `where`, `keys` and `arguments`, the partial
aggregates travel, and `output` and `order` are evaluated over keys and aggregates where windows are finished.
A *rows* plan has neither keys nor aggregates: agents evaluate `output` and `order` on the events themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from query.functions.aggregates import WIDE_MAX, ParameterError, aggregate_function, aggregate_type, is_aggregate
from query.model.expression import encode_expression
from query.model.limits import COLUMNS_MAX, GROUPS_DEFAULT, ROWS_MAX, SUBQUERIES_MAX
from query.model.streams import patterns, selection, selects
from query.model.types import RESERVED_COLUMNS, WINDOW_BOUNDS, TypeMismatchError, family
from query.plan.stragglers import UNSTATED, Stragglers, StragglersMessage
from query.plan.windows import Windowing, tumbling
from query.plan.wire import (
    WIRE_VERSION,
    BeyondGroups,
    ExpressionReader,
    PlanError,
    PlanMessage,
    encode_windowing,
    read_message,
    read_windowing,
)
from query.plan.within import LOOK_MS_DEFAULT, Within, WithinMessage
from query.syntax.ast import App
from query.syntax.printer import format_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from query.functions.aggregates import AggregateFunction, Parameters
    from query.model.expression import Expression
    from query.plan.wire import BranchMessage, ExpressionReader, JoinMessage


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    expression: Expression

    @property
    def type(self) -> str:
        """The type of its values."""
        return self.expression.type


@dataclass(frozen=True, slots=True)
class PlanKey(_Named):
    """One GROUP BY expression under the name it has from the events to the result: k0, k1 ..."""


@dataclass(frozen=True, slots=True)
class Argument(_Named):
    """The expression that one or more aggregates read of each event: x0, x1 ..."""


@dataclass(frozen=True, slots=True)
class Output(_Named):
    """One column of the result under the name people see."""


@dataclass(frozen=True, slots=True)
class PlanAggregate:
    """An aggregate (a0, a1 ...): its function, as `query.functions.aggregates` knows it by its key, in small letters,
    and the name of its argument.

    `argument` is None for COUNT(*). `type` is the argument's type, "integer" for COUNT(*).
    """

    name: str
    function: str
    argument: str | None
    type: str
    parameters: Parameters = ()


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """One key of ORDER BY; NULL is last in either direction unless `nulls_first`."""

    expression: Expression
    descending: bool
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column the query needs of its events: `path` leads into nested objects."""

    name: str
    path: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True)
class PlanJoin:
    """A look-up of each event in rows, before `where`: rows of another job's latest result (`app`), or of a file that
    every agent has (`table`), or events of a `stream`; two of the three are None.

    `alias` is for people. `columns` are the columns needed of the rows; of each pair of `keys`, the first is a column
    of the events, the second a column of the rows. `outer` keeps events without a row, with NULL for these columns.

    Events of a stream are met where their times differ by `within_ms` at most; `events` is the alias of those they
    meet. Such a join never travels: the planner turns it into keyed elements.
    """

    app: str | None
    alias: str
    outer: bool
    columns: tuple[PlanColumn, ...]
    keys: tuple[tuple[str, str], ...]
    table: str | None = None
    stream: str | None = None
    within_ms: int = 0
    events: str = ""


@dataclass(frozen=True, slots=True)
class PlanKeyed:
    """The way of events by the values of `keys`, which are columns, to some of the job's logical nodes, its `workers`:
    `grouping` chooses one for each event. `events` is the alias of these. It never travels: the planner turns it into
    an element.
    """

    keys: tuple[str, ...]
    grouping: str
    workers: int
    events: str


@dataclass(frozen=True, slots=True)
class PlanBranch:
    """A branch of a union: for each event of its streams that `where` keeps, an expression for each of the plan's
    columns, over columns of its own.
    """

    stream: str
    columns: tuple[PlanColumn, ...]
    where: Expression | None
    outputs: tuple[Expression, ...]


def encode_columns(columns: Sequence[PlanColumn]) -> list[list[object]]:
    """Columns in their form on the wire."""
    return [[column.name, list(column.path), column.type] for column in columns]


def read_columns(columns: Sequence[tuple[str, list[str], str]]) -> tuple[PlanColumn, ...]:
    """Columns from their form on the wire."""
    return tuple(PlanColumn(name, tuple(path), type_) for name, path, type_ in columns)


def encode_join(join: PlanJoin) -> dict[str, object]:
    """A JOIN in its form on the wire."""
    named = {"app": join.app} if join.table is None else {"table": join.table}
    return named | {
        "alias": join.alias,
        "outer": join.outer,
        "columns": encode_columns(join.columns),
        "keys": [list(pair) for pair in join.keys],
    }


def read_join(join: JoinMessage, types: Mapping[str, str]) -> PlanJoin:
    """A JOIN from its form on the wire, with events of columns of these types; raises PlanError."""
    _require((join.app is None) != (join.table is None), "its JOIN names neither an app nor a table, or both")
    own = {name: type_ for name, _, type_ in join.columns}
    for ours, theirs in join.keys:
        _require(ours in types and theirs in own, "its JOIN compares a column that is not there")
        _require(family(types[ours]) == family(own[theirs]), "its JOIN compares columns of different types")
    columns, keys = read_columns(join.columns), tuple(join.keys)
    return PlanJoin(join.app, join.alias, join.outer, columns, keys, join.table)


def encode_branch(branch: PlanBranch) -> dict[str, object]:
    """A branch in its form on the wire."""
    return {
        "stream": branch.stream,
        "columns": encode_columns(branch.columns),
        "where": None if branch.where is None else encode_expression(branch.where),
        "outputs": list(map(encode_expression, branch.outputs)),
    }


def read_branch(
    branch: BranchMessage, columns: Sequence[PlanColumn], windows: Mapping[str, str], expressions: ExpressionReader
) -> PlanBranch:
    """A branch from its form on the wire, of a plan with these columns and window bounds; raises PlanError."""
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A query ready to run. `stream` is "*" for all; `windowing` None means one window over everything.

    `app`: the name of the job whose results are its events; `stream` is then the source as people write it.

    `having`, over keys and aggregates, says which groups are shown. A window keeps at most `max_groups` groups.
    `beyond_groups` says what becomes of further groups: they are combined into one group, OTHER, or are an error.

    `trees` compute it, each for a range of its keys' hashes; where the query does not say how many (`trees_stated`),
    the planner chooses.

    `branches`: the columns are computed from events, by an expression of its own for each of several streams.

    `stragglers`: the patience of a live job with agents that are late. `elements`: the keyed elements of the job, as
    plain data that means nothing here: whoever runs them checks it. `types`: the streams that it reads are types of
    events, with these fields, which elements of the job that it is a stage of emit. `within`: how soon results are to
    come.

    `outer` reads the rows of each window, once it is finished, as events: its columns are the names of `output`.
    """

    stream: str
    columns: tuple[PlanColumn, ...]
    windowing: Windowing | None
    kind: str
    where: Expression | None
    keys: tuple[PlanKey, ...]
    arguments: tuple[Argument, ...]
    aggregates: tuple[PlanAggregate, ...]
    output: tuple[Output, ...]
    order: tuple[PlanOrder, ...]
    limit: int | None
    max_groups: int = GROUPS_DEFAULT
    beyond_groups: BeyondGroups = "other"
    app: str | None = None
    join: PlanJoin | None = None
    trees: int = 1
    trees_stated: bool = False
    having: Expression | None = None
    outer: Plan | None = None
    branches: tuple[PlanBranch, ...] = ()
    stragglers: Stragglers = UNSTATED
    elements: Mapping[str, Any] | None = None
    types: Mapping[str, Sequence[tuple[str, str]]] | None = None
    keyed: PlanKeyed | None = None
    within: Within | None = None

    def called(self, name: str) -> AggregateFunction:
        """The function of one of its aggregates. Raises KeyError for a name that none has."""
        functions = {one.name: one.function.upper() for one in self.aggregates}
        return aggregate_function(functions[name])

    @property
    def aggregates_of_job(self) -> tuple[str, ...]:
        """The names, in capitals, of its aggregates that the job's own code computes, in order."""
        functions = (aggregate_function(one.function.upper()) for one in self.aggregates)
        return tuple(sorted({function.name for function in functions if function.is_of_job}))

    @property
    def is_rigid(self) -> bool:
        """Whether one of its aggregates is of all rows of a group together, as their states do not combine."""
        return any(aggregate_function(one.function.upper()).is_rigid for one in self.aggregates)

    @property
    def reads_types(self) -> bool:
        """Whether what it reads is emitted by elements, of its own job or of the one that it is a stage of."""
        return self.elements is not None or self.types is not None

    @property
    def shown(self) -> Plan:
        """The plan whose rows people see: this plan, or the last of the plans over its rows."""
        return self if self.outer is None else self.outer.shown

    @property
    def streams_read(self) -> str:
        """The selection of streams that it reads, or that the sources of its elements read. Raises PlanError."""
        if self.elements is None:
            return self.stream
        try:
            read = [source["plan"]["stream"] for source in self.elements["sources"]]
            return selection(pattern for text in read for pattern in patterns(text))
        except (KeyError, TypeError, AttributeError):
            raise PlanError("not a plan that can run: its elements do not say what they read") from None

    @property
    def reads_rows(self) -> bool:
        """Whether the plan needs rows beside events: results of other jobs, or a table."""
        return self.app is not None or self.join is not None

    def with_outer(self, plan: Plan) -> Plan:
        """The plan with another plan over its rows."""
        return replace(self, outer=plan if self.outer is None else self.outer.with_outer(plan))

    @property
    def window_ms(self) -> int | None:
        """The length of its windows, of the longest if there are several sizes; None where there are no windows."""
        return None if self.windowing is None else self.windowing.size_ms

    @property
    def interval(self) -> str:
        """The name for people of the intervals that agents cut events into: "window", "pane" where windows have
        several, or ""."""
        if self.windowing is None:
            return ""
        return "window" if self.windowing.is_of_panes else "pane"

    @property
    def pane_ms(self) -> int | None:
        """The length of the panes that its windows are made of."""
        return None if self.windowing is None else self.windowing.pane_ms

    @property
    def stated_trees(self) -> int | None:
        """The number of trees that the query states; None where the planner chose it."""
        return self.trees if self.trees_stated else None

    @property
    def is_divisible(self) -> bool:
        """Whether several trees can share the work: the plan has groups by keys, on more than one agent."""
        return bool(self.keys) and self.app is None

    @property
    def gains_by_trees(self) -> bool:
        """Whether that is of use: where the first rows of an order are shown, few keys make up the result."""
        return self.is_divisible and not (self.order and self.limit is not None)

    @property
    def can_be_cut(self) -> bool:
        """Whether shorter panes would give the same rows: of windows that are shown once, with groups whose states can
        be merged in any order without a trace."""
        windowing = self.windowing
        if windowing is None or windowing.session is not None or windowing.changes or self.kind != "aggregate":
            return False
        if self.reads_rows or self.reads_types or self.keyed is not None or self.outer is not None:
            return False
        if self.beyond_groups == "error":
            return False
        functions = (aggregate_function(one.function.upper()) for one in self.aggregates)
        return not any(one.is_of_job or one.error is not None or one.limit is not None for one in functions)

    @property
    def event_columns(self) -> tuple[PlanColumn, ...]:
        """The columns of events as expressions see them, the joined ones too."""
        return self.columns if self.join is None else (*self.columns, *self.join.columns)

    @property
    def apps(self) -> tuple[str, ...]:
        """The jobs whose results the plan needs."""
        joined = None if self.join is None else self.join.app
        return tuple(name for name in (self.app, joined) if name is not None)

    def grace_ms(self, unstated_ms: int) -> int:
        """The time for which late events are awaited (ms): what the query states or, where it states none, what is
        chosen under its WITHIN, and `unstated_ms` at most.
        """
        stated = None if self.windowing is None else self.windowing.grace_ms
        if stated is not None:
            return stated
        chosen = None if self.within is None else self.within.grace_ms
        return unstated_ms if chosen is None else min(unstated_ms, chosen)

    @property
    def look_ms(self) -> int:
        """The interval at which it does to look at the logs that it reads (ms), beside the look when a pane is due."""
        return LOOK_MS_DEFAULT if self.within is None else self.within.look_ms

    def without_within(self) -> Plan:
        """The plan as it is without WITHIN, where all input is there already."""
        windowing = None if self.windowing is None else replace(self.windowing, part_ms=None)
        outer = None if self.outer is None else self.outer.without_within()
        return replace(self, windowing=windowing, outer=outer, within=None)

    def shared_part(self) -> Plan:
        """The plan without all that is decided after windows are merged, and with its columns in a fixed order.

        Jobs whose plans have equal shared parts compute the same partial aggregates, or rows, of each pane.
        """
        part = replace(
            self,
            columns=tuple(sorted(self.columns, key=lambda column: (column.name, column.path, column.type))),
            beyond_groups="other",
            trees=1,
            trees_stated=False,
            outer=None,
            stragglers=UNSTATED,
            elements=None,
            types=None,
            within=None,
        )
        if self.windowing is not None and self.windowing.session is None:
            part = replace(part, windowing=tumbling(self.windowing.pane_ms))
        return replace(part, output=(), having=None, order=(), limit=None) if self.kind == "aggregate" else part

    def to_wire(self) -> dict[str, object]:
        """The plan as dicts, lists, strings and numbers, ready for msgpack; `from_wire` reads it back."""
        plan: dict[str, object] = {
            "version": WIRE_VERSION,
            "stream": self.stream,
            "columns": encode_columns(self.columns),
            "window_ms": self.pane_ms,
            "kind": self.kind,
            "where": None if self.where is None else encode_expression(self.where),
            "keys": [[key.name, encode_expression(key.expression)] for key in self.keys],
            "arguments": [[argument.name, encode_expression(argument.expression)] for argument in self.arguments],
            "aggregates": [[one.name, one.function, one.argument] for one in self.aggregates],
            "output": [[output.name, encode_expression(output.expression)] for output in self.output],
            "order": [[encode_expression(key.expression), key.descending] for key in self.order],
            "limit": self.limit,
            "max_groups": self.max_groups,
            "beyond_groups": self.beyond_groups,
        }
        if (windows := encode_windowing(self.windowing)) is not None:
            plan["windows"] = windows
        if self.trees != 1:
            plan["trees"] = self.trees
        if self.trees_stated:
            plan["trees_stated"] = True
        if parameters := {one.name: list(one.parameters) for one in self.aggregates if one.parameters}:
            plan["parameters"] = parameters
        if self.having is not None:
            plan["having"] = encode_expression(self.having)
        if nulls_first := [number for number, key in enumerate(self.order) if key.nulls_first]:
            plan["nulls_first"] = nulls_first
        if self.app is not None:
            plan["app"] = self.app
        if self.join is not None:
            plan["join"] = encode_join(self.join)
        if self.branches:
            plan["branches"] = list(map(encode_branch, self.branches))
        if self.stragglers != UNSTATED:
            plan["stragglers"] = StragglersMessage.of(self.stragglers)
        if self.within is not None:
            plan["within"] = WithinMessage.of(self.within)
        if self.outer is not None:
            plan["outer"] = self.outer.to_wire()
        if self.elements is not None:
            plan["elements"] = self.elements
        if self.types is not None:
            plan["types"] = {name: [[*field] for field in fields] for name, fields in self.types.items()}
        return plan

    @staticmethod
    def from_wire(data: object) -> Plan:
        """The plan from a message that a peer sent; raises PlanError for anything but a plan that can run."""
        return _PlanReader(read_message(data)).plan()


def output_names(plan: Plan) -> list[str]:
    """The names of the result's columns, in order."""
    return [output.name for output in plan.shown.output]


class _PlanReader:
    """Builds the plan a checked message describes."""

    def __init__(self, message: PlanMessage, depth: int = 0) -> None:
        self._message = message
        self._depth = depth
        self._expressions = ExpressionReader()
        self._windowing = read_windowing(message)
        self._window = dict.fromkeys(WINDOW_BOUNDS if message.window_ms else (), "timestamp")

    def plan(self) -> Plan:
        message = self._message
        columns, join = read_columns(message.columns), self._join()
        every = columns if join is None else (*columns, *join.columns)
        of_events = self._window if self._windowing is not None and self._windowing.is_tumbling else {}
        events = of_events | {column.name: column.type for column in every}
        _require(len(every) <= COLUMNS_MAX, f"it has more than {COLUMNS_MAX:,} columns")
        _require(
            len({column.name for column in every} - self._window.keys()) == len(every), "two columns have one name"
        )
        _require(not events.keys() & RESERVED_COLUMNS, "a column has a reserved name")
        keys = tuple(PlanKey(name, self._read(expression, events)) for name, expression in message.keys)
        arguments = tuple(Argument(name, self._read(expression, events)) for name, expression in message.arguments)
        aggregates = tuple(self._aggregate(aggregate, arguments) for aggregate in message.aggregates)
        self._check_kind(keys, arguments, aggregates)
        groups = {key.name: key.type for key in keys} | {
            one.name: aggregate_type(one.function.upper(), one.type) for one in aggregates
        }
        shown = events if message.kind == "rows" else self._window | groups
        where = None if message.where is None else self._read(message.where, events)
        _require(where is None or where.type == "boolean", "its condition is not a condition")
        having = None if message.having is None else self._read(message.having, shown)
        _require(having is None or having.type == "boolean", "its HAVING is not a condition")
        output = tuple(Output(name, self._read(expression, shown)) for name, expression in message.output)
        _require(len({one.name for one in output}) == len(output), "two columns of the result have one name")
        plan = Plan(
            stream=message.stream,
            columns=columns,
            windowing=self._windowing,
            kind=message.kind,
            where=where,
            keys=keys,
            arguments=arguments,
            aggregates=aggregates,
            output=output,
            order=self._order(shown),
            limit=message.limit,
            max_groups=message.max_groups,
            beyond_groups=message.beyond_groups,
            app=message.app,
            join=join,
            trees=message.trees,
            trees_stated=message.trees_stated,
            having=having,
            outer=self._outer(output),
            branches=self._branches(columns),
            stragglers=UNSTATED if message.stragglers is None else message.stragglers.read(),
            elements=message.elements,
            types=message.types,
            within=None if message.within is None else message.within.read(),
        )
        _check_whole(plan)
        return plan

    def _order(self, shown: dict[str, str]) -> tuple[PlanOrder, ...]:
        order, nulls_first = self._message.order, self._message.nulls_first
        _require(all(0 <= number < len(order) for number in nulls_first), "a key of its order is not there")
        return tuple(
            PlanOrder(self._read(key, shown), descending, number in nulls_first)
            for number, (key, descending) in enumerate(order)
        )

    def _join(self) -> PlanJoin | None:
        message = self._message
        if message.app is not None:
            _require(message.stream == format_source(App(message.app)), "it reads a stream and an app at once")
        if message.join is None:
            return None
        return read_join(message.join, {name: type_ for name, _, type_ in message.columns})

    def _branches(self, columns: tuple[PlanColumn, ...]) -> tuple[PlanBranch, ...]:
        message = self._message
        _require(message.app is None or not message.branches, "it is a union and reads an app at once")
        return tuple(read_branch(one, columns, self._window, self._expressions) for one in message.branches)

    def _outer(self, output: tuple[Output, ...]) -> Plan | None:
        """The plan over the rows of this plan."""
        if self._message.outer is None:
            return None
        _require(self._depth < SUBQUERIES_MAX, "its sub-queries nest too deeply")
        plan = _PlanReader(read_message(self._message.outer), self._depth + 1).plan()
        names = {(one.name,) for one in output}
        _require(all(column.path in names for column in plan.columns), "it reads a column of a row that is not there")
        _require(not (plan.apps or plan.join or plan.branches), "the rows of a sub-query are not joined")
        _require(_has_windows_of(plan, self._windowing), "a sub-query has other windows")
        _require(not plan.reads_types, "a sub-query has elements")
        _require(plan.within is None, "a sub-query has a limit of its own")
        _require(not plan.aggregates_of_job, "code computes an aggregate of the rows of a sub-query")
        return plan

    def _read(self, data: object, scope: dict[str, str]) -> Expression:
        return self._expressions.read(data, scope)

    def _aggregate(self, aggregate: tuple[str, str, str | None], arguments: tuple[Argument, ...]) -> PlanAggregate:
        name, function, argument = aggregate
        types = {one.name: one.type for one in arguments}
        _require(is_aggregate(function.upper()) and function.islower(), "it has an aggregate that is not there")
        if argument is None:
            _require(function == "count", "an aggregate has no argument")
            return PlanAggregate(name, function, None, "integer")
        _require(argument in types, "an aggregate has an argument that is not there")
        given = tuple(self._message.parameters.get(name, ()))
        try:
            aggregate_type(function.upper(), types[argument])
            parameters = aggregate_function(function.upper()).complete(given)
        except (TypeMismatchError, ParameterError) as error:
            raise PlanError(f"not a plan that can run: {error}") from None
        return PlanAggregate(name, function, argument, types[argument], parameters)

    def _check_kind(
        self,
        keys: tuple[PlanKey, ...],
        arguments: tuple[Argument, ...],
        aggregates: tuple[PlanAggregate, ...],
    ) -> None:
        wide = sum(aggregate_function(one.function.upper()).wide for one in aggregates)
        _require(wide <= WIDE_MAX, f"more than {WIDE_MAX} of its aggregates are sets or sketches")
        if self._windowing is not None and self._windowing.session is not None:
            _require(not wide and self._message.kind == "aggregate", "its sessions are no groups, or have sets")
        names = [key.name for key in keys]
        names += [argument.name for argument in arguments]
        names += [aggregate.name for aggregate in aggregates]
        expected = [*_numbered("k", keys), *_numbered("x", arguments), *_numbered("a", aggregates)]
        _require(names == expected, "a key, argument or aggregate has a wrong name")
        _require(self._message.parameters.keys() <= set(names), "parameters of an aggregate that is not there")
        if self._message.kind == "aggregate":
            _require(bool(keys or aggregates), "it groups without keys and aggregates")
            return
        _require(not (keys or arguments or aggregates or self._message.having is not None), "rows are not grouped")
        limit = self._message.limit
        _require(limit is not None and limit <= ROWS_MAX, f"its rows are not limited to {ROWS_MAX:,}")


def _check_whole(plan: Plan) -> None:
    """Raises PlanError where parts of a plan that was read do not go together."""
    leaps = plan.stragglers.leap_panes is not None
    _require(not (plan.stragglers.waits and leaps), "it waits for stragglers and leaps")
    _require(leaps or not plan.stragglers.mirrors, "it mirrors stragglers, and does not say which")
    _require(plan.within is None or plan.windowing is not None, "it has no windows that could be late")
    _require(plan.trees == 1 or plan.is_divisible, "it has no groups to share among trees")
    _require(plan.app is not None or not plan.is_rigid, "code computes an aggregate of all events in one place")
    if plan.types is not None:
        named = [one for text in (plan.stream, *(one.stream for one in plan.branches)) for one in patterns(text)]
        known = all(any(selects(name, type_) for type_ in plan.types) for name in named)
        _require(known and plan.elements is None, "it reads what is no type of its job")


def _has_windows_of(outer: Plan, windowing: Windowing | None) -> bool:
    """Whether a plan over rows has the windows that these are of: none that are sessions are made of rows."""
    if outer.windowing is None or windowing is None:
        return outer.windowing is windowing
    return outer.windowing.session is None and outer.windowing.sizes == windowing.sizes


def _numbered(prefix: str, parts: tuple[object, ...]) -> list[str]:
    return [f"{prefix}{number}" for number in range(len(parts))]


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise PlanError(f"not a plan that can run: {problem}")
