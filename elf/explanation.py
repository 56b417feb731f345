"""What `elf query --explain` prints: what would run, and where."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import query
from elf.errors import UsageError
from elf.figures import Figures
from elf.output import terminal
from elf.terminal import printable
from elf.travelling import travelling

NOT_NAMED = "the agent's only one"
EVERY_COLUMN = query.Schema({"*": "any"}, open=True)
"""Without an agent nobody knows what a stream holds: any column may be there, and `*` stays `*`."""


class Explained(msgspec.Struct, frozen=True):
    """A query as it would run; `stream` is None for the agent's only one, `runs` is live or once.

    `agent`, `tree`, `roots` and `master` are what is done in each of these places, `network` what travels between them,
    `rules` what rewriting has changed.
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


def print_explanation(
    text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups, output: str
) -> None:
    """Prints it to standard output; raises UsageError for a query that no agent would take."""
    check_output(output)
    print_explained(explained_query(text, once=once, max_groups=max_groups, beyond_groups=beyond_groups), output, None)


def check_output(output: str) -> None:
    """Raises UsageError for what explanations are not printed as."""
    if output not in ("table", "json"):
        raise UsageError("EXPLAIN and --explain print a table or, with --output json, an object: there is no other")


def print_explained(explained: Explained, output: str, figures: Figures | None) -> None:
    """Prints it to standard output, with what was measured where it was run."""
    if output == "json":
        about = msgspec.to_builtins(explained)
        print(msgspec.json.encode(about if figures is None else about | {"analyzed": figures}).decode())
        return
    console = terminal(sys.stdout)
    console.print(_shown(explained))
    if figures is not None:
        table = Table(box=None, show_header=False, pad_edge=False, title="measured", title_justify="left")
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        for what, value in figures.measured.items():
            table.add_row(what, f"{value:,}" if isinstance(value, int) else f"{value:,.3f}")
        console.print("", table, Text(f"not measured: {'; '.join(figures.not_measured)}"))


def explained_query(text: str, *, once: bool, max_groups: int, beyond_groups: query.BeyondGroups) -> Explained:
    """The explanation of a query; its columns are checked when it is submitted."""
    try:
        parsed = query.parse(text)
        rewriting = rewritten(parsed, max_groups=max_groups, beyond_groups=beyond_groups)
    except query.QueryError as error:
        raise UsageError(str(error)) from None
    plan = rewriting.plan
    parts = query.explain(plan, rewriting.fired)
    return Explained(
        query=query.format_query(parsed),
        stream=None if plan.stream == NOT_NAMED else plan.stream,
        runs="once" if once or plan.window_ms is None else "live",
        columns={name: kind for name, kind in parts.columns if name != "*"},
        keys=list(parts.keys),
        aggregates=list(parts.aggregates),
        window=parts.window,
        rules=list(parts.rules),
        agent=list(parts.agent),
        tree=list(parts.tree),
        network=travelling(plan),
        roots=list(parts.roots),
        master=list(parts.master),
    )


def planned(parsed: query.Query) -> query.Plan:
    """Its plan, whatever the columns of its stream may be. Raises `query.QueryError`."""
    return rewritten(parsed).plan


def rewritten(
    parsed: query.Query, *, max_groups: int = query.GROUPS_DEFAULT, beyond_groups: query.BeyondGroups = "other"
) -> query.Rewriting:
    """The same, with the rules that made the plan what it is."""
    known = dict.fromkeys(query.streams_read(parsed) or [NOT_NAMED], EVERY_COLUMN)
    return query.analyze_with_rules(parsed, known, max_groups=max_groups, beyond_groups=beyond_groups)


def _shown(explained: Explained) -> Group:
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
        ("rewritten", explained.rules or ["nothing: as it is written"]),
    ):
        table.add_row(title, _text(lines))
    return Group(table, "", _tree(explained))


def _tree(explained: Explained) -> Tree:
    """Where what is done, from the result down to the logs."""
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
