from hypothesis import given
from hypothesis import strategies as st

from overlay import ID_SPACE, Peer, closest, digit, distance, shared_prefix_length
from overlay.pastry.leaf_set import LeafSet
from overlay.pastry.neighbourhood import Neighbourhood
from overlay.pastry.routing import next_hop
from overlay.pastry.routing_table import RoutingTable

OWNER = 0xA5A5 << 112

# Ids that share prefixes of every length with the owner.
ids = st.builds(
    lambda row, tail: (OWNER ^ (tail % (ID_SPACE >> 4 * row))) % ID_SPACE,
    st.integers(0, 31),
    st.integers(0, ID_SPACE - 1),
)


@given(st.lists(ids, max_size=40), st.lists(ids, max_size=10))
def test_it_is_a_dictionary_of_first_comers_by_prefix(offered: list[int], removed: list[int]) -> None:
    table = RoutingTable(Peer(OWNER, "owner"))
    model: dict[tuple[int, int], int] = {}
    for node in offered:
        row = shared_prefix_length(OWNER, node)
        cell = (row, digit(node, row)) if row < 32 else None
        assert table.offer(Peer(node, "peer")) == (cell is not None and cell not in model)
        if cell is not None:
            model.setdefault(cell, node)
    for node in removed:
        assert table.remove(node) == (node in model.values())
        model = {cell: present for cell, present in model.items() if present != node}
    table.check()
    assert sorted(peer.node_id for peer in table) == sorted(model.values())
    assert len(table) == len(model)
    for row in range(32):
        expected = [model[cell] for cell in sorted(model) if cell[0] == row]
        assert [peer.node_id for peer in table.row(row)] == expected


@given(st.lists(ids, max_size=40), ids)
def test_next_hop_shares_more_digits(offered: list[int], key: int) -> None:
    table = RoutingTable(Peer(OWNER, "owner"))
    for node in offered:
        table.offer(Peer(node, "peer"))
    shared = shared_prefix_length(OWNER, key)
    hop = table.next_hop(key)
    better = [node for node in offered if shared_prefix_length(node, key) > shared]
    assert (hop is None) == (not better)
    if hop is not None:
        assert shared_prefix_length(hop.node_id, key) > shared


def test_the_same_peer_may_move() -> None:
    table = RoutingTable(Peer(0, "me"))
    assert table.offer(Peer(ID_SPACE - 1, "here"))
    assert not table.offer(Peer(ID_SPACE - 1, "there"))
    assert [peer.address for peer in table] == ["there"]


@given(st.sets(st.integers(0, ID_SPACE - 1), min_size=1, max_size=40), ids, st.booleans())
def test_routing_gets_closer_or_ends(known: set[int], key: int, sparse: bool) -> None:
    """Every hop shares a longer prefix, or no shorter one and is closer, or is the closest there is."""
    owner = Peer(OWNER, "owner")
    leaves, table = LeafSet(owner, 4), RoutingTable(owner)
    for node in known:
        leaves.offer(Peer(node, "peer"))
        if not sparse:
            table.offer(Peer(node, "peer"))
    hop = next_hop(key, owner, leaves, table)
    everyone = {OWNER, *known}
    if leaves.covers(key):
        assert (OWNER if hop is None else hop.node_id) == closest(key, everyone)
        return
    assert hop is not None
    shared = shared_prefix_length(OWNER, key)
    hop_shared = shared_prefix_length(hop.node_id, key)
    nearer = distance(hop.node_id, key) < distance(OWNER, key)
    assert hop_shared > shared or (hop_shared == shared and nearer)
    other = next_hop(key, owner, leaves, table, {hop.node_id})
    assert other is None or other.node_id != hop.node_id


def test_the_neighbourhood_keeps_the_nearest() -> None:
    near = Neighbourhood(size=3)
    for number in range(10):
        near.observe(Peer(number, f"peer-{number}"), round_trip_s=abs(number - 5))
        near.check()
    assert sorted(peer.node_id for peer in near) == [4, 5, 6]
    near.observe(Peer(5, "peer-5"), round_trip_s=99.0)
    near.observe(Peer(7, "peer-7"), round_trip_s=2.0)
    assert sorted(peer.node_id for peer in near) == [4, 6, 7]
    near.remove(4)
    assert len(near) == 2
