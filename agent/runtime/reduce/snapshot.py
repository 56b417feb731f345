"""Encodes runs as snapshots, and decodes the snapshots of peers, which may hold anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import polars as pl

import cbt
import query
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Beside, InForce, Versions
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import PANES_COUNTED_MAX, WireOldPanes, WirePatch
from agent.runtime.model.latency.critical_path import CriticalPath
from agent.runtime.model.panes import Counts, OldPanes, Patch, Run, merged_losses
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

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Snapshot]:
        return (snapshot for _, snapshot in self._held)


TOO_LARGE = "run too large: {:,} bytes, the limit is {:,}"
TOO_MANY_OLD = "run too large: more than {:,} panes of an older version in one of it"
ENCODED_TOO_LARGE = "run too large: {:,} compressed bytes, the limit is {:,}"


def reason_too_large(message: Snapshot, limits: RunLimits) -> str | None:
    """The reason why a snapshot cannot be passed on, None if it can."""
    if message.size > limits.run_bytes:
        return ENCODED_TOO_LARGE.format(message.size, limits.run_bytes)
    if any(len(one[4]) > PANES_COUNTED_MAX for one in message.before):
        return TOO_MANY_OLD.format(PANES_COUNTED_MAX)
    states = (message.state, *(state for _, state, *_ in message.patches), *(one[3] for one in message.before))
    if (size := sum(cbt.frame_bytes(state) for state in states if state)) > limits.frame_bytes:
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
        _state_of(run, encode) if run.state.height else in_force.function.empty_state_encoded,
        [(pane, *counts) for pane, counts in run.counted.items()],
        contributors.to_bytes(run.partial),
        detached,
        run.tree,
        losses=[(contributors.to_bytes(agents), reason) for agents, reason in run.losses],
        leaped=contributors.to_bytes(run.leaped) if run.leaped else b"",
        patches=[_encoded(patch) for patch in run.patches],
        placed=run.placed,
        before=[_encoded_old(old) for old in run.before],
        path=[] if run.path is None else run.path.to_wire(),
    )


def _encoded_old(old: OldPanes) -> WireOldPanes:
    state = cbt.encode_frame(old.state) if old.state.height else b""
    counted = [(pane, *counts) for pane, counts in old.counted.items()]
    whole, partial = contributors.to_bytes(old.contributors), contributors.to_bytes(old.partial)
    return old.version, old.after, old.upto, state, counted, whole, partial


def _old_panes_of(message: WireOldPanes, beside: Beside, tree: int, bytes_max: int) -> OldPanes | None:
    """Decodes old panes that may hold anything; None if an honest peer could not have made them."""
    _, after, upto, encoded, entries, whole, partial = message
    function, pane_ms, carrier_ms = beside.old.function, beside.pane_ms, beside.main.function.pane_ms
    state = cbt.decode_frame(encoded, function.state_schema, bytes_max=bytes_max) if encoded else function.empty_state
    counted = {pane: Counts(*counts) for pane, *counts in entries}
    panes = {*counted, *state["pane"].unique()}
    if len(counted) < len(entries) or (counted and tree) or None in panes or not function.is_within_limit(state):
        return None
    if any(pane % pane_ms or not beside.frontier(beside.main.after) < pane <= beside.upto for pane in panes):
        return None
    assert carrier_ms is not None
    members, some = (contributors.from_bytes(agents) for agents in (whole, partial))
    return OldPanes(after, upto, beside.number, pane_ms, carrier_ms, state, counted, members, some)


def _encoded(patch: Patch) -> WirePatch:
    counted = (
        (pane, *patch.counted.get(pane, Counts()), contributors.to_bytes(agents))
        for pane, agents in patch.agents.items()
    )
    return patch.carrier, cbt.encode_frame(patch.state), list(counted), contributors.to_bytes(patch.lacking)


def _patch_of(message: WirePatch, version: InForce, tree: int, bytes_max: int) -> Patch | None:
    """Decodes a patch that may hold anything; None if it is of no use."""
    carrier, encoded, entries, lacking = message
    function = version.function
    counted = {pane: Counts(*counts) for pane, *counts, _ in entries if any(counts)}
    agents = {pane: contributors.from_bytes(numbers) for pane, *_, numbers in entries}
    if not function.grace.amends_ms or len(agents) < len(entries) or (counted and tree):
        return None
    if any(pane <= version.after for pane in agents):
        return None  # windows of one version hold nothing of another
    state = cbt.decode_frame(encoded, function.state_schema, bytes_max=bytes_max)
    return Patch(carrier, state, counted, agents, contributors.from_bytes(lacking))


def without_content(versions: Versions, after: int, upto: int, tree: int = 0) -> Run:
    """An empty run without contributors, in place of a run that cannot be used."""
    return Run(after, upto, 0, versions.combine([], upto), tree=tree)


def _state_of(run: Run, encode: Callable[[pl.DataFrame], bytes]) -> bytes:
    """The state as the disk has it, or encoded now."""
    return run.encoding.encoded if run.encoding is not None and run.encoding.is_of(run.state) else encode(run.state)


def run_of(
    message: Snapshot,
    versions: Versions,
    placement: TreePlacement,
    known: int | None,
    limits: RunLimits = PRODUCTION,
    arrived_at: float = 0.0,
) -> Run | None:
    """Decodes the run in a message that may hold anything; None if it cannot be combined with others.

    `known`: the agents on the roster, at a master. `arrived_at`: the time when the message came, by this agent's clock.
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
        decoded = [_patch_of(patch, version, message.tree, limits.frame_bytes) for patch in message.patches]
        # What no window needs here any more, or is another version's for this agent, is left out.
        olds = {one.number: one for one in versions.beside(message.upto) if one.is_carried}
        known_old = [one for one in message.before if one[0] in olds]
        before = [_old_panes_of(one, olds[one[0]], message.tree, limits.frame_bytes) for one in known_old]
    except cbt.FrameError:
        return None
    patches = [patch for patch in decoded if patch is not None]
    partial = contributors.from_bytes(message.partial)
    counted = {pane: Counts(*counts) for pane, *counts in message.counted}
    if len(counted) < len(message.counted) or (counted and message.tree) or len(patches) < len(decoded):
        return None  # a pane twice, or what goes up tree 0
    losses = merged_losses([tuple((contributors.from_bytes(agents), why) for agents, why in message.losses)])
    path = CriticalPath.from_wire(message.path, arrived_at)
    if path is not None and not members >> path.agent & 1:
        path = None  # nobody answers for another
    run = Run(
        message.after, message.upto, members, state, counted, partial, message.tree, leaped, losses, tuple(patches),
        placed=message.placed, before=tuple(one for one in before if one is not None), path=path,
    )  # fmt: skip
    if len(run.before) < len(before):
        return None
    states = [state, *(patch.state for patch in patches)]
    # Who has not heard yet of groups that have moved cuts states otherwise: the master merges what is in two trees.
    is_known = message.placed == placement.moved.number
    is_of_tree = not is_known or all(placement.is_on_tree(function, one, message.tree) for one in states)
    if function.sessions is not None and not function.sessions.is_sound(state):
        return None
    is_within_limit = all(map(function.is_within_limit, states))
    return run if is_of_tree and run.is_sound(function.pane_ms) and is_within_limit else None
