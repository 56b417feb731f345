"""Turns a resolved query into a plan: settles types and takes aggregates apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.binder.clauses import (
    aggregate_of,
    check_windows,
    join_keys,
    parameters_of,
    stragglers_of,
    within_ms_of,
)
from query.binder.inference import Inference
from query.binder.keyed import GROUPING_DEFAULT, WORKERS_DEFAULT
from query.binder.latency import windows_and_limit
from query.functions import FUNCTIONS, ConstantError
from query.functions.aggregates import WIDE_MAX, AggregateFunction, Parameters, aggregate_function
from query.model.errors import QueryError, SourceSpan
from query.model.expression import Constant, Expression, Operation, Reference
from query.model.limits import INTEGER_MAX, JOINED_COLUMNS_MAX, KEYED_COLUMNS_MAX, ROWS_MAX, TREES_MAX
from query.model.timestamps import parse_timestamp
from query.model.types import BRANCHES_MAX, CASTS_TO, VALUES, TypeMismatchError
from query.plan.operations import REGEXES_MAX, is_regex, operation
from query.plan.plan import Argument, Output, Plan, PlanAggregate, PlanColumn, PlanJoin, PlanKey, PlanKeyed, PlanOrder
from query.syntax import ast
from query.syntax.printer import format_expression
from query.syntax.size import check_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from query.binder.scope import Scope

ROWS_DEFAULT = 1_000
_KINDS = {"BIGINT": "number", "DOUBLE": "number", "BOOLEAN": "boolean", "TIMESTAMP": "time", "VARCHAR": "text"}


class Analysis:
    """One resolved query on its way to a plan.

    `over_rows`: it reads the rows of a sub-query. `wanted`: the types that its columns must have, in order.
    """

    def __init__(
        self, query: ast.Query, stream: str, scope: Scope, *, over_rows: bool = False, wanted: Sequence[str] = ()
    ) -> None:
        self._wanted = wanted
        self._over_rows = over_rows
        self._stream = stream
        self._scope = scope
        self._rows_default = ROWS_MAX if over_rows else ROWS_DEFAULT
        self._query = query
        check_size(self._query)
        self._inference = Inference(scope, query.text)
        self._typed: dict[int, Expression] = {}
        self._regexes: set[int] = set()
        self._columns: dict[str, PlanColumn] = {}
        self._keys: dict[Expression, PlanKey] = {}
        self._arguments: dict[Expression, Argument] = {}
        self._aggregates: dict[tuple[str, Expression | None, Parameters], PlanAggregate] = {}

    def output_types(self) -> list[str]:
        """The type of each output column, "any" or "text" where it is not known yet."""
        plan = self.plan()
        kinds = [self._inference.untyped(item.expression) for item in self._query.select]
        return [kind or output.type for kind, output in zip(kinds, plan.output, strict=True)]

    def plan(self) -> Plan:
        query = self._query
        windowing, within = windows_and_limit(query)
        self._check_functions()
        self._infer()
        columns, joined = self._typed_columns(joined=False), self._typed_columns(joined=True)
        self._columns = {column.name: column for column in (*columns, *joined)}
        grouped = bool(query.group_by) or query.having is not None or any(map(ast.has_call, ast.expressions(query)))
        check_windows(query, self._scope, windowing, grouped=grouped)
        self._keys = {key.expression: key for key in self._group_keys()}
        translate = self._over_groups if grouped else self._over_events
        outputs = [translate(item.expression) for item in query.select]
        having = None if query.having is None else self._over_groups(query.having)
        order = tuple(
            PlanOrder(translate(item.expression), item.descending, item.nulls_first) for item in query.order_by
        )
        if grouped and not self._keys and not self._aggregates:
            # GROUP BY window_start alone: a row for each window that has events.
            self._aggregate_over(ast.AggregateCall("COUNT", (ast.Star(),)))
        plan = Plan(
            stream=self._stream,
            columns=columns,
            windowing=windowing,
            kind="aggregate" if grouped else "rows",
            where=None if query.where is None else self._over_events(query.where),
            keys=tuple(self._keys.values()),
            arguments=tuple(self._arguments.values()),
            aggregates=tuple(self._aggregates.values()),
            output=tuple(map(Output, (item.alias or "" for item in query.select), outputs)),
            having=having,
            order=order,
            limit=self._limit(grouped=grouped),
            app=query.source.name if isinstance(query.source, ast.App) else None,
            join=self._join(joined),
            trees=1 if query.trees is None else query.trees,
            trees_stated=query.trees is not None,
            stragglers=stragglers_of(query),
            keyed=self._keyed(columns),
            within=within,
        )
        self._check_trees(plan)
        return plan

    def _typed_columns(self, *, joined: bool) -> tuple[PlanColumn, ...]:
        used = self._scope.used(joined=joined)
        return tuple(replace(column, type=self._inference.column_type(column.name)) for column in used)

    def _join(self, columns: tuple[PlanColumn, ...]) -> PlanJoin | None:
        join = self._query.join
        if join is None:
            return None
        pairs = join_keys(join, self._scope, self._query.text)
        keys = tuple((self._scope.resolve(ours).name, self._scope.resolve(theirs).name) for ours, theirs in pairs)
        name, alias = join.source.name, join.source.qualifier
        match join.source:
            case ast.App():
                return PlanJoin(name, alias, join.outer, columns, keys)
            case ast.TableRef():
                return PlanJoin(None, alias, join.outer, columns, keys, name)
        if len(self._columns) > JOINED_COLUMNS_MAX:
            message = f"a join of streams reads at most {JOINED_COLUMNS_MAX} columns: here are {len(self._columns):,}"
            raise self._error(message, join.span)
        within_ms, events = within_ms_of(join, self._query.text), self._query.source
        assert isinstance(events, ast.Stream)
        return PlanJoin(None, alias, join.outer, columns, keys, None, name, within_ms, events.qualifier)

    def _keyed(self, columns: tuple[PlanColumn, ...]) -> PlanKeyed | None:
        clause, source = self._query.keyed, self._query.source
        if clause is None:
            return None
        assert isinstance(source, ast.Stream)
        keys = tuple(dict.fromkeys(self._scope.resolve(key).name for key in self._travelling_by(clause)))
        if len(columns) > KEYED_COLUMNS_MAX:
            message = f"events that travel by key have at most {KEYED_COLUMNS_MAX} columns: here are {len(columns):,}"
            raise self._error(message, clause.span, "name the columns to show, or leave KEYED BY out")
        grouping, workers = clause.grouping or GROUPING_DEFAULT, clause.workers or WORKERS_DEFAULT
        return PlanKeyed(keys, grouping, workers, source.qualifier)

    def _limit(self, *, grouped: bool) -> int | None:
        limit = self._query.limit
        if limit is None:
            return None if grouped else self._rows_default
        most = INTEGER_MAX if grouped else ROWS_MAX
        if limit > most:
            what = "" if grouped else " of a query without aggregates"
            raise self._error(f"the LIMIT{what} may be at most {most:,}", self._query.limit_span)
        return limit

    def _check_trees(self, plan: Plan) -> None:
        trees, span = plan.stated_trees, self._query.trees_span
        if trees is None:
            return
        if not 1 <= trees <= TREES_MAX:
            raise self._error(f"a job has 1 to {TREES_MAX} trees", span, "as in TREES 4")
        if trees > 1 and plan.app is not None:
            raise self._error("the results of another job are read by one agent: there is nothing to share", span)
        if trees > 1 and not plan.is_divisible:
            hint = "trees share the groups of GROUP BY among them"
            raise self._error("this query has no groups to share among trees", span, hint)

    def _check_functions(self) -> None:
        query = self._query
        for expression in ast.expressions(query):
            self._check_calls(expression, inside=None)
        if query.where is not None and (call := ast.first_call(query.where)):
            hint = "WHERE sees single events, before they are grouped"
            raise self._error(f"{call.function} cannot be used in WHERE", call.span, hint)
        for key in query.group_by:
            if call := ast.first_call(key):
                raise self._error(f"{call.function} cannot be used in GROUP BY", call.span)
        if query.where is not None and (bound := self._window_bound(query.where)):
            hint = "WHERE sees single events, whatever window they fall into"
            raise self._error(f"{bound.parts[0]} cannot be used in WHERE", bound.span, hint)

    def _travelling_by(self, clause: ast.KeyedClause) -> Iterator[ast.ColumnRef]:
        """The columns by which events travel."""
        for key in clause.keys:
            if not isinstance(key, ast.ColumnRef):
                raise self._error(
                    "KEYED BY takes columns", key.span, "as in KEYED BY user, or KEYED BY user.name, host"
                )
            if self._scope.is_window_bound(key) or self._scope.is_joined(key):
                hint = "as in KEYED BY user: a field of the events that FROM names"
                raise self._error(f"{_shown(key)} is no column of the events that travel", key.span, hint)
            yield key

    def _check_calls(self, node: ast.Expression | ast.Star, inside: ast.AggregateCall | None) -> None:
        if isinstance(node, ast.FunctionCall):
            self._check_arguments(node)
        if isinstance(node, ast.Case) and len(node.branches) > BRANCHES_MAX:
            raise self._error(f"a CASE may have at most {BRANCHES_MAX} WHENs", node.span)
        if isinstance(node, ast.AggregateCall):
            aggregate_of(node, self._query.text)
            if node.gives:
                self._check_of_job(node)
            if inside is not None:
                message = f"{node.function} cannot be used inside {inside.function}: aggregates do not nest"
                raise self._error(message, node.span)
            inside = node
        for child in ast.children(node):
            self._check_calls(child, inside)

    def _check_of_job(self, call: ast.AggregateCall) -> None:
        """Raises QueryError where the code of a job cannot compute an aggregate."""
        if self._over_rows:
            hint = "compute it in a stage of its own, and read that with FROM app('its name')"
            raise self._error(f"{call.function} cannot read the rows of a sub-query", call.span, hint)
        if aggregate_of(call, self._query.text).is_rigid and not isinstance(self._query.source, ast.App):
            message = f"{call.function} has no combine, so it takes all rows of a group in one place"
            hint = "give it a combine, or put the query over a stage's rows: FROM app('its name')"
            raise self._error(f"{message}: events of a stream are on all agents", call.span, hint)
        if self._query.changes:
            hint = "leave EMIT CHANGES out"
            raise self._error(f"{call.function} is computed once for a window, at its end", call.span, hint)

    def _check_arguments(self, call: ast.FunctionCall) -> None:
        function, count = FUNCTIONS[call.function], len(call.arguments)
        if not function.accepts_count(count):
            given = f"{count or 'no'} argument{'' if count == 1 else 's'}"
            hint = f"it is written {function.signature}, as in {function.example}"
            raise self._error(f"{function.name} cannot take {given}", call.span, hint)

    def _window_bound(self, node: ast.Expression | ast.Star) -> ast.ColumnRef | None:
        if isinstance(node, ast.ColumnRef):
            return node if self._scope.is_window_bound(node) else None
        return next(filter(None, map(self._window_bound, ast.children(node))), None)

    def _infer(self) -> None:
        query = self._query
        for item in query.select:
            self._inference.visit(item.expression)
        for item, wanted in zip(query.select, self._wanted, strict=False):
            self._inference.require_type(item.expression, wanted)
        if query.join is not None:
            join_keys(query.join, self._scope, query.text)
            self._inference.condition(query.join.on)
        if query.where is not None:
            self._inference.condition(query.where)
        if query.having is not None:
            self._inference.condition(query.having)
        keys = () if query.keyed is None else self._travelling_by(query.keyed)
        for expression in (*keys, *query.group_by, *(item.expression for item in query.order_by)):
            self._inference.visit(expression)

    def _group_keys(self) -> list[PlanKey]:
        """The distinct GROUP BY expressions; a window bound is the same throughout a window and left out."""
        distinct: dict[Expression, None] = {}
        for node in self._query.group_by:
            if not (isinstance(node, ast.ColumnRef) and self._scope.is_window_bound(node)):
                distinct[self._over_events(node)] = None
        return [PlanKey(f"k{number}", expression) for number, expression in enumerate(distinct)]

    def _over_events(self, node: ast.Expression | ast.Star) -> Expression:
        """The expression over an event's columns."""
        assert not isinstance(node, ast.Star)
        if id(node) not in self._typed:
            self._typed[id(node)] = self._event_expression(node)
        return self._typed[id(node)]

    def _event_expression(self, node: ast.Expression) -> Expression:
        if isinstance(node, ast.Literal):
            return self._literal(node)
        if isinstance(node, ast.ColumnRef):
            column = self._scope.resolve(node)
            return Reference(column.name, self._columns.get(column.name, column).type)
        return self._operation(node, [self._over_events(child) for child in ast.children(node)])

    def _over_groups(self, node: ast.Expression | ast.Star) -> Expression:
        """The expression over keys, aggregates and window bounds."""
        assert not isinstance(node, ast.Star)
        if isinstance(node, ast.AggregateCall):
            return self._aggregate_over(node)
        if not ast.has_call(node):
            expression = self._over_events(node)
            if expression in self._keys:
                key = self._keys[expression]
                return Reference(key.name, key.type)
            if isinstance(expression, (Constant, Reference)):
                return self._group_leaf(node, expression)
        return self._operation(node, [self._over_groups(child) for child in ast.children(node)])

    def _group_leaf(self, node: ast.Expression, expression: Constant | Reference) -> Expression:
        if isinstance(node, ast.ColumnRef) and not self._scope.is_window_bound(node):
            name = format_expression(node)
            hint = f"add GROUP BY {name}, or use an aggregate such as MAX({name})"
            if self._query.distinct:
                hint = f"of SELECT DISTINCT, only what is selected is left: add {name} to it"
            raise self._error(f"{name} is neither grouped nor aggregated", node.span, hint)
        return expression

    def _aggregate_over(self, call: ast.AggregateCall) -> Reference:
        function = aggregate_of(call, self._query.text)
        parameters = parameters_of(call, function, self._query.text)
        expression = self._aggregated(call)
        identity = (function.key, expression, parameters)
        if identity not in self._aggregates:
            self._aggregates[identity] = self._new_aggregate(call, function, expression, parameters)
        aggregate = self._aggregates[identity]
        return Reference(aggregate.name, function.result_type(aggregate.type))

    def _aggregated(self, call: ast.AggregateCall) -> Expression | None:
        """The expression that an aggregate reads of each event; None for COUNT(*) without FILTER."""
        argument = call.arguments[0]
        value = None if isinstance(argument, ast.Star) else self._over_events(argument)
        if call.gives:
            value = operation(VALUES, [self._over_events(one) for one in call.arguments])
        if call.where is None:
            return value
        return operation("filter", [self._over_events(call.where), value or Constant(True, "boolean")])

    def _new_aggregate(
        self,
        call: ast.AggregateCall,
        function: AggregateFunction,
        expression: Expression | None,
        parameters: Parameters,
    ) -> PlanAggregate:
        name, key = f"a{len(self._aggregates)}", function.key.lower()
        wide = sum(aggregate_function(one.function.upper()).wide for one in self._aggregates.values())
        if function.wide and wide >= WIDE_MAX:
            hint = f"at most {WIDE_MAX} aggregates of a query may be sets or sketches"
            raise self._error(f"{function.name} is one too many", call.span, hint)
        if expression is None:
            return PlanAggregate(name, key, None, "integer")
        if expression not in self._arguments:
            self._arguments[expression] = Argument(f"x{len(self._arguments)}", expression)
        return PlanAggregate(name, key, self._arguments[expression].name, expression.type, parameters)

    def _literal(self, node: ast.Literal) -> Constant:
        if node.type == "null":
            return Constant(None, self._inference.kind(node))
        if node.type == "string" and self._inference.kind(node) == "timestamp":
            time_ms = parse_timestamp(str(node.value))
            if time_ms is None:
                hint = "write a time as '2024-05-01', '2024-05-01 12:00:00' or '2024-05-01T12:00:00Z'"
                raise self._error(f"{format_expression(node)} is not a time", node.span, hint)
            return Constant(time_ms, "timestamp")
        return Constant(node.value, node.type)

    def _operation(self, node: ast.Expression, operands: list[Expression]) -> Expression:
        match node:
            case ast.Logical(operator=operator):
                return self._call(node, operator.lower(), operands)
            case ast.Unary(operator=operator):
                return self._call(node, "not" if operator == "NOT" else "negate", operands)
            case ast.Binary(operator="||"):
                first, last = operands
                chain = first.operands if isinstance(first, Operation) and first.operator == "||" else (first,)
                return self._call(node, "||", [*chain, last])
            case ast.Binary(operator=operator) | ast.FunctionCall(function=operator):
                return self._call(node, operator, operands)
            case ast.In(negated=negated):
                return self._call(node, "in", operands, negated=negated)
            case ast.IsNull(negated=negated):
                return self._call(node, "is_null", operands, negated=negated)
            case ast.Between(negated=negated):
                return self._call(node, "between", operands, negated=negated)
            case ast.Cast(type=type_):
                return self._call(node, CASTS_TO[type_], operands)
            case ast.Case(operand=subject, otherwise=otherwise):
                ending = [] if otherwise is not None else [Constant(None, operands[-1].type)]
                return self._call(node, "case" if subject is None else "switch", [*operands, *ending])
            case ast.Like(pattern=pattern, operator=operator, negated=negated):
                if not isinstance(pattern, ast.Literal):
                    hint = "as in path RLIKE '^/shop/'" if operator == "RLIKE" else f"as in path {operator} '/shop/%'"
                    raise self._error(f"{operator} needs a pattern in quotes", pattern.span, hint)
                return self._call(node, operator.lower(), operands, negated=negated)
        raise AssertionError(f"{node} is no operation")

    def _call(
        self, node: ast.Expression, operator: str, operands: list[Expression], *, negated: bool = False
    ) -> Expression:
        if is_regex(operator):
            self._regexes.add(id(node))
        if len(self._regexes) > REGEXES_MAX:
            raise self._error(f"a query may have at most {REGEXES_MAX} regular expressions", node.span)
        try:
            call = operation(operator, operands)
        except ConstantError as error:
            hint = f"as in {FUNCTIONS[operator].example}" if operator in FUNCTIONS else None
            raise self._error(str(error), _constant_place(node), hint) from None
        except TypeMismatchError as error:
            if "any" not in {operand.type for operand in operands} and not isinstance(node, ast.Cast):
                raise
            raise self._type_error(node, str(error)) from None
        return Operation("not", (call,), "boolean") if negated else call

    def _type_error(self, node: ast.Expression, why: str) -> QueryError:
        """The error for values whose type nothing determines, or for a time that is cast to a number."""
        if isinstance(node, ast.Cast):
            hint = "EPOCH_MS(time) gives milliseconds, TO_TIMESTAMP(seconds) a time"
            return self._error(f"a {_KINDS[node.type]} cannot be made of this: {why}", node.span, hint)
        results = ast.operands(node)
        if isinstance(node, ast.Case):
            results = tuple(result for _, result in node.branches)
        column = next((one for one in reversed(results) if isinstance(one, ast.ColumnRef)), node)
        message = f"nothing says whether {_shown(node)} is a text or a number"
        return self._error(message, node.span, f"say it with CAST, as in CAST({_shown(column)} AS VARCHAR)")

    def _error(self, message: str, span: SourceSpan, hint: str | None = None) -> QueryError:
        return QueryError(message, self._query.text, span, hint=hint)


def _constant_place(node: ast.Expression) -> SourceSpan:
    """The place of the constant that has no meaning, if only one can be meant."""
    if isinstance(node, ast.Like):
        return node.pattern.span
    given = [one for one in ast.operands(node) if isinstance(one, ast.Literal)]
    return given[0].span if len(given) == 1 else node.span


def _shown(node: ast.Expression) -> str:
    text = format_expression(node)
    return text if len(text) <= 60 else f"{text[:57]}…"
