"""A peer: a node's id and the address it is reached at."""

from overlay.wire.ids import Id, checked_id, format_id

ADDRESS_CHARACTERS_MAX = 255


class Peer:
    """An immutable pair of a node id and the address the transport reaches it at.

    ValueError when the id lies outside the id space or the address is empty, overlong or not printable. (A plain class,
    because the codec writes it as [16 bytes, address], which it cannot do with a dataclass.)

    >>> Peer(255, "10.0.0.1:7700")
    Peer(000000000000000000000000000000ff, '10.0.0.1:7700')
    """

    __slots__ = ("address", "node_id")
    node_id: Id
    address: str

    def __init__(self, node_id: int, address: str) -> None:
        if not address or len(address) > ADDRESS_CHARACTERS_MAX or not address.isprintable():
            raise ValueError(f"not an address: {address[:40]!r}")
        object.__setattr__(self, "node_id", checked_id(node_id))
        object.__setattr__(self, "address", address)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a peer is immutable: cannot set {name} to {value!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Peer):
            return NotImplemented
        return self.node_id == other.node_id and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.node_id)

    def __repr__(self) -> str:
        return f"Peer({format_id(self.node_id)}, {self.address!r})"
