"""Lets the runs of one chain leave their worker, once they are on the agent's disk if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.runtime.durable.journal import RunKeeper
from agent.runtime.durable.records import BEFORE_ALL, Places, RestoredChain, SealedAt, SealedRun, Span
from agent.runtime.model.panes import END, FIRST_PANE, Run


class RunOutlet:
    """The way out of one worker's runs. `leave` gets each of them, in pane order. `keeper` has them kept before."""

    def __init__(self, leave: Callable[[Run], None]) -> None:
        self._leave = leave
        self.keeper: RunKeeper | None = None
        self.released_upto = FIRST_PANE
        """The last pane whose run may have left."""
        self.kept_upto = FIRST_PANE
        """The last pane whose run is on disk, with all before it."""
        self.kept_places: Places = {}
        """The places up to which events are counted in the runs on disk."""
        self._last_pane = END
        self._at = SealedAt()

    def close(self) -> None:
        """Lets no further run leave, and releases the callback."""
        self._leave = _drop

    def begin_after(self, after: int) -> None:
        """Begins with the panes after this one."""
        self.released_upto = after

    def restore(self, sealed: RestoredChain, held: tuple[Span, ...], feeds: Iterable[tuple[str, int | None]]) -> None:
        """Goes on behind runs of an earlier process, of which these panes are needed; all `feeds` are read again."""
        self.released_upto = self.kept_upto = min(sealed.upto, self._last_pane)
        self.kept_places = dict.fromkeys(feeds, BEFORE_ALL)
        self._at = SealedAt(held=held)

    def end_at(self, last_pane: int) -> None:
        """Lets nothing leave after this pane, nor what has left before."""
        self._last_pane = last_pane
        self.released_upto = min(self.released_upto, last_pane)
        self.kept_upto = min(self.kept_upto, last_pane)

    def begin_sealing(self, places: Places, held: tuple[Span, ...]) -> None:
        """A sealing begins: what was read before `places` is counted with it, and the worker holds these panes."""
        self._at = SealedAt(places, held)

    def moment_of(self, run: Run) -> SealedAt:
        """The moment of the sealing of a run, which is emitted at once or after a while."""
        if self.keeper is not None:
            self._at = self._at.with_run(run)
        return self._at

    def emit(self, run: Run, at: SealedAt) -> None:
        """Takes a run that was sealed at a moment, and may leave now or later."""
        if self.keeper is None:
            self._let_go(run)
        else:
            self.keeper.journal.seal(self.keeper.sealed(run, at), self)

    def _let_go(self, run: Run) -> None:
        self.released_upto = run.upto
        self._leave(run)

    # The journal's calls: see `RunOwner`.

    def release(self, sealed: SealedRun) -> None:
        """A run may leave."""
        run = sealed.run.within(self.released_upto, self._last_pane)
        if run.upto > run.after:
            self._let_go(run)

    def kept(self, sealed: SealedRun) -> None:
        """A run is on disk."""
        self.kept_upto = min(sealed.run.upto, self._last_pane)
        if sealed.run.contributors:
            self.kept_places = sealed.at.places


def _drop(run: Run) -> None:
    """Takes a run of a worker that has gone."""
