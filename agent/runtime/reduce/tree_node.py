"""An agent's branches of a job's trees: in each tree it waits for those below it, combines, and passes on.

With one tree all keys go up the same way. With m, each tree has the keys of one range of their hashes, and a root of
its own: so no agent combines everybody's states of a large key space. The root of tree 0 is the master. The others send
it what they have combined; its branch 0 waits for them as for the children of its own tree, and puts ranges together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.runtime.messages.jobs import Snapshot, SnapshotAck
from agent.runtime.model.panes import Run
from agent.runtime.reduce.combiner import Combine, Combiner, Span
from agent.runtime.reduce.resend import AckLatency, RetransmitBuffer


class RootOf(NamedTuple):
    """As a source: whoever is the root of a tree. What one has delivered its successor need not."""

    tree: int


class TreeNode:
    """Of one tree, in one epoch. Its `combiner` is there once the function is installed."""

    def __init__(self, uplink: RetransmitBuffer, children: Iterable[int] = ()) -> None:
        self.children = dict.fromkeys(children)
        self.combiner: Combiner | None = None
        self.uplink = uplink

    def install(self, combiner: Combiner) -> None:
        """Begins to combine what children send."""
        self.combiner = combiner
        for child in self.children:
            combiner.add_source(child)


class TreeNodes:
    """Those of one part. `worker` stands for the agent's own among the sources."""

    def __init__(self, worker: int, pace: AckLatency) -> None:
        self._worker = worker
        self._pace = pace
        self._branches = [TreeNode(RetransmitBuffer(pace))]

    def __iter__(self) -> Iterator[TreeNode]:
        return iter(self._branches)

    def __len__(self) -> int:
        return len(self._branches)

    def begin_epoch(self, trees: int) -> None:
        """Begins from nothing but the children; of trees that are new, none are known."""
        before = [branch.children for branch in self._branches[:trees]]
        children = [*before, *({} for _ in range(trees - len(before)))]
        self._branches = [TreeNode(RetransmitBuffer(self._pace, trees), known) for known in children]

    def install(self, combine: Combine, frontier: int, *, at_master: bool) -> None:
        """Begins to combine, at a frontier."""
        for tree, branch in enumerate(self._branches):
            top = at_master and not tree
            branch.install(Combiner(combine, frontier, trees=tuple(range(len(self))) if top else (tree,)))
            if top:
                for other in range(1, len(self)):
                    self.combiner().add_source(RootOf(other))

    @property
    def is_installed(self) -> bool:
        return self._branches[0].combiner is not None

    def combiner(self, tree: int = 0) -> Combiner:
        """Of the branches that are installed, one's."""
        combiner = self._branches[tree].combiner
        assert combiner is not None
        return combiner

    def _combiners(self) -> list[Combiner]:
        return [branch.combiner for branch in self._branches if branch.combiner is not None]

    # The sources.

    def add_child(self, node_id: int, tree: int = 0) -> None:
        branch = self._branches[tree]
        branch.children[node_id] = None
        if branch.combiner is not None:
            branch.combiner.add_source(node_id)

    def remove_child(self, node_id: int, tree: int = 0) -> None:
        branch = self._branches[tree]
        branch.children.pop(node_id, None)
        if branch.combiner is not None:
            branch.combiner.remove_source(node_id)

    @property
    def has_children(self) -> bool:
        return any(branch.children for branch in self._branches)

    def begin_worker(self) -> None:
        """From now on, waits for the agent's own worker."""
        for combiner in self._combiners():
            combiner.add_source(self._worker)

    def end_worker(self) -> None:
        """The worker has nothing further to say, and what is sent from now on goes up as it is."""
        for branch in self._branches:
            branch.uplink.loosen()
        for combiner in self._combiners():
            combiner.remove_source(self._worker)

    def add(self, runs: Iterable[Run]) -> list[Run]:
        """Takes runs of the worker's; what of them others have been passed on without comes back."""
        late = [self.combiner(run.tree).add(self._worker, run) for run in runs]
        return [run for run in late if run is not None]

    def excuse_stragglers(self, behind: int, patience_s: float, now: float) -> bool:
        """Goes on without sources that stand still; whether that is news."""
        return sum(one.excuse_stragglers(behind, patience_s, now) for one in self._combiners()) > 0

    def end_versions_at(self, ends: tuple[int, ...]) -> None:
        """From now on runs end there."""
        for combiner in self._combiners():
            combiner.end_versions_at(ends)

    @property
    def waiting_runs(self) -> int:
        """Runs that wait here for those of other sources."""
        return sum(combiner.waiting_runs for combiner in self._combiners())

    # At the master.

    def due(self) -> Sequence[Span]:
        """The panes that every source has reached in every tree, and who is in them."""
        return self.combiner().due() if self.is_installed else ()

    def completed(self) -> list[Run]:
        """Combined runs of those panes, of all trees together."""
        return self.combiner().ready() if self.is_installed else []

    # What goes up.

    def passing(self, first: int) -> Iterator[Run]:
        """What every source has reached, in each of the trees from the first on."""
        for combiner in self._combiners()[first:]:
            yield from combiner.ready()

    def keep(self, snapshot: Snapshot) -> None:
        """Puts a run on its way."""
        self._branches[snapshot.tree].uplink.keep(snapshot)

    def unsent(self, tree: int, now: float) -> list[Snapshot]:
        """What the parent in a tree has to get now."""
        return self._branches[tree].uplink.unsent(now)

    def parent_changed(self, tree: int) -> None:
        """The next `unsent` is for another parent."""
        self._branches[tree].uplink.parent_changed()

    def confirmed(self, message: SnapshotAck, now: float) -> None:
        """The parent has a snapshot."""
        uplink = self._branches[message.tree].uplink
        uplink.confirmed(message.after, message.upto, message.contributors, now)

    def commit(self, frontier: int) -> None:
        """Frees what is out."""
        for branch in self._branches:
            branch.uplink.commit(frontier)

    @property
    def is_confirmed(self) -> bool:
        """Whether parents have everything."""
        return not any(len(branch.uplink) and not branch.uplink.is_confirmed for branch in self._branches)
