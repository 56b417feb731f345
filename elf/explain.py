"""Explains a query (`EXPLAIN`, `elf query --explain`): the steps of its plan, and the place of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import cbt
import query
from agent.control.messages import Ended, JobPlacement
from agent.programs.calls import JobDescription
from agent.programs.element_graph import SPLITS, UNSPLIT
from agent.runtime.function.job_function import JobFunction
from agent.runtime.keyed.elements.runtime import DTYPES
from agent.runtime.model.meters import Work
from cbt.windows import PanePlan, plan_windows
from elf.client.result import Result
from elf.errors import ElfError, UsageError
from elf.output.measures import UNNAMED_STREAM, plan_for_any_columns
from elf.output.placement_table import decision_text
from elf.terminal.console import open_console
from elf.terminal.terminal import printable
from query.explain import MAKING_WINDOWS, size_text
from query.model.timestamps import duration
from query.plan.windows import PlanWindowSize

if TYPE_CHECKING:
    from elf.client.sync_client import SyncJob
    from elf.local import LocalRun


class Measurements(msgspec.Struct, frozen=True):
    """Measured values by name: counts, and seconds. `not_measured` names others. `decisions`: how the windows of a
    running job are computed, with the seconds of a processor in a minute that it takes, and that the other way would.
    """

    measured: dict[str, int | float]
    not_measured: list[str]
    decisions: list[str] = []


def measured_run(run: LocalRun) -> Measurements:
    """Runs a query over files to its end. Raises ElfError where a file cannot be read to its end."""
    begin = time.perf_counter()
    results = list(run.results())
    total_s = time.perf_counter() - begin
    told = run.master.work.take()
    states, rows, _ = told[Work.KEEP] if len(told) > Work.KEEP else (0, 0, 0)
    return Measurements(
        {
            "windows": len(results),
            "events": sum(result.events for result in results),
            "values that do not fit their use": sum(result.coerced for result in results),
            "malformed lines": run.master.totals.malformed,
            "rows shown": sum(len(result.rows) for result in results),
            "states that agents have sent": states,
            "rows of these states": rows,
            "panes of windows of several": run.master.windows_made.panes,
            "states merged for these windows": run.master.windows_made.inputs,
            "bytes read": run.bytes_read,
            "seconds in all": total_s,
            "seconds of parsing, in threads beside the rest": run.parsing_s,
            "seconds in the agents: conditions, expressions, aggregation": run.inserting_s,
            "seconds for the rest: opening, waiting for parsers, merging, the master": max(
                0.0, total_s - run.inserting_s
            ),
        },
        ["groups before HAVING and LIMIT", "bytes between agents: here they are in one process"],
    )


def measured_window(
    job: SyncJob, submitted: float, deadline: float, placement: Callable[[str], JobPlacement]
) -> Measurements:
    """Waits for a job's first window until `deadline`; both times are those of `time.monotonic`.

    `placement`: asks for the job's owners, and the decisions on its windows. Raises ElfError where no window comes.
    """
    accepted_s = time.monotonic() - submitted
    while not isinstance(result := job.wait(max(0.0, deadline - time.monotonic())), Result):
        if result is None or isinstance(result, Ended):
            raise ElfError("no window came that could be measured")
    until_first_s = time.monotonic() - submitted
    try:
        found = placement(job.app)
        decided = [decision_text(one) for one in found.decisions]
        told = {one.what: one.value for one in found.measured}
    except ElfError:  # it is over, or its master is one of the release before
        decided, told = [], {}
    return Measurements(
        {
            "agents in it": result.contributors,
            "agents expected": result.expected,
            "events": result.events,
            "late events": result.late,
            "values that do not fit their use": result.coerced,
            "malformed lines": result.malformed,
            "rows shown": len(result.rows),
            "bytes of the result, as JSON": len(result.json),
            "seconds until the job was accepted": accepted_s,
            "seconds until its first window": until_first_s,
            **told,
        },
        ["groups before HAVING and LIMIT", "bytes between agents", "time of each stage: agents do not tell"],
        decided,
    )


_UNNEEDED = {
    "aggregate": "no shuffle is needed: plain GROUP BY combines in the trees without it, leave KEYED BY out",
    "rows": "no shuffle is needed: rows go up the trees without it, leave KEYED BY out",
}
"""Notes on KEYED BY in a query that is all that is computed of the events, by its kind."""
_BYTES = {pl.Int128: 16, pl.Boolean: 1}
_OF_ANY_LENGTH = (pl.String, pl.Binary, pl.List)
_OWN_BYTES = 26
"""Bytes that each event has between agents: its time, its channel, its number there, and its logical node."""


def merging_steps(plan: query.Plan) -> list[str]:
    """Describes how the master makes windows of panes and of each other; empty where it does not."""
    windowing = plan.windowing
    if windowing is None or windowing.is_of_panes or windowing.session is not None or windowing.changes:
        return []
    panes = PanePlan([cbt.WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes])
    made = plan_windows(panes, subtracts=JobFunction(plan).difference is not None)
    if made.is_plain:
        return ["make windows of each size by themselves: they have too little in common"]
    several = [one for one in panes.sizes if one.size_ms > panes.pane_ms]
    alone = sum(made.period_ms // one.slide_ms * (one.size_ms // panes.pane_ms) for one in several)
    every = duration(made.period_ms)
    steps = [f"merge {made.inputs:,.0f} states in {every}, not the {alone:,} panes that windows have"]
    steps += [f"make hidden windows of {_sizes(made.hidden)} as parts of others"] if made.hidden else []
    steps += [f"keep {_sizes(made.stacks)} in two stacks"] if made.stacks else []
    return [*steps, *(["take panes off again that windows leave behind"] if made.takes_off else [])]


def _sizes(sizes: Iterable[cbt.WindowSize]) -> str:
    return ", ".join(size_text(PlanWindowSize(one.size_ms, one.slide_ms)) for one in sorted(sizes))


def network_cost(plan: query.Plan) -> list[str]:
    """Describes the data that each agent sends per pane; empty where one agent reads everything."""
    if plan.app is not None:
        return []
    shuffled = [] if plan.elements is None else [*_shuffles(plan.elements), *_unsplit(plan.elements)]
    if query.keyed_stream(plan) is not None:
        shuffled.append(_UNNEEDED[plan.kind])
    schema = JobFunction(plan).state_schema
    fixed = sum(_BYTES.get(type(dtype), 8) for dtype in schema.values() if not isinstance(dtype, _OF_ANY_LENGTH))
    texts = sum(isinstance(dtype, _OF_ANY_LENGTH) for dtype in schema.values())
    more = f" and {texts} of any length" if texts else ""
    every = f"each {plan.interval}" if plan.interval else "the whole"
    if plan.kind == "rows":
        return [
            *shuffled,
            f"of {every}, from each agent and combined: {fixed} bytes{more} a row, at most {plan.limit:,} rows",
        ]
    groups = f"at most {plan.max_groups:,} groups and OTHER" if plan.keys else "one group"
    each = f"of {every}, from each agent and combined: {fixed} bytes{more} a group, {groups}; compressed by zstd"
    return [*shuffled, each]


def _shuffles(elements: Mapping[str, Any]) -> Iterator[str]:
    """Describes the events that go to the agents that host elements."""
    read = {one["type"] for element in elements["elements"] for one in element["inputs"] if one["key"] is not None}
    exchanges = {one["inputs"][0]["type"]: one for one in elements["elements"] if one["kind"] == "exchange"}
    for type_ in elements["types"]:
        if type_["name"] in read:
            exchange = exchanges.get(type_["name"])
            dtypes = [DTYPES[kind] for _, kind in type_["fields"]]
            texts = sum(isinstance(dtype, _OF_ANY_LENGTH) for dtype in dtypes)
            fixed = _OWN_BYTES + sum(_BYTES.get(type(one), 8) for one in dtypes if not isinstance(one, _OF_ANY_LENGTH))
            more = f" and {texts} of any length" if texts else ""
            changed = "what it changes" if exchange is None else "how far it has come"
            kept = f"; {changed}, to two standbys" if type_.get("guaranteed", True) else ""
            what = f"each event of {type_['name']}, to the agent that hosts its key"
            if exchange is not None and exchange.get("workers"):
                columns = ", ".join(name for name, _ in type_["fields"])
                chosen = f"the agent that hosts its worker, one of {exchange['workers']:,} by {exchange['grouping']}"
                what = f"each event of {type_['name']} ({columns}), to {chosen}"
            yield f"{what}: {fixed} bytes{more}, compressed{kept}"


def _unsplit(elements: Mapping[str, Any]) -> Iterator[str]:
    """Tells which elements have one worker for a key, and why."""
    for one in elements["elements"]:
        is_keyed = all(read["key"] for read in one["inputs"])
        if is_keyed and one["kind"] in UNSPLIT and not one.get("options", {}).get(SPLITS):
            yield f"{one['name']} has one worker for each key, its grouping is fields: {UNSPLIT[one['kind']]}"


class Explained(msgspec.Struct, frozen=True):
    """A query as it would run; `stream` is None for the agent's only one, `runs` is live or once.

    `agent`, `tree`, `roots` and `master` list the steps of each place, `network` the data sent between them, `rules`
    the rewriting rules that applied. `operators` and `components` are those of a query with a sub-query.
    """

    query: str
    stream: str | None
    runs: str
    columns: dict[str, str]
    keys: list[str]
    aggregates: list[str]
    window: str
    rules: list[str]
    agent: list[str]
    tree: list[str]
    network: list[str]
    roots: list[str]
    master: list[str]
    operators: list[str] = []
    components: list[str] = []


class ExplainedJob(msgspec.Struct, frozen=True):
    """A job as it would run: its own query and those of its stages, by their names, the operators of all, and the
    components that these form."""

    job: str
    query: str
    stages: dict[str, str]
    operators: list[str]
    components: list[str]


def print_explanation(
    text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups, output: str
) -> None:
    """Prints the explanation of a query; raises UsageError for a query that no agent would take."""
    check_output(output)
    print_explained(explained_query(text, once=once, max_groups=max_groups, beyond_groups=beyond_groups), output, None)


def check_output(output: str) -> None:
    """Raises UsageError for an output format that explanations do not have."""
    if output not in ("table", "json"):
        raise UsageError("EXPLAIN and --explain print a table or, with --output json, an object: there is no other")


def print_explained(explained: Explained, output: str, measurements: Measurements | None) -> None:
    """Prints an explanation, with the measurements where the query was run."""
    if output == "json":
        about = msgspec.to_builtins(explained)
        print(msgspec.json.encode(about if measurements is None else about | {"analyzed": measurements}).decode())
        return
    console = open_console(sys.stdout)
    console.print(_shown(explained))
    if measurements is not None:
        table = Table(box=None, show_header=False, pad_edge=False, title="measured", title_justify="left")
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        for what, value in measurements.measured.items():
            table.add_row(what, f"{value:,}" if isinstance(value, int) else f"{value:,.3f}")
        decided = [_table([("decided", measurements.decisions)])] if measurements.decisions else []
        console.print("", *decided, table, Text(f"not measured: {'; '.join(measurements.not_measured)}"))


def explained_query(text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups) -> Explained:
    """The explanation of a query; its columns are checked when it is submitted."""
    try:
        parsed = query.parse(text)
        rewriting = plan_for_any_columns(parsed, max_groups=max_groups, beyond_groups=beyond_groups)
    except query.QueryError as error:
        raise UsageError(str(error)) from None
    plan = rewriting.plan
    is_once = once or plan.window_ms is None
    merging = merging_steps(plan)
    fusion = None if plan.outer is None else query.fusion_text({"": plan})
    parts = query.explain(plan, rewriting.fired, live=not is_once)
    return Explained(
        query=query.format_query(parsed),
        stream=None if plan.stream == UNNAMED_STREAM else plan.streams_read,
        runs="once" if is_once else "live",
        columns={name: kind for name, kind in parts.columns if name != "*"},
        keys=list(parts.keys),
        aggregates=list(parts.aggregates),
        window=parts.window,
        rules=list(parts.rules),
        agent=list(parts.agent),
        tree=list(parts.tree),
        network=network_cost(plan),
        roots=list(parts.roots),
        master=[step for part in parts.master for step in (part, *(merging if part == MAKING_WINDOWS else ()))],
        operators=[] if fusion is None else list(fusion.operators),
        components=[] if fusion is None else list(fusion.components),
    )


def print_explained_job(job: JobDescription, app: str, output: str) -> None:
    """Prints the operators and components of a job, with the queries that they belong to. Raises UsageError for a query
    that no agent would take.
    """
    check_output(output)
    explained = explained_job(job, app)
    if output == "json":
        print(msgspec.json.encode(explained).decode())
        return
    lines = [("job", [explained.job]), ("query", [explained.query])]
    lines += [(f"stage {name}", [text]) for name, text in explained.stages.items()]
    lines += [("operators", explained.operators), ("components", explained.components)]
    open_console(sys.stdout).print(_table(lines))


def explained_job(job: JobDescription, app: str) -> ExplainedJob:
    """The explanation of a job of this name; columns are checked when it is submitted."""
    plans: dict[str, query.Plan] = {}
    texts: dict[str, str] = {}
    for name, text in ({"": job.query} | job.stages).items():
        try:
            parsed = query.with_aggregates(query.parse(text), {} if name else job.aggregates)
            plans[name] = plan_for_any_columns(parsed).plan
        except query.QueryError as error:
            raise UsageError(f"stage {name}: {error}" if name else str(error)) from None
        texts[name] = query.format_query(parsed)
    try:
        fusion = query.fusion_text(plans)
    except CycleError as error:
        raise UsageError(f"stages read each other in a circle: {', '.join(error.args[1])}") from None
    own = texts.pop("")
    return ExplainedJob(app, own, texts, list(fusion.operators), list(fusion.components))


def _shown(explained: Explained) -> Group:
    runs = {
        "once": "once: over what the logs hold when it is submitted",
        "live": "live: until it is stopped, a result whenever a window closes",
    }
    streams = {None: UNNAMED_STREAM, "*": "*: every stream of every agent"}
    lines: list[tuple[str, Sequence[str | None]]] = [
        ("query", [explained.query]),
        ("stream", [streams.get(explained.stream, explained.stream)]),
        ("runs", [runs[explained.runs]]),
        ("columns", [", ".join(f"{name} ({kind})" for name, kind in explained.columns.items()) or "none by name"]),
        ("keys", [", ".join(explained.keys) or "none"]),
        ("aggregates", [", ".join(explained.aggregates) or "none"]),
        ("window", [explained.window]),
        ("rewritten", explained.rules or ["nothing: as it is written"]),
    ]
    if explained.operators:
        lines += [("operators", explained.operators), ("components", explained.components)]
    return Group(_table(lines), "", _tree(explained))


def _table(rows: Iterable[tuple[str, Sequence[str | None]]]) -> Table:
    """Titles, and what is said under each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for title, lines in rows:
        table.add_row(title, _text(lines))
    return table


def _tree(explained: Explained) -> Tree:
    """The steps by place, from the result down to the logs."""
    places = [
        ("at the master", explained.master),
        ("at the partition roots", explained.roots),
        ("over the network", explained.network),
        ("in the tree", explained.tree),
        ("in the agent", explained.agent),
    ]
    trees = [Tree(Group(Text(title, "bold"), _text(lines))) for title, lines in places if lines]
    for tree, below in pairwise(trees):
        tree.children.append(below)
    return trees[0]


def _text(lines: Sequence[str | None]) -> Text:
    return Text("\n".join(printable(line or "") for line in lines))
