"""Tables made from a list of all peers: as true as those of nodes that have joined."""

import itertools
import random
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from overlay import ID_SPACE, Peer, PlaneLatency, build_tables, closest, digit, route_path, shared_prefix_length
from overlay.pastry.tables.tables import PeerTables


class WholeRing:
    def __init__(self, ids: set[int], seed: int = 1, *, in_plane: bool = False) -> None:
        self.random = random.Random(seed)
        self.peers = [Peer(node_id, f"peer-{node_id}") for node_id in sorted(ids)]
        self.latency = PlaneLatency(self.random) if in_plane else None
        self._made: dict[Peer, PeerTables] = {}

    def tables_of(self, peer: Peer) -> PeerTables:
        if peer not in self._made:
            self._made[peer] = build_tables(peer, self.peers, self.latency, random=self.random)
        return self._made[peer]

    def path(self) -> tuple[int, list[Peer]]:
        key = self.random.getrandbits(128)
        return key, route_path(self.random.choice(self.peers), key, self.tables_of)


@given(st.sets(st.integers(0, ID_SPACE - 1), min_size=1, max_size=60), st.booleans())
def test_every_cell_that_can_be_filled_is_and_every_neighbour_is_known(ids: set[int], in_plane: bool) -> None:
    ring = WholeRing(ids, in_plane=in_plane)
    for place, peer in enumerate(ring.peers):
        tables = ring.tables_of(peer)
        tables.check()
        others = ids - {peer.node_id}
        reach = min(8, len(others))
        around = {ring.peers[(place + step) % len(ids)] for step in range(-reach, reach + 1) if step} - {peer}
        assert set(tables.leaf_set) == around
        cells = {(row := shared_prefix_length(peer.node_id, other), digit(other, row)) for other in others}
        assert all(tables.routing_table.cells(row) for row, _ in cells)
        assert all(tables.routing_table.next_hop(other) for other in others)


@given(st.sets(st.integers(0, ID_SPACE - 1), min_size=1, max_size=60), st.integers(0, ID_SPACE - 1))
def test_every_path_leads_to_the_closest(ids: set[int], key: int) -> None:
    ring = WholeRing(ids)
    for peer in ring.peers:
        path = route_path(peer, key, ring.tables_of)
        assert path[0] == peer
        assert path[-1].node_id == closest(key, ids)
        assert len(set(path)) == len(path)


@pytest.mark.parametrize("size", seeds(256, 1280, slow=[5000, 10_000, 100_000]))
def test_mean_hops_stay_below_the_logarithm(size: int) -> None:
    source = random.Random(size)
    ring = WholeRing({source.getrandbits(128) for _ in range(size)})
    paths = [ring.path() for _ in range(400)]
    mean = sum(len(path) - 1 for _, path in paths) / len(paths)
    print(f"N = {size}: {mean:.3f} hops, {mean / log(size, 16):.3f} of the logarithm")
    assert mean <= 0.95 * log(size, 16)
    assert max(len(path) - 1 for _, path in paths) <= 6


def test_near_peers_are_chosen_where_there_is_a_model_of_latency() -> None:
    source = random.Random(5)
    ids = {source.getrandbits(128) for _ in range(300)}
    stretch = {}
    for in_plane in (False, True):
        ring = WholeRing(ids, in_plane=in_plane)
        latency = ring.latency or PlaneLatency(random.Random(1))
        routed = direct = 0.0
        for _ in range(300):
            _, path = ring.path()
            if len(path) > 1:
                routed += sum(latency.delay_s(*link) for link in itertools.pairwise(path))
                direct += latency.delay_s(path[0], path[-1])
        stretch[in_plane] = routed / direct
    assert stretch[True] < 1.4 < stretch[False]
