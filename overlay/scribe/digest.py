"""What a node tells its neighbours in trees of the edges it believes to share with each of them."""

from collections.abc import Iterable, Iterator

from overlay.ids import Id
from overlay.messages import GROUPS_PER_DIGEST_MAX, GroupDigest
from overlay.peer import Peer
from overlay.scribe.group import Group, path_checksum


def edge_digests(groups: Iterable[Group], only: Peer | None = None) -> Iterator[tuple[Peer, GroupDigest]]:
    """Yield the digests for every neighbour, or for one only: several where they share very many edges."""
    children: dict[Peer, list[Id]] = {}
    parents: dict[Peer, list[tuple[Id, int]]] = {}
    for group in groups:
        for child in group.children.values():
            children.setdefault(child, []).append(group.key)
        if group.parent is not None:
            parents.setdefault(group.parent, []).append((group.key, path_checksum(group.path[1:])))
    for peer in {**children, **parents}:
        if only is not None and only.node_id != peer.node_id:
            continue
        below, above = children.get(peer, []), parents.get(peer, [])
        for first in range(0, max(len(below), len(above)), GROUPS_PER_DIGEST_MAX):
            part = slice(first, first + GROUPS_PER_DIGEST_MAX)
            yield peer, GroupDigest(children=tuple(below[part]), parents=tuple(above[part]))
