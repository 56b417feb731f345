"""What `elf query --explain` prints: what would run, and where."""

from __future__ import annotations

import sys

import msgspec
from rich.table import Table
from rich.text import Text

import query
from elf.errors import UsageError
from elf.output import terminal
from elf.terminal import printable

NOT_NAMED = "the agent's only one"
EVERY_COLUMN = query.Schema({"*": "any"}, open=True)
"""Without an agent nobody knows what a stream holds: any column may be there, and `*` stays `*`."""


class Explained(msgspec.Struct, frozen=True):
    """A query as it would run; `stream` is None for the agent's only one, `runs` is live or once."""

    query: str
    stream: str | None
    runs: str
    columns: dict[str, str]
    keys: list[str]
    aggregates: list[str]
    window: str
    agent: list[str]
    tree: list[str]
    master: list[str]


def print_explanation(
    text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups, output: str
) -> None:
    """Prints it to standard output; raises UsageError for a query that no agent would take."""
    if output not in ("table", "json"):
        raise UsageError("EXPLAIN and --explain print a table or, with --output json, an object: there is no other")
    explained = explained_query(text, once=once, max_groups=max_groups, beyond_groups=beyond_groups)
    if output == "json":
        print(msgspec.json.encode(explained).decode())
    else:
        terminal(sys.stdout).print(_table(explained))


def explained_query(text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups) -> Explained:
    """The explanation of a query; its columns are checked when it is submitted."""
    try:
        parsed = query.parse(text)
        plan = planned(parsed, max_groups=max_groups, beyond_groups=beyond_groups)
    except query.QueryError as error:
        raise UsageError(str(error)) from None
    parts = query.explain(plan)
    return Explained(
        query=query.format_query(parsed),
        stream=None if plan.stream == NOT_NAMED else plan.stream,
        runs="once" if once or plan.window_ms is None else "live",
        columns={name: kind for name, kind in parts.columns if name != "*"},
        keys=list(parts.keys),
        aggregates=list(parts.aggregates),
        window=parts.window,
        agent=list(parts.agent),
        tree=list(parts.tree),
        master=list(parts.master),
    )


def planned(
    parsed: query.Query, *, max_groups: int = query.GROUPS_DEFAULT, beyond_groups: query.BeyondGroups = "other"
) -> query.Plan:
    """Its plan, whatever the columns of its stream may be. Raises `query.QueryError`."""
    known = dict.fromkeys(query.streams_read(parsed) or [NOT_NAMED], EVERY_COLUMN)
    return query.analyze(parsed, known, max_groups=max_groups, beyond_groups=beyond_groups)


def _table(explained: Explained) -> Table:
    runs = {
        "once": "once: over what the logs hold when it is submitted",
        "live": "live: until it is stopped, a result whenever a window closes",
    }
    streams = {None: NOT_NAMED, "*": "*: every stream of every agent"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for title, lines in (
        ("query", [explained.query]),
        ("stream", [streams.get(explained.stream, explained.stream)]),
        ("runs", [runs[explained.runs]]),
        ("columns", [", ".join(f"{name} ({kind})" for name, kind in explained.columns.items()) or "none by name"]),
        ("keys", [", ".join(explained.keys) or "none"]),
        ("aggregates", [", ".join(explained.aggregates) or "none"]),
        ("window", [explained.window]),
        ("in the agent", explained.agent),
        ("in the tree", explained.tree),
        ("at the master", explained.master),
    ):
        table.add_row(title, Text("\n".join(printable(line or "") for line in lines)))
    return table
