"""Tracks how far an operator has taken what its feeds bring, in places to which a reading can return."""

from __future__ import annotations

from typing import NamedTuple

from agent.runtime.durable.records import Chain, Place, Places


class TakenUpTo(NamedTuple):
    """The places of feeds up to which events were taken, and the malformed lines before them."""

    places: Places = {}  # noqa: RUF012
    malformed: int = 0


class ReadProgress:
    """The progress of one operator. Events wait before they are counted, some for the sealing under way."""

    def __init__(self) -> None:
        self.counted = TakenUpTo()
        """All that is counted comes before it, and all that comes before it is counted."""
        self.replayed: frozenset[Chain] = frozenset()
        """The chains whose last run came after the waiting events, in an earlier process."""
        self._taken = TakenUpTo()
        self._due: TakenUpTo | None = None
        self._inside: set[tuple[str, int | None]] = set()

    @property
    def is_inside(self) -> bool:
        """Whether more of a feed's last block follows: what was taken has no place."""
        return bool(self._inside)

    def end_block(self, key: tuple[str, int | None], malformed: int, place: Place | None) -> None:
        """Notes that a block, or a part of one, is taken, with so many malformed lines in all by now."""
        places = self._taken.places
        if place is not None and place.is_inside:
            self._inside.add(key)
        elif place is not None:
            self._inside.discard(key)
            places = {**places, key: place}
        self._taken = TakenUpTo(places, malformed)

    def begin_sealing(self) -> None:
        """Makes what waits now due: it is counted before anything that comes later."""
        self._due = self._taken

    def count_due(self) -> None:
        """Notes that what was due is counted."""
        if self._due is not None:
            self.counted, self._due = self._due, None

    def begin_beside(self, other: ReadProgress) -> None:
        """Begins where another operator of the same feeds has come to: what that has taken is of panes before."""
        self._taken = self.counted = TakenUpTo(other._taken.places)
        self._inside = set(other._inside)
        self.replayed = other.replayed

    def end_feed(self, key: tuple[str, int | None]) -> None:
        """Expects no more of a feed, not even of its last block."""
        self._inside.discard(key)

    def count_all(self) -> None:
        """Notes that all that was taken is counted."""
        self.counted = self._taken
