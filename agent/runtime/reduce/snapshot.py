"""Encodes runs as snapshots, and decodes the snapshots of peers, which may hold anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import polars as pl

import cbt
import query
from agent.runtime.function.versions import Versions
from agent.runtime.keyed.placement import KeyPlacement
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import Counts, Run, merged_losses
from agent.runtime.reduce.parts import PRODUCTION, RunLimits
from overlay import Id

EARLY_MAX = 1024
EARLY_BYTES_MAX = 128 << 20


class EarlySnapshots:
    """Holds snapshots of one job that arrive before its epoch, function or version, with the children that sent them.

    Snapshots beyond the bounds are not held: the child sends them again.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, Snapshot]] = []
        self._bytes = 0

    def hold(self, child: int, snapshot: Snapshot) -> bool:
        """Holds a snapshot; False if there is no room for it."""
        size = snapshot.size
        if len(self._held) >= EARLY_MAX or self._bytes + size > EARLY_BYTES_MAX:
            return False
        self._held.append((child, snapshot))
        self._bytes += size
        return True

    def take(self) -> list[tuple[int, Snapshot]]:
        """Empties it; returns all snapshots."""
        held, self._held, self._bytes = self._held, [], 0
        return held

    def __iter__(self) -> Iterator[Snapshot]:
        return (snapshot for _, snapshot in self._held)


TOO_LARGE = "run too large: {:,} bytes, the limit is {:,}"
ENCODED_TOO_LARGE = "run too large: {:,} compressed bytes, the limit is {:,}"


def reason_too_large(message: Snapshot, limits: RunLimits) -> str | None:
    """The reason why a snapshot cannot be passed on, None if it can."""
    if message.size > limits.run_bytes:
        return ENCODED_TOO_LARGE.format(message.size, limits.run_bytes)
    if message.state and (size := cbt.frame_bytes(message.state)) > limits.frame_bytes:
        return TOO_LARGE.format(size, limits.frame_bytes)
    return None


class StateEncoder:
    """Encodes states, each of the newest once: a worker's run goes up the tree, and to the holders of its copies."""

    def __init__(self) -> None:
        self._newest: deque[tuple[pl.DataFrame, bytes]] = deque(maxlen=query.TREES_MAX)

    def encode(self, state: pl.DataFrame) -> bytes:
        """The encoded state. O(1) for one of the newest, the very same object."""
        for known, encoded in self._newest:
            if known is state:
                return encoded
        encoded = cbt.encode_frame(state)
        self._newest.append((state, encoded))
        return encoded

    def clear(self) -> None:
        """Forgets all states."""
        self._newest.clear()


def snapshot_of(
    run: Run, versions: Versions, app_id: Id, epoch: JobEpoch, *, detached: bool, encoder: StateEncoder | None = None
) -> Snapshot:
    """Encodes a run, which may be `detached`, whatever its size."""
    in_force = versions.at(run.upto)
    encode = cbt.encode_frame if encoder is None else encoder.encode
    return Snapshot(
        app_id,
        epoch,
        in_force.version.number,
        run.after,
        run.upto,
        contributors.to_bytes(run.contributors),
        encode(run.state) if run.state.height else in_force.function.empty_state_encoded,
        [(pane, *counts) for pane, counts in run.counted.items()],
        contributors.to_bytes(run.partial),
        detached,
        run.tree,
        losses=[(contributors.to_bytes(agents), reason) for agents, reason in run.losses],
        leaped=contributors.to_bytes(run.leaped) if run.leaped else b"",
    )


def without_content(versions: Versions, after: int, upto: int, tree: int = 0) -> Run:
    """An empty run without contributors, in place of a run that cannot be used."""
    return Run(after, upto, 0, versions.combine([], upto), tree=tree)


def run_of(
    message: Snapshot,
    versions: Versions,
    placement: KeyPlacement,
    known: int | None,
    limits: RunLimits = PRODUCTION,
) -> Run | None:
    """Decodes the run in a message that may hold anything; None if it cannot be combined with others.

    `known`: the agents on the roster, at a master.
    """
    members = contributors.from_bytes(message.contributors)
    version = versions.of_span(message.version, message.after, message.upto)
    leaped = contributors.from_bytes(message.leaped)
    if version is None or (known is not None and (members | leaped) & ~known):
        return None
    function = version.function
    try:
        state = function.empty_state
        if message.state != function.empty_state_encoded:
            state = cbt.decode_frame(message.state, function.state_schema, bytes_max=limits.frame_bytes)
    except cbt.FrameError:
        return None
    partial = contributors.from_bytes(message.partial)
    counted = {pane: Counts(*counts) for pane, *counts in message.counted}
    if len(counted) < len(message.counted) or (counted and message.tree):
        return None  # a pane twice, or what goes up tree 0
    losses = merged_losses([tuple((contributors.from_bytes(agents), why) for agents, why in message.losses)])
    run = Run(message.after, message.upto, members, state, counted, partial, message.tree, leaped, losses)
    is_of_tree = placement.is_on_tree(function, state, message.tree)
    if function.sessions is not None and not function.sessions.is_sound(state):
        return None
    return run if is_of_tree and run.is_sound(function.pane_ms) and function.is_within_limit(state) else None
