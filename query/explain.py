"""Explains a plan in words, place by place, as `elf query --explain` prints it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from query.execution.event_stage import cheap_and_costly, shared_calls
from query.functions.aggregates import aggregate_function
from query.model.expression import Constant, Operation, Reference, references
from query.model.limits import TABLE_BYTES_MAX, TABLE_ROWS_MAX
from query.model.timestamps import duration
from query.plan.element_steps import element_steps
from query.plan.keyed_stream import keyed_stream
from query.plan.plan import Plan
from query.plan.spelling import Spelling
from query.plan.walk import event_expressions
from query.plan.windows import tumbling
from query.syntax import ast
from query.syntax.printer import format_name, format_source, format_streams

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from query.model.expression import Expression
    from query.optimizer import Rule
    from query.plan.plan import Plan, PlanAggregate
    from query.plan.stragglers import Stragglers
    from query.plan.windows import PlanWindowSize, Windowing


def relative_error(plan: Plan, limited: Collection[str] = ()) -> float | None:
    """The relative error of a plan's results in 99 of 100 cases, as a part of a count or of all values; None if they
    are exact. `limited`: the aggregates, by their names in the plan, that have met their limit.
    """
    errors = []
    for one in plan.aggregates:
        function = aggregate_function(one.function.upper())
        if function.error is not None:
            errors.append(function.error(one.parameters))
        if one.name in limited and function.limited_error is not None:
            errors.append(function.limited_error)
    return float(f"{max(errors):.3g}") if errors else None


def notes(plan: Plan, texts: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each aggregate that is approximate or limited; `texts` are the aggregates as people write them."""
    for one in plan.aggregates:
        function = aggregate_function(one.function.upper())
        if function.is_rigid:
            yield f"{texts[one.name]}: the job's own code computes it of all rows of a group together, at the master"
        elif function.is_of_job:
            yield (
                f"{texts[one.name]}: the job's own code computes it beside each log and at the master; agents between "
                "them pass its states on unmerged"
            )
        if function.error is not None:
            error = f"{100 * function.error(one.parameters):.2g} % {function.of}"
            yield f"{texts[one.name]} is approximate: within {error}, in 99 of 100 cases"
        if function.limit is not None:
            beyond = function.limited_error
            within = "" if beyond is None else f", within {100 * beyond:.2g} % in 99 of 100 cases"
            yield f"{texts[one.name]}: {function.limit(one.parameters)}{within}"


def measures(plan: Plan) -> tuple[str, ...]:
    """The names of a result's columns that are made of aggregates; of a query without any, all columns."""
    plan = plan.shown
    aggregates = {aggregate.name for aggregate in plan.aggregates}
    if not aggregates:
        return tuple(column.name for column in plan.output)
    return tuple(
        column.name
        for column in plan.output
        if any(reference.name in aggregates for reference in references(column.expression))
    )


def windows_text(windowing: Windowing | None, chosen_grace_ms: int | None = None) -> str:
    """The windows in a few words. `chosen_grace_ms`: the grace, where ELF has chosen it under WITHIN.

    >>> from query.plan.windows import PlanWindowSize, Windowing
    >>> windows_text(Windowing((PlanWindowSize(600_000, 60_000), PlanWindowSize(3_600_000, 3_600_000)), grace_ms=0))
    '10 min every 1 min, 1 h, grace 0 ms, of panes of 1 min'
    """
    if windowing is None:
        return "none: one result over everything"
    parts = list(map(size_text, windowing.sizes))
    if windowing.session is not None:
        gap, most = duration(windowing.session.gap_ms), duration(windowing.session.max_ms)
        parts.append(f"sessions that end with {gap} without an event, cut after {most}")
    if windowing.grace_ms is not None:
        parts.append(f"grace {duration(windowing.grace_ms)}")
    if chosen_grace_ms is not None:
        parts.append(f"grace {duration(chosen_grace_ms)}, chosen under WITHIN")
    if not windowing.is_of_panes:
        parts.append(f"of panes of {duration(windowing.pane_ms)}")
    return ", ".join(parts)


MAKING_WINDOWS = "make windows of panes"


def making_steps(plan: Plan) -> tuple[str, ...]:
    """The steps in which the master makes windows of panes."""
    windowing = plan.windowing
    if windowing is None or windowing.is_of_panes:
        return ()
    if has_owners(plan):
        return (MAKING_WINDOWS, "merge them with those of the other owners")
    return (MAKING_WINDOWS if windowing.session is None else "make sessions of panes",)


def has_owners(plan: Plan) -> bool:
    """Whether the roots of several trees make the windows of their keys: each is made of several panes once, at its
    end.

    >>> from query import Schema, analyze, parse
    >>> text = "SELECT a, COUNT(*) FROM web GROUP BY a WINDOWING {} TREES 4"
    >>> windows = ("1 MINUTE", "2 MINUTES EVERY 1 MINUTE", "2 MINUTES EVERY 1 MINUTE EMIT CHANGES", "SESSION 1 MINUTE")
    >>> [has_owners(analyze(parse(text.format(one)), {"web": Schema({}, open=True)})) for one in windows]
    [False, True, False, False]
    """
    windowing = plan.windowing
    if windowing is None or windowing.is_of_panes or plan.trees == 1:
        return False
    return windowing.session is None and not windowing.changes


def publishing_step(windowing: Windowing | None) -> str:
    """The step in which the master limits and orders rows."""
    if windowing is None:
        return "publish one result"
    if windowing.session is not None:
        return "publish sessions once they are over"
    return "publish each window after each of its panes" if windowing.changes else "publish each window"


def straggler_steps(stated: Stragglers) -> Iterator[str]:
    """The steps of a live job with agents that are late, where its query says something of them.

    >>> from query.plan.stragglers import Stragglers
    >>> list(straggler_steps(Stragglers(leap_panes=2, recover_ms=0)))
    ['go on without agents that are 2 panes behind', 'wait 0 ms for the part of a dead agent']
    """
    if stated.waits:
        yield "wait for agents that are late as long as they live"
    if stated.leap_panes is not None:
        copies = ", but for the parts that others hold copies of" if stated.mirrors else ""
        yield f"go on without agents that are {stated.leap_panes:,} panes behind{copies}"
    if stated.recover_ms is not None:
        yield f"wait {duration(stated.recover_ms)} for the part of a dead agent"


def unused_straggler_steps(stated: Stragglers) -> Iterator[str]:
    """The step that says why clauses on agents that are late mean nothing to a job that ends with its input."""
    if stated.waits or stated.leap_panes is not None or stated.recover_ms is not None:
        yield "wait for every agent: ON STRAGGLER and RECOVER FOR are for live jobs"


def within_steps(plan: Plan) -> Iterator[str]:
    """The step that says how soon the results of a live job are to come, where its query says so.

    >>> from query import Schema, analyze, parse
    >>> text = "SELECT COUNT(*) FROM web WINDOWING 1 SECOND WITHIN 500 MILLISECONDS AT 99.5 PERCENT ELSE PARTIAL"
    >>> list(within_steps(analyze(parse(text), {"web": Schema({}, open=True)})))
    ['have 99.5 % of results out within 500 ms of the end of their window, and publish what is there of others']
    """
    within = plan.within
    if within is None:
        return
    assert plan.windowing is not None
    which = "results, on average," if within.percent is None else f"{within.percent:g} % of results"
    since = "an event that they are the first to have" if plan.windowing.changes else "the end of their window"
    late = {"late": "let others be late", "partial": "publish what is there of others"}[within.on_miss]
    yield f"have {which} out within {duration(within.limit_ms)} of {since}, and {late}"


def unused_within_steps(plan: Plan) -> Iterator[str]:
    """The step that says why WITHIN means nothing to a job that ends with its input."""
    if plan.within is not None:
        yield "publish windows when all input is read: WITHIN is for live jobs, and --once refuses it"


def size_text(size: PlanWindowSize) -> str:
    """The length of windows, and how often they come where that is not their length."""
    every = "" if size.slide_ms == size.size_ms else f" every {duration(size.slide_ms)}"
    return f"{duration(size.size_ms)}{every}"


READ_BY_ONE = "nothing: what is read is with the master already"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan for people: expressions are ELF QL with aliases resolved, `columns` are (name, type).

    `agent`, `tree`, `roots` and `master` are the steps that run beside each log, on the way up, at the roots of several
    trees, and where windows are finished. `rules`: the rewrite rules that changed the plan.
    """

    stream: str
    columns: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    window: str
    agent: tuple[str, ...]
    tree: tuple[str, ...]
    roots: tuple[str, ...]
    master: tuple[str, ...]
    rules: tuple[str, ...]


def explain(plan: Plan, rules: Sequence[Rule] = (), *, live: bool = True) -> Explanation:
    """The steps that each part of a fleet runs for a plan, which these rewrite rules have changed.

    `live`: as a live job. A column named `*` stands for all columns, if they are not known yet.

    >>> from query import Schema, analyze, parse
    >>> text = "SELECT store, SUM(hits) FROM web WHERE hits > 0 GROUP BY store WINDOWING 90 SECONDS"
    >>> explained = explain(analyze(parse(text), {"web": Schema({}, open=True)}))
    >>> explained.keys, explained.aggregates, explained.window
    (('store',), ('SUM(hits)',), '90 s')
    >>> explained.agent
    ('read store, hits', 'keep events WHERE hits > 0', 'aggregate per window and store: SUM(hits)')
    """
    events = Spelling(_event_columns(plan))
    groups = _groups(plan, events)
    keys = tuple(events(key.expression) for key in plan.keys)
    aggregates = tuple(aggregate_texts(plan).values())
    shown = groups if plan.kind == "aggregate" else events
    order = [shown(key.expression) + " DESC" * key.descending + " NULLS FIRST" * key.nulls_first for key in plan.order]
    steps = _aggregate_steps(plan, keys, aggregates) if plan.kind == "aggregate" else _rows_steps(plan, order)
    return Explanation(
        stream=plan.streams_read,
        columns=tuple((column.name, column.type) for column in plan.event_columns),
        keys=keys,
        aggregates=aggregates,
        window=(
            windows_text(plan.windowing, _chosen_grace_ms(plan))
            if live
            else windows_text(plan.without_within().windowing)
        ),
        agent=(
            *_reading_steps(plan),
            *_join_steps(plan, events),
            *_where_steps(plan, events),
            *_sharing_steps(plan, events),
            steps[0],
        ),
        tree=(
            steps[1] if plan.app is None else READ_BY_ONE,
            *_limit_steps(plan),
            *_trees_steps(plan),
            *notes(plan, aggregate_texts(plan)),
        ),
        roots=_root_steps(plan),
        master=(
            *making_steps(plan),
            *_shown_steps(plan, shown, groups, order),
            *_outer_steps(plan),
            *(straggler_steps(plan.stragglers) if live else unused_straggler_steps(plan.stragglers)),
            *(within_steps(plan) if live else unused_within_steps(plan)),
            publishing_step(plan.windowing),
        ),
        rules=tuple(rule.description for rule in rules),
    )


def _chosen_grace_ms(plan: Plan) -> int | None:
    """The grace of a plan that ELF has chosen; None where it has not, or where nothing waits for late events: windows
    over what elements emit do not.
    """
    if plan.within is None or (plan.reads_types and keyed_stream(plan) is None):
        return None
    return plan.within.grace_ms


def _shown_steps(plan: Plan, shown: Spelling, groups: Spelling, order: list[str]) -> Iterator[str]:
    yield f"SELECT {', '.join(_outputs(plan, shown))}"
    if plan.having is not None:
        yield f"keep groups HAVING {groups(plan.having)}"
    if order:
        yield f"ORDER BY {', '.join(order)}"
    if plan.limit is not None:
        yield f"LIMIT {plan.limit}"


def _outer_steps(plan: Plan) -> Iterator[str]:
    """The steps over the rows of a sub-query."""
    if plan.outer is None:
        return
    # Its panes are the windows of the sub-query.
    panes = plan.outer.pane_ms
    above = explain(replace(plan.outer, windowing=None if panes is None else tumbling(panes)))
    *steps, _ = above.master
    yield "over these rows: " + "; ".join((*above.agent[1:], *steps, *notes(plan.outer, aggregate_texts(plan.outer))))


def aggregate_texts(plan: Plan) -> dict[str, str]:
    """The aggregates as people write them, by their names in the plan.

    >>> from query import Schema, analyze, parse
    >>> plan = analyze(parse("SELECT COUNT(DISTINCT user) AS users FROM web"), {"web": Schema({}, open=True)})
    >>> aggregate_texts(plan)
    {'a0': 'COUNT(DISTINCT user)'}
    """
    groups = _groups(plan, Spelling(_event_columns(plan)))
    return {one.name: groups(Reference(one.name, one.type)) for one in plan.aggregates}


def _event_columns(plan: Plan) -> dict[str, ast.Expression | ast.Star]:
    if plan.elements is not None:
        return {column.name: _column(tuple(column.name.split("."))) for column in plan.columns}
    names = {column.name: _column(column.path) for column in plan.columns}
    if (join := plan.join) is not None:
        names |= {column.name: ast.ColumnRef((join.alias, *column.path)) for column in join.columns}
    return names


def _reading_steps(plan: Plan) -> Iterator[str]:
    if plan.elements is not None:
        yield from element_steps(plan.elements)
    if not plan.branches:
        yield _reading_step(plan)
    for branch in plan.branches:
        spelled = Spelling({column.name: _column(column.path) for column in branch.columns})
        made = zip(plan.columns, branch.outputs, strict=True)
        shown = ", ".join(f"{spelled(output)} AS {format_name(column.name)}" for column, output in made)
        kept = "" if branch.where is None else f" of events WHERE {spelled(branch.where)}"
        yield f"of {format_streams(branch.stream)} take {shown or 'nothing but times'}{kept}"


def _reading_step(plan: Plan) -> str:
    columns = ", ".join(column.name for column in plan.columns) or "nothing but times"
    if plan.reads_types:
        return f"of {format_streams(plan.stream)}, where it is made, read {columns}"
    if plan.app is None:
        return f"read {columns}"
    what = "each window once it is out" if plan.window_ms else "the windows that are out"
    return f"only beside this job's master, which {plan.stream} sends {what}: read {columns}"


def _join_steps(plan: Plan, events: Spelling) -> tuple[str, ...]:
    join = plan.join
    if join is None:
        return ()
    types = {column.name: column.type for column in plan.event_columns}
    sides = [tuple(events(Reference(name, types[name])) for name in pair) for pair in join.keys]
    equal = " AND ".join(f"{ours} = {theirs}" for ours, theirs in sides)
    rows = ast.TableRef(join.table) if join.table is not None else ast.App(join.app or "")
    source = format_source(rows)
    without = "with NULL where there is none" if join.outer else "without one they are dropped"
    most = f"{TABLE_ROWS_MAX:,} rows, {TABLE_BYTES_MAX >> 20} MiB at most"
    return (
        f"ask {source} for its latest result whenever it has another: {most}"
        if join.table is None
        else f"hold the rows of {source}, a file beside each agent, as it is now: {most}",
        f"join events with the rows of it that have {equal}: {without}",
    )


def _where_steps(plan: Plan, events: Spelling) -> tuple[str, ...]:
    if plan.where is None:
        return ()
    cheap, costly = cheap_and_costly(plan.where)
    if cheap is None or costly is None:
        return (f"keep events WHERE {events(plan.where)}",)
    return (f"keep events WHERE {events(cheap)}", f"of those that are left, where they are few, AND {events(costly)}")


def _sharing_steps(plan: Plan, events: Spelling) -> tuple[str, ...]:
    shared = sorted(events(call) for call in shared_calls(event_expressions(plan)))
    return (f"compute once for each event: {', '.join(shared)}",) if shared else ()


def _aggregate_steps(plan: Plan, keys: tuple[str, ...], aggregates: tuple[str, ...]) -> tuple[str, str]:
    groups = _listed((*([plan.interval] if plan.interval else []), *keys))
    per = f" per {groups}" if groups else ""
    return (
        f"aggregate{per}: {', '.join(aggregates) or 'nothing but the keys'}",
        f"merge the agents' partial aggregates{per}",
    )


def _limit_steps(plan: Plan) -> tuple[str, ...]:
    if not plan.keys:
        return ()
    of = f"of each {plan.interval}, all others" if plan.interval else "and all others"
    more = " (an error: the job ends)" if plan.beyond_groups == "error" else ""
    return (f"keep {plan.max_groups:,} groups {of} as one, OTHER{more}",)


def _trees_steps(plan: Plan) -> tuple[str, ...]:
    return (f"in {plan.trees} trees, each for a range of the keys' hashes",) if plan.trees > 1 else ()


def _root_steps(plan: Plan) -> tuple[str, ...]:
    """The steps at the roots of several trees."""
    if plan.trees == 1:
        return ()
    ranges = f"{plan.trees} of them: merge the groups in a range of the keys' hashes"
    if not has_owners(plan):
        return (f"{ranges}, hand them to the master",)
    clauses = [*(["HAVING"] if plan.having is not None else []), *(["LIMIT"] if plan.limit is not None else [])]
    return (
        f"{ranges}, make their windows of panes that the master has decided on, hand it these",
        *([f"leave out groups of windows by {' and '.join(clauses)}, where that is exact"] if clauses else []),
    )


def _rows_steps(plan: Plan, order: list[str]) -> tuple[str, str]:
    most = f"the first {plan.limit} events{f' of each {plan.interval}' if plan.interval else ''}"
    by = f"by {', '.join(order)}" if order else "by time"
    return f"keep {most} {by}", f"keep {most} of all agents below"


def _outputs(plan: Plan, spelled: Spelling) -> list[str]:
    texts = [(spelled(output.expression), output.name) for output in plan.output]
    return [text if name in (text, text.strip('"')) else f"{text} AS {format_name(name)}" for text, name in texts]


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _column(path: tuple[str, ...]) -> ast.Expression | ast.Star:
    return ast.Star() if path == ("*",) else ast.ColumnRef(path)


def _groups(plan: Plan, events: Spelling) -> Spelling:
    """The ELF QL expressions of keys and aggregates, by their names in the plan."""
    names: dict[str, ast.Expression | ast.Star] = {key.name: events.tree(key.expression) for key in plan.keys}
    arguments = {argument.name: argument.expression for argument in plan.arguments}
    for one in plan.aggregates:
        names[one.name] = _aggregate_call(one, None if one.argument is None else arguments[one.argument], events)
    return Spelling(names)


def _aggregate_call(one: PlanAggregate, argument: Expression | None, events: Spelling) -> ast.AggregateCall:
    function, where = aggregate_function(one.function.upper()), None
    if isinstance(argument, Operation) and argument.operator == "filter":
        condition, argument = argument.operands
        where = cast("ast.Expression", events.tree(condition))
        if function.key == "COUNT" and argument == Constant(True, "boolean"):
            argument = None
    if function.is_of_job and isinstance(argument, Operation):
        values = tuple(events.tree(value) for value in argument.operands)
        return ast.AggregateCall(function.name, values, False, where)
    given = list(one.parameters)
    while given and len(given) <= len(function.parameters) and given[-1] == function.parameters[len(given) - 1].default:
        given.pop()
    constants = [ast.Literal(value, "integer" if isinstance(value, int) else "number") for value in given]
    first = ast.Star() if argument is None else events.tree(argument)
    return ast.AggregateCall(function.name, (first, *constants), function.distinct, where)
