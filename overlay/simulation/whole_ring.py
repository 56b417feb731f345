"""Builds converged tables from a list of all peers.

Serves questions about routing in overlays too large to join node by node: a node's tables are built when a route first
passes it. The leaf set is exact; a cell of the routing table holds random fitting peers, or the nearest of a sample by
a latency model.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

from overlay.core.random_source import RandomSource
from overlay.pastry.tables.routing_table import CELL_PEERS_MAX
from overlay.pastry.tables.tables import PeerTables
from overlay.simulation.latency import Latency
from overlay.wire.ids import DIGIT_BITS, DIGIT_VALUES, DIGITS, ID_BITS, digit
from overlay.wire.messages import LEAF_SET_SIZE
from overlay.wire.peer import Peer

SAMPLE = 32
ROUTE_HOPS_MAX = 64

_id = attrgetter("node_id")


def build_tables(
    peer: Peer, sorted_peers: Sequence[Peer], latency: Latency | None = None, *, random: RandomSource
) -> PeerTables:
    """Build the leaf set and the routing table of one of the peers, which are sorted by id. O(log² N)."""
    tables = PeerTables(peer, set(), random)
    place, count = bisect_left(sorted_peers, peer.node_id, key=_id), len(sorted_peers)
    for step in range(1, min(LEAF_SET_SIZE // 2, count - 1) + 1):
        tables.leaf_set.offer(sorted_peers[(place + step) % count])
        tables.leaf_set.offer(sorted_peers[(place - step) % count])
    for row in range(DIGITS):
        shift = ID_BITS - DIGIT_BITS * (row + 1)
        prefix = peer.node_id >> shift + DIGIT_BITS << DIGIT_BITS
        edges = [bisect_left(sorted_peers, prefix + column << shift, key=_id) for column in range(DIGIT_VALUES + 1)]
        if edges[-1] - edges[0] <= 1:
            break
        own = digit(peer.node_id, row)
        for column in range(DIGIT_VALUES):
            if column != own:
                _fill_cell(tables, sorted_peers, edges[column], edges[column + 1], latency, random)
    return tables


def _fill_cell(
    tables: PeerTables, peers: Sequence[Peer], low: int, high: int, latency: Latency | None, random: RandomSource
) -> None:
    """Offer some of the peers between two indices, nearest first if there is a latency model."""
    wanted = CELL_PEERS_MAX if latency is None else SAMPLE
    if high - low <= wanted:
        sample = list(peers[low:high])
    else:
        sample = [peers[low + int(random.random() * (high - low))] for _ in range(wanted)]
    if latency is not None:
        sample.sort(key=lambda other: latency.delay_s(tables.peer, other))
    for other in sample[:CELL_PEERS_MAX]:
        tables.routing_table.offer(other)


def route_path(source: Peer, key: int, tables_of: Callable[[Peer], PeerTables]) -> list[Peer]:
    """Return the peers on a message's route for the key, from its source to the deliverer, both included.

    RuntimeError when the route does not end.
    """
    path = [source]
    while (hop := tables_of(path[-1]).next_hop(key)) is not None:
        path.append(hop)
        if len(path) > ROUTE_HOPS_MAX:
            raise RuntimeError(f"a route to {key:032x} from {source} goes round")
    return path
