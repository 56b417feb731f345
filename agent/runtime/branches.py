"""An agent's branch of a job's tree: there it waits for those below it, combines, and passes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.runtime.combiner import Combine, Combiner, Span
from agent.runtime.messages import Received, Snapshot
from agent.runtime.panes import Run
from agent.runtime.uplink import Pace, Uplink


class Branches:
    """That of one part. `worker` stands for the agent's own among the sources."""

    def __init__(self, worker: int, pace: Pace) -> None:
        self._worker = worker
        self._pace = pace
        self._children: dict[int, None] = {}
        self._combiner: Combiner | None = None
        self._uplink = Uplink(pace)

    def begin_epoch(self) -> None:
        """Begins from nothing but the children."""
        self._combiner, self._uplink = None, Uplink(self._pace)

    def install(self, combine: Combine, frontier: int) -> None:
        """Begins to combine, at a frontier."""
        self._combiner = Combiner(combine, frontier)
        for child in self._children:
            self._combiner.add_source(child)

    @property
    def is_installed(self) -> bool:
        return self._combiner is not None

    def combiner(self) -> Combiner:
        """Of what is installed."""
        assert self._combiner is not None
        return self._combiner

    # The sources.

    def add_child(self, node_id: int) -> None:
        self._children[node_id] = None
        if self._combiner is not None:
            self._combiner.add_source(node_id)

    def remove_child(self, node_id: int) -> None:
        self._children.pop(node_id, None)
        if self._combiner is not None:
            self._combiner.remove_source(node_id)

    @property
    def has_children(self) -> bool:
        return bool(self._children)

    def begin_worker(self) -> None:
        """From now on, waits for the agent's own worker."""
        self.combiner().add_source(self._worker)

    def end_worker(self) -> None:
        """The worker has nothing further to say, and what is sent from now on goes up as it is."""
        self._uplink.loosen()
        self.combiner().remove_source(self._worker)

    def add(self, runs: Iterable[Run]) -> list[Run]:
        """Takes runs of the worker's; what of them others have been passed on without comes back."""
        late = [self.combiner().add(self._worker, run) for run in runs]
        return [run for run in late if run is not None]

    def excuse_stragglers(self, behind: int, patience_s: float, now: float) -> bool:
        """Goes on without sources that stand still; whether that is news."""
        return self.combiner().excuse_stragglers(behind, patience_s, now)

    def end_versions_at(self, ends: tuple[int, ...]) -> None:
        """From now on runs end there."""
        self.combiner().end_versions_at(ends)

    @property
    def waiting_runs(self) -> int:
        """Runs that wait here for those of other sources."""
        return self.combiner().waiting_runs

    def due(self) -> Sequence[Span]:
        """The panes that every source has reached, and who is in them."""
        return self._combiner.due() if self._combiner is not None else ()

    def completed(self) -> list[Run]:
        """Combined runs of those panes."""
        return self._combiner.ready() if self._combiner is not None else []

    # What goes up.

    def keep(self, snapshot: Snapshot) -> None:
        """Puts a run on its way."""
        self._uplink.keep(snapshot)

    def unsent(self, now: float) -> list[Snapshot]:
        """What the parent has to get now."""
        return self._uplink.unsent(now)

    def parent_changed(self) -> None:
        """The next `unsent` is for another parent."""
        self._uplink.parent_changed()

    def confirmed(self, message: Received, now: float) -> None:
        """The parent has a snapshot."""
        self._uplink.confirmed(message.after, message.upto, message.contributors, now)

    def commit(self, frontier: int) -> None:
        """Frees what is out."""
        self._uplink.commit(frontier)

    @property
    def is_confirmed(self) -> bool:
        """Whether the parent has everything."""
        return self._uplink.is_confirmed
