"""The routing table of Pastry: two near peers for every prefix that leaves one's own id at one digit.

Theory. Pastry keeps one peer a cell. Of two, a message goes to the one whose id is closer to its key, which
sometimes shares a digit more or is its destination: routes are shorter by a quarter of a hop (docs/overlay.md has
the numbers). Besides, keys spread over more peers, and a peer that fails leaves another in its place.

A full cell takes another peer for its farthest one, where the difference in proximity is clear. Where it is not, all
that is known in favour of those in the cell is that they came first. If that decided, every node would fill its
cells with the first nodes of all, which all rows name. So then chance decides.
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

    def offer(self, peer: Peer, *, by_chance: bool = False) -> bool:
        """Take a peer in if its cell has room, or a peer that is clearly farther; return whether it was.

        `by_chance`: sometimes also for one that is not known to be nearer. A known peer's address is renewed.
        """
        row = shared_prefix_length(self._owner.node_id, peer.node_id)
        if row == DIGITS:
            return False
        while len(self._rows) <= row:
            self._rows.append([()] * DIGIT_VALUES)
        column = digit(peer.node_id, row)
        cell = self._rows[row][column]
        if any(present.node_id == peer.node_id for present in cell):
            self._rows[row][column] = tuple(peer if present.node_id == peer.node_id else present for present in cell)
            return False
        if len(cell) >= CELL_PEERS_MAX:
            loser = self._loser(cell, peer, by_chance=by_chance)
            if loser is None:
                return False
            cell = tuple(present for present in cell if present is not loser)
        self._rows[row][column] = (*cell, peer)
        return True

    def _loser(self, cell: tuple[Peer, ...], peer: Peer, *, by_chance: bool) -> Peer | None:
        """Return who of a full cell has to make room for a peer, None if nobody."""
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
        self._rows[row][column] = tuple(peer for peer in self._rows[row][column] if peer.node_id != node_id)
        return True

    def row_of(self, key: int) -> int:
        """Return in which row the peers for a key stand, one that is not the owner's id."""
        return shared_prefix_length(self._owner.node_id, key)

    def cell(self, key: int) -> tuple[Peer, ...]:
        """Return the peers that share more digits with the key than the owner does, as many as are known."""
        row = shared_prefix_length(self._owner.node_id, key)
        return self._rows[row][digit(key, row)] if row < len(self._rows) else ()

    def find(self, node_id: int) -> Peer | None:
        """Return a peer as it stands in the table."""
        return next((peer for peer in self.cell(node_id) if peer.node_id == node_id), None)

    def next_hop(self, key: int, avoid: Container[int] = ()) -> Peer | None:
        """Return who of the key's cell is closest to it, and none of `avoid`."""
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
        """Return the cells of one row that are not empty, in column order."""
        return tuple(filter(None, self._rows[number])) if number < len(self._rows) else ()

    @property
    def row_count(self) -> int:
        """How many rows are in use, counted to the last one that was ever filled."""
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
