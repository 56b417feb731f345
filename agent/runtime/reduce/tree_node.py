"""An agent's nodes in a job's trees: in each tree it waits for its children, combines, and sends to its parent.

With one tree all keys go up the same way. With m, each tree has the keys of one range of their hashes, and a root of
its own: so no agent combines everybody's states of a large key space. The root of tree 0 is the master. The other roots
send it what they have combined, or report it if they make windows of it themselves (`agent.runtime.reduce.owner`); its
node 0 waits for them as for the children of its own tree, and joins the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec
import polars as pl

from agent.runtime.messages.jobs import Snapshot, SnapshotAck, SnapshotPart, SnapshotPartAck
from agent.runtime.model.fields import Stage
from agent.runtime.model.latency.part_meter import PartMeter
from agent.runtime.model.meters import Work, WorkMeter
from agent.runtime.model.panes import END, Combine, Run, total
from agent.runtime.model.step_clock import StepClock
from agent.runtime.reduce.combiner import Combiner, PaneSpan
from agent.runtime.reduce.owner import TreeOwner
from agent.runtime.reduce.parts import RunLimits
from agent.runtime.reduce.retransmit import AckLatency, RetransmitBuffer
from agent.runtime.reduce.straggler import LOOK_INTERVAL_S, StragglerPolicy
from overlay import Peer

Encode = Callable[[Run], Iterable[Snapshot]]
"""Makes the snapshots that carry a run."""
Owns = Callable[[Run], bool]
"""Whether the root of a tree makes windows of a run."""


class RootOf(NamedTuple):
    """A source: the root of a tree, whoever that is. A new root skips panes that its predecessor has delivered."""

    tree: int


class TreeNode:
    """The node of one tree in one epoch. Its `combiner` exists once the function is installed."""

    def __init__(
        self,
        tree: int,
        new_buffer: Callable[[], RetransmitBuffer],
        owner: TreeOwner,
        work: WorkMeter,
        clock: StepClock,
        parts: PartMeter,
        children: Iterable[int] = (),
    ) -> None:
        self.tree = tree
        self.children = dict.fromkeys(children)
        self.combiner: Combiner | None = None
        self.buffer = new_buffer()
        self.owner = owner
        self.reports, self.answers, self.given = new_buffer(), new_buffer(), new_buffer()
        """The snapshots of an owner to the master and, of groups that move with their state, to their new owner."""
        self.given_to: Peer | None = None
        self._encode: Encode | None = None
        self._work, self._clock, self._parts = work, clock, parts

    def install(self, combiner: Combiner, encode: Encode | None) -> None:
        """Begins to combine; without `encode`, complete runs are not sent but published here."""
        self.combiner = combiner
        self._encode = encode
        for child in self.children:
            combiner.add_source(child)

    def advance(self, now: float, *, has_parent: bool, owns: Owns | None = None) -> list[Snapshot | SnapshotPart]:
        """Combines what every source has reached, and keeps it until it is committed; the snapshots to send now.
        `owns`: at the tree's root, the runs that are not sent but reported."""
        is_full = self.buffer.is_full or self.reports.is_full or self.owner.is_full
        if self.combiner is not None and self._encode is not None and not is_full:
            for run in self.combiner.ready(as_encoded=owns is None):
                if owns is not None and owns(run):
                    self._report(run, self._encode)
                else:
                    self._send(run, self._encode)
        return self.buffer.due(now) if has_parent else []

    def _send(self, run: Run, encode: Encode) -> None:
        begun_s, snapshots = self._work.clock(), self._timed(run, encode(run))
        if run.state.height:
            self._work.note(Work.ENCODE, len(snapshots), run.state.height, self._work.clock() - begun_s)
            if not self.tree:
                parts, slowest = self._parts.take()
                told = msgspec.structs.replace(snapshots[0], work=self._work.take(), parts=parts, slowest=slowest)
                snapshots[0] = told
        for snapshot in snapshots:
            self.buffer.add(snapshot)

    def _timed(self, run: Run, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """The snapshots of a run as they are to be sent: it is combined, and encoded."""
        made = list(snapshots)
        if run.path is None:
            return made
        path = run.path.combined(self._clock.now).to_wire()
        return [msgspec.structs.replace(one, path=path) for one in made]

    def _report(self, run: Run, encode: Encode) -> None:
        self.owner.hold(run.with_before())  # the master makes windows of that
        for report in self._timed(run, encode(replace(run, state=run.state.clear(), encoding=None))):
            self.reports.add(msgspec.structs.replace(report, stage="report"))

    def buffer_of(self, stage: Stage) -> RetransmitBuffer:
        """The buffer of what is sent in a stage of the protocol."""
        return {"panes": self.buffer, "report": self.reports, "windows": self.answers, "given": self.given}[stage]

    @property
    def buffers(self) -> tuple[RetransmitBuffer, ...]:
        """The buffers of all stages of the protocol."""
        return self.buffer, self.reports, self.answers, self.given

    def due_of_owner(self, now: float) -> list[Snapshot | SnapshotPart]:
        """The snapshots to send to the master now."""
        return [*self.reports.due(now), *self.answers.due(now)]


class TreeNodes:
    """All nodes of one job on one agent. `worker` stands for the agent's own worker among the sources. `work`: what is
    done for the job here; `parts`: how long agents take for theirs. `clock` tells the time."""

    def __init__(self, worker: int, latency: AckLatency, limits: RunLimits, clock: StepClock) -> None:
        self.work, self.clock, self.parts = WorkMeter(), clock, PartMeter(clock)
        self._worker = worker
        self._latency = latency
        self._limits = limits
        self._nodes = [self._new_node(0, 1)]
        self._looks_at = 0.0

    def _new_node(self, tree: int, trees: int, children: Iterable[int] = ()) -> TreeNode:
        new_buffer = partial(RetransmitBuffer, self._latency, trees, self._limits)
        owner = TreeOwner(trees, self._limits.whole_bytes, self._limits.kept_bytes // trees)
        return TreeNode(tree, new_buffer, owner, self.work, self.clock, self.parts, children)

    def __iter__(self) -> Iterator[TreeNode]:
        return iter(self._nodes)

    def __getitem__(self, tree: int) -> TreeNode:
        return self._nodes[tree]

    def __len__(self) -> int:
        return len(self._nodes)

    def begin_epoch(self, trees: int) -> None:
        """Begins anew with the children only; new trees have none yet."""
        before = [node.children for node in self._nodes[:trees]]
        children = [*before, *({} for _ in range(trees - len(before)))]
        self._nodes = [self._new_node(tree, trees, known) for tree, known in enumerate(children)]

    def install(self, combine: Combine, frontier: int, encode: Encode, *, at_master: bool) -> None:
        """Begins to combine, at a frontier."""
        for node in self._nodes:
            top = at_master and not node.tree
            trees = tuple(range(len(self))) if top else (node.tree,)
            node.install(Combiner(partial(self._joined, combine), frontier, trees=trees), None if top else encode)
            if top:
                for other in range(1, len(self)):
                    self.combiner().add_source(RootOf(other))

    def _joined(self, combine: Combine, states: Sequence[pl.DataFrame], *about: int) -> pl.DataFrame:
        begun_s = self.work.clock()
        joined = combine(states, *about)
        self.work.note(Work.JOIN, len(states), sum(state.height for state in states), self.work.clock() - begun_s)
        return joined

    def decoded(self, message: Snapshot, decode: Callable[[], Run | None]) -> Run | None:
        """The run in a message, as `decode` makes it, and the work that it tells of."""
        begun_s = self.work.clock()
        run = decode()
        if run is not None:
            self.work.add(message.work)
            self.parts.add(message.parts, message.slowest)
            if run.state.height:
                self.work.note(Work.DECODE, 1, run.state.height, self.work.clock() - begun_s)
        return run

    @property
    def is_installed(self) -> bool:
        return self._nodes[0].combiner is not None

    def combiner(self, tree: int = 0) -> Combiner:
        """The combiner of one of the nodes, which are installed."""
        combiner = self._nodes[tree].combiner
        assert combiner is not None
        return combiner

    def _combiners(self) -> list[Combiner]:
        return [node.combiner for node in self._nodes if node.combiner is not None]

    # Sources.

    def add_child(self, node_id: int, tree: int = 0) -> None:
        node = self._nodes[tree]
        node.children[node_id] = None
        if node.combiner is not None:
            node.combiner.add_source(node_id)

    def remove_child(self, node_id: int, tree: int = 0) -> None:
        node = self._nodes[tree]
        node.children.pop(node_id, None)
        if node.combiner is not None:
            node.combiner.remove_source(node_id)

    @property
    def has_children(self) -> bool:
        return any(node.children for node in self._nodes)

    def begin_worker(self) -> None:
        """Adds the agent's own worker to the sources to wait for."""
        for combiner in self._combiners():
            combiner.add_source(self._worker)

    def end_worker(self) -> None:
        """Stops waiting for the worker, and sends every run detached from now on, as this agent leaves."""
        for node in self._nodes:
            node.buffer.detach_all()
        for combiner in self._combiners():
            combiner.remove_source(self._worker)

    def add(self, runs: Sequence[Run]) -> list[Run]:
        """Takes the worker's run of each tree; returns the pieces that come too late to be combined with others."""
        for run in runs:
            self.work.note(Work.KEEP, 0 if run.tree else run.state["pane"].n_unique(), run.state.height)
            self.work.note(Work.COUNT, 0 if run.tree else len(run.counted), total(run.counted.values()).events)
            if run.path is not None and not run.tree:
                self.parts.note(run.path)
        late = [self.combiner(run.tree).add(self._worker, run) for run in runs]
        return [run for run in late if run is not None]

    def skip_stragglers(self, policy: StragglerPolicy, now: float) -> bool:
        """Skips sources that stand still, looking once in a while; returns whether their set has changed."""
        if now < self._looks_at:
            return False
        self._looks_at = now + LOOK_INTERVAL_S
        return sum(one.skip_stragglers(policy, now) for one in self._combiners()) > 0

    def lag(self, policy: StragglerPolicy) -> tuple[int, bool] | None:
        """The pane to which others have come where sources are stragglers, in any tree; whether too many runs wait."""
        lags = [lag for one in self._combiners() if (lag := one.lag(policy)) is not None]
        return max(lags, default=None)

    def go_on(self, upto: int) -> bool:
        """Waits for nobody up to this pane; returns whether any node has waited."""
        return sum(one.go_on(upto) for one in self._combiners()) > 0

    @property
    def sealed_upto(self) -> int:
        """The last pane that the worker, which has begun, has delivered."""
        return self.combiner().progress(self._worker)

    def end_versions_at(self, ends: tuple[int, ...]) -> None:
        """Lets no run reach across these panes from now on."""
        for combiner in self._combiners():
            combiner.end_versions_at(ends)

    @property
    def waiting_runs(self) -> int:
        """Runs that wait here for runs of other sources."""
        return sum(combiner.waiting_runs for combiner in self._combiners())

    def is_quiet(self, upto: int) -> bool:
        """Whether no source is ahead of another, nobody is waited for up to a pane, and parents have all snapshots."""
        return self.is_acknowledged and all(combiner.is_level(upto) for combiner in self._combiners())

    @property
    def is_at_rest(self) -> bool:
        """Whether no pane is complete that is not taken, and no run waits."""
        return not self.waiting_runs and not (self.is_installed and self.combiner().is_ready)

    # Publication, at the master.

    def complete_spans(self) -> Sequence[PaneSpan]:
        """The panes that every source has reached in every tree, and their contributors."""
        return self.combiner().due() if self.is_installed else ()

    def complete_runs(self, upto: int = END) -> list[Run]:
        """Combined runs of those panes up to one, of all trees together."""
        runs = self.combiner().ready(upto) if self.is_installed else []
        return [run if run.path is None else replace(run, path=run.path.combined(self.clock.now)) for run in runs]

    # Sending.

    def keep(self, snapshot: Snapshot) -> None:
        """Sends a snapshot up unchanged, and keeps it until it is committed."""
        self._nodes[snapshot.tree].buffer.add(snapshot)

    def has_room(self, tree: int) -> bool:
        """Whether to take more of what goes up a tree unchanged."""
        return not self._nodes[tree].buffer.is_full

    def parent_changed(self, tree: int) -> None:
        """Sends everything that is kept to the new parent."""
        self._nodes[tree].buffer.parent_changed()

    def acknowledged(self, message: SnapshotAck, now: float) -> bool:
        """Notes that the parent has a snapshot; whether anything waited for that."""
        buffer = self._nodes[message.tree].buffer_of(message.stage)
        return buffer.acknowledged(message.after, message.upto, message.contributors, now, message.handled_us / 1e6)

    def part_acknowledged(self, message: SnapshotPartAck, now: float) -> list[SnapshotPart]:
        """Notes how far the parent has a snapshot; returns the parts to send now."""
        buffer = self._nodes[message.tree].buffer_of(message.stage)
        return [*buffer.part_acknowledged(message.digest, message.upto, now), *buffer.due_parts(now)]

    def commit(self, frontier: int) -> None:
        """Frees what is published."""
        for buffer in (buffer for node in self._nodes for buffer in node.buffers):
            buffer.commit(frontier)

    @property
    def is_acknowledged(self) -> bool:
        """Whether parents have every snapshot."""
        buffers = (buffer for node in self._nodes for buffer in node.buffers)
        return not any(len(buffer) and not buffer.is_acknowledged for buffer in buffers)
