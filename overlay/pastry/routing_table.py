"""The routing table of Pastry: one peer for every prefix that leaves one's own id at one digit."""

from collections.abc import Iterator

from overlay.ids import DIGIT_VALUES, DIGITS, digit, shared_prefix_length
from overlay.peer import Peer


class RoutingTable:
    """32 rows of 16 columns: row r, column c holds a peer that shares r digits with the owner, then has c.

    The cell of the owner's own digit stays empty, so a row has at most 15 peers. Rows are made when first
    used: among N nodes about log16(N) of them are.

    >>> table = RoutingTable(Peer(0x0A << 120, "me"))
    >>> table.offer(Peer(0x0B << 120, "sibling"))
    True
    >>> table.next_hop(0x0BFF << 112).address, table.next_hop(0xFF << 120)
    ('sibling', None)
    """

    def __init__(self, owner: Peer) -> None:
        self._owner = owner
        self._rows: list[list[Peer | None]] = []

    def offer(self, peer: Peer) -> bool:
        """Fill the peer's cell if empty, or renew the same peer's address; return whether it was empty."""
        row = shared_prefix_length(self._owner.node_id, peer.node_id)
        if row == DIGITS:
            return False
        while len(self._rows) <= row:
            self._rows.append([None] * DIGIT_VALUES)
        column = digit(peer.node_id, row)
        present = self._rows[row][column]
        if present is None or present.node_id == peer.node_id:
            self._rows[row][column] = peer
        return present is None

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date if the peer is in the table."""
        row = shared_prefix_length(self._owner.node_id, peer.node_id)
        if row < len(self._rows):
            column = digit(peer.node_id, row)
            present = self._rows[row][column]
            if present is not None and present.node_id == peer.node_id:
                self._rows[row][column] = peer

    def remove(self, node_id: int) -> bool:
        """Forget a peer; return whether it was in the table."""
        row = shared_prefix_length(self._owner.node_id, node_id)
        if row >= len(self._rows):
            return False
        present = self._rows[row][digit(node_id, row)]
        if present is None or present.node_id != node_id:
            return False
        self._rows[row][digit(node_id, row)] = None
        return True

    def next_hop(self, key: int) -> Peer | None:
        """Return the peer that shares more digits with the key than the owner does, if one is known."""
        row = shared_prefix_length(self._owner.node_id, key)
        return self._rows[row][digit(key, row)] if row < len(self._rows) else None

    def row(self, number: int) -> tuple[Peer, ...]:
        """Return the peers of one row, in column order."""
        if number >= len(self._rows):
            return ()
        return tuple(peer for peer in self._rows[number] if peer is not None)

    @property
    def row_count(self) -> int:
        """How many rows are in use, counted to the last one that was ever filled."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Peer]:
        return (peer for row in self._rows for peer in row if peer is not None)

    def __len__(self) -> int:
        return sum(peer is not None for row in self._rows for peer in row)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._rows) <= DIGITS
        for number, row in enumerate(self._rows):
            assert len(row) == DIGIT_VALUES
            assert row[digit(self._owner.node_id, number)] is None
            for column, peer in enumerate(row):
                if peer is not None:
                    assert shared_prefix_length(self._owner.node_id, peer.node_id) == number
                    assert digit(peer.node_id, number) == column
