"""Runs as they travel up a tree, and what is believed of those that come."""

from __future__ import annotations

from dataclasses import replace

import cbt
from agent.runtime import contributors
from agent.runtime.epochs import Epoch
from agent.runtime.messages import Snapshot
from agent.runtime.panes import Counts, Run
from agent.runtime.versions import Versions
from overlay import Id

FRAME_BYTES_MAX = 1 << 30
"""Largest state of one run after decompression."""
SNAPSHOT_BYTES_MAX = 60 << 20
"""Largest run that fits a message; what is larger goes without its content, and its contributors as missing."""


def snapshot_of(run: Run, versions: Versions, app_id: Id, epoch: Epoch, *, again: bool) -> Snapshot:
    """A run as a message."""
    message = _encoded(run, versions, app_id, epoch, again=again)
    if message.size > SNAPSHOT_BYTES_MAX:
        nothing = without_content(versions, run.after, run.upto, run.tree)
        return _encoded(nothing, versions, app_id, epoch, again=again)
    return message


def _encoded(run: Run, versions: Versions, app_id: Id, epoch: Epoch, *, again: bool) -> Snapshot:
    in_force = versions.at(run.upto)
    return Snapshot(
        app_id,
        epoch,
        in_force.version.number,
        run.after,
        run.upto,
        contributors.to_bytes(run.contributors),
        cbt.encode_frame(run.state) if run.state.height else in_force.function.nothing_encoded,
        [(pane, *counts) for pane, counts in run.counted.items()],
        contributors.to_bytes(run.partial),
        again,
        run.tree,
    )


def without_content(versions: Versions, after: int, upto: int, tree: int = 0) -> Run:
    """What stands for a run that cannot be used: nobody's."""
    return Run(after, upto, 0, versions.combine([], upto), tree=tree)


def in_trees(run: Run, versions: Versions, trees: int) -> list[Run]:
    """A worker's run as it goes up each tree. O(n)."""
    if trees == 1:
        return [run]
    states = versions.at(run.upto).function.cut(run.state, trees)
    return [
        replace(run, tree=tree, state=state, counted={} if tree else run.counted) for tree, state in enumerate(states)
    ]


def run_of(message: Snapshot, versions: Versions, trees: int, known: int | None) -> Run | None:
    """The run in a message that may hold anything; None if it cannot be combined with others.

    `trees`: how many the job has. `known`: whom a master has on its roster.
    """
    members = contributors.from_bytes(message.contributors)
    version = versions.of_span(message.version, message.after, message.upto)
    if version is None or (known is not None and members & ~known):
        return None
    function = version.function
    try:
        state = function.nothing
        if message.state != function.nothing_encoded:
            state = cbt.decode_frame(message.state, function.state_schema, bytes_max=FRAME_BYTES_MAX)
    except cbt.FrameError:
        return None
    partial = contributors.from_bytes(message.partial)
    counted = {pane: Counts(*counts) for pane, *counts in message.counted}
    if len(counted) < len(message.counted) or (counted and message.tree):
        return None  # a pane twice, or what goes up tree 0
    run = Run(message.after, message.upto, members, state, counted, partial, message.tree)
    is_of_tree = function.is_in_tree(state, message.tree, trees)
    return run if is_of_tree and run.is_sound(function.pane_ms) and function.is_within_limit(state) else None
