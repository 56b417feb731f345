"""The routing table of Pastry: two near peers for every prefix that differs from the owner's id in its last digit.

Theory. Pastry keeps one peer per cell. With two, a message goes to the one whose id is closer to its key, which
sometimes shares a digit more or is its destination: routes are shorter by a quarter of a hop (docs/overlay.md has the
numbers). Besides, keys spread over more peers, and a failed peer leaves another in its place.

A full cell replaces its farthest peer when another is clearly nearer. When the difference is not clear, the only
advantage of the peers in the cell is that they came first. If that decided, every node would fill its cells with the
oldest nodes, which all rows name. So chance decides.
"""

from collections.abc import Container, Iterator
from math import inf

from overlay.core.random_source import RandomSource, one_of
from overlay.pastry.tables.proximity import Proximity
from overlay.wire.ids import DIGIT_VALUES, DIGITS, digit, shared_prefix_length
from overlay.wire.peer import Peer

CELL_PEERS_MAX = 2
TURNOVER = 0.25


class RoutingTable:
    """32 rows of 16 columns: row r, column c holds peers that share r digits with the owner, then have c.

    The cell of the owner's own digit stays empty. Rows are made when first used: among N nodes about log16(N) of
    them are.

    >>> import random
    >>> table = RoutingTable(Peer(0x0A << 120, "me"), Proximity(), random.Random(1))
    >>> table.offer(Peer(0x0B << 120, "sibling"))
    True
    >>> table.next_hop(0x0BFF << 112).address, table.next_hop(0xFF << 120)
    ('sibling', None)
    """

    def __init__(self, owner: Peer, proximity: Proximity, random: RandomSource) -> None:
        self._owner = owner
        self._proximity = proximity
        self._random = random
        self._rows: list[list[tuple[Peer, ...]]] = []
        self.changes = 0
        """Grows with each change, so that others know when what they have made of it is old."""

    def offer(self, peer: Peer, *, by_chance: bool = False) -> bool:
        """Add a peer if its cell has room or holds a clearly farther one; return whether it was added.

        `by_chance`: sometimes also add one that is not known to be nearer. A known peer's address is renewed.
        """
        row = shared_prefix_length(self._owner.node_id, peer.node_id)
        if row == DIGITS:
            return False
        while len(self._rows) <= row:
            self._rows.append([()] * DIGIT_VALUES)
        column = digit(peer.node_id, row)
        cell = self._rows[row][column]
        if any(present.node_id == peer.node_id for present in cell):
            if peer not in cell:
                self._put(row, column, tuple(peer if known.node_id == peer.node_id else known for known in cell))
            return False
        if len(cell) >= CELL_PEERS_MAX:
            loser = self._loser(cell, peer, by_chance=by_chance)
            if loser is None:
                return False
            cell = tuple(present for present in cell if present is not loser)
        self._put(row, column, (*cell, peer))
        return True

    def _put(self, row: int, column: int, cell: tuple[Peer, ...]) -> None:
        self._rows[row][column] = cell
        self.changes += 1

    def _loser(self, cell: tuple[Peer, ...], peer: Peer, *, by_chance: bool) -> Peer | None:
        """Return the peer to evict from a full cell, None if there is none."""
        farthest = max(cell, key=lambda present: self._proximity.round_trip_s(present.node_id))
        if self._proximity.is_clearly_nearer(peer.node_id, farthest.node_id):
            return farthest
        if not by_chance or self._random.random() >= TURNOVER:
            return None
        chosen = one_of(cell, self._random)
        return None if self._proximity.is_clearly_nearer(chosen.node_id, peer.node_id) else chosen

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date if the peer is in the table."""
        if self.find(peer.node_id) is not None:
            self.offer(peer)

    def remove(self, node_id: int) -> bool:
        """Forget a peer; return whether it was in the table."""
        if self.find(node_id) is None:
            return False
        row = shared_prefix_length(self._owner.node_id, node_id)
        column = digit(node_id, row)
        self._put(row, column, tuple(peer for peer in self._rows[row][column] if peer.node_id != node_id))
        return True

    def row_of(self, key: int) -> int:
        """Return the row of the peers for a key, which is not the owner's id."""
        return shared_prefix_length(self._owner.node_id, key)

    def cell(self, key: int) -> tuple[Peer, ...]:
        """Return the known peers that share more digits with the key than the owner does."""
        row = shared_prefix_length(self._owner.node_id, key)
        return self._rows[row][digit(key, row)] if row < len(self._rows) else ()

    def find(self, node_id: int) -> Peer | None:
        """Return the peer of this id in the table."""
        return next((peer for peer in self.cell(node_id) if peer.node_id == node_id), None)

    def next_hop(self, key: int, avoid: Container[int] = ()) -> Peer | None:
        """Return the peer of the key's cell that is closest to the key and not in `avoid`."""
        best, nearest = None, inf
        for peer in self.cell(key):
            gap = abs(peer.node_id - key)
            if gap < nearest and peer.node_id not in avoid:
                best, nearest = peer, gap
        return best

    def row(self, number: int) -> tuple[Peer, ...]:
        """Return the peers of one row, in column order."""
        return tuple(peer for cell in self.cells(number) for peer in cell)

    def cells(self, number: int) -> tuple[tuple[Peer, ...], ...]:
        """Return the non-empty cells of one row, in column order."""
        return tuple(filter(None, self._rows[number])) if number < len(self._rows) else ()

    @property
    def row_count(self) -> int:
        """Number of rows up to the last one ever filled."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Peer]:
        return (peer for row in self._rows for cell in row for peer in cell)

    def __len__(self) -> int:
        return sum(len(cell) for row in self._rows for cell in row)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._rows) <= DIGITS
        for number, row in enumerate(self._rows):
            assert len(row) == DIGIT_VALUES
            assert not row[digit(self._owner.node_id, number)]
            for column, cell in enumerate(row):
                assert len({peer.node_id for peer in cell}) == len(cell) <= CELL_PEERS_MAX
                for peer in cell:
                    assert shared_prefix_length(self._owner.node_id, peer.node_id) == number
                    assert digit(peer.node_id, number) == column
