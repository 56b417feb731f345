"""The job's master as the local job on its agent sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agent.runtime.function.result import WindowResult
from agent.runtime.messages.jobs import OwnerLost, Snapshot
from agent.runtime.model.panes import Run
from overlay import Id, Peer


class ResultSource(Protocol):
    """Gives published results to the jobs that read them on the same agent."""

    def take(self, pane: int, reader: Id) -> WindowResult | None:
        """A published result as it was made, once; None if it has to be taken as JSON."""
        ...

    def json(self, pane: int) -> bytes:
        """A published result as JSON; empty if it is not kept any more."""
        ...


class RootSink(Protocol):
    """Takes complete runs at the root of a job's trees: the job's master, where it is on this agent."""

    @property
    def reads_app(self) -> bool:
        """Whether the job reads another job's results, which only the master's agent does."""
        ...

    def known(self) -> int:
        """Bitmap of the agents on the roster."""
        ...

    def on_complete(self, now: float) -> None:
        """Publishes the runs that every source has reached, or a piece of them if they are large."""
        ...

    def take_windows(self, message: Snapshot, sender: Peer, now: float) -> bool:
        """Takes windows that a tree's owner has made; False if they were not asked for."""
        ...

    def owner_lost(self, message: OwnerLost, sender: Peer, now: float) -> None:
        """Notes that an owner does not have panes that it is asked for, or leaves with them, or cannot go on."""
        ...

    def heard_of_root(self, tree: int, sender: Peer) -> None:
        """Notes an agent that has sent something as the root of a tree."""
        ...

    @property
    def outlet(self) -> ResultSource:
        """The way out of its results."""
        ...

    def note_read(self, opened: Iterable[Run], read_upto: int, now: float) -> None:
        """Notes the panes that are not sealed, as of the result of a pane of the job that this one reads."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether `on_complete` would publish more at once."""
        ...
