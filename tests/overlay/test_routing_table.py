import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from overlay import ID_SPACE, Peer, closest, digit, distance, shared_prefix_length
from overlay.pastry.tables.leaf_set import LeafSet
from overlay.pastry.tables.neighbourhood import Neighbourhood
from overlay.pastry.tables.proximity import Proximity
from overlay.pastry.tables.routing_table import CELL_PEERS_MAX, RoutingTable
from overlay.pastry.tables.tables import next_hop

OWNER = 0xA5A5 << 112

# Ids that share prefixes of every length with the owner.
ids = st.builds(
    lambda row, tail: (OWNER ^ (tail % (ID_SPACE >> 4 * row))) % ID_SPACE,
    st.integers(0, 31),
    st.integers(0, ID_SPACE - 1),
)


def empty_table(owner: int = OWNER, seed: int = 1) -> RoutingTable:
    return RoutingTable(Peer(owner, "owner"), Proximity(), random.Random(seed))


@given(st.lists(ids, max_size=40), st.lists(ids, max_size=10))
def test_unmeasured_peers_fill_the_cells_in_the_order_they_come(offered: list[int], removed: list[int]) -> None:
    table = empty_table()
    model: dict[tuple[int, int], list[int]] = {}
    for node in offered:
        row = shared_prefix_length(OWNER, node)
        cell = model.setdefault((row, digit(node, row)), []) if row < 32 else [OWNER]
        has_room = node not in cell and row < 32 and len(cell) < CELL_PEERS_MAX
        assert table.offer(Peer(node, "peer")) == has_room
        if has_room:
            cell.append(node)
    for node in removed:
        assert table.remove(node) == any(node in cell for cell in model.values())
        model = {place: [present for present in cell if present != node] for place, cell in model.items()}
    table.check()
    assert len(table) == sum(map(len, model.values()))
    for row in range(32):
        expected = [node for place in sorted(model) if place[0] == row for node in model[place]]
        assert [peer.node_id for peer in table.row(row)] == expected


@given(st.lists(ids, max_size=40), ids, ids)
def test_next_hop_is_the_peer_of_the_cell_closest_to_the_key(offered: list[int], key: int, avoided: int) -> None:
    table = empty_table()
    for node in offered:
        table.offer(Peer(node, "peer"))
    shared = shared_prefix_length(OWNER, key)
    fitting = {peer.node_id for peer in table if shared_prefix_length(peer.node_id, key) > shared}
    assert bool(fitting) == any(shared_prefix_length(node, key) > shared for node in offered)
    for avoid in ((), (avoided,), (*fitting,)):
        hop = table.next_hop(key, avoid)
        allowed = fitting.difference(avoid)
        assert (hop and hop.node_id) == (closest(key, allowed) if allowed else None)


def test_the_same_peer_may_move() -> None:
    table = empty_table(0)
    assert table.offer(Peer(ID_SPACE - 1, "here"))
    assert not table.offer(Peer(ID_SPACE - 1, "there"))
    assert [peer.address for peer in table] == ["there"]


def test_a_full_cell_takes_a_clearly_nearer_peer_for_its_farthest() -> None:
    proximity = Proximity()
    table = RoutingTable(Peer(0, "me"), proximity, random.Random(1))
    near, far, nearer, unmeasured = (Peer(ID_SPACE - 1 - number, f"peer-{number}") for number in range(4))
    table.offer(near)
    table.offer(far)
    proximity.observe(near, 0.010)
    proximity.observe(far, 0.040)
    assert not table.offer(unmeasured)
    proximity.observe(nearer, 0.039)
    assert not table.offer(nearer), "the difference may be noise"
    proximity.observe(nearer, 0.020)
    assert table.offer(nearer)
    assert set(table) == {near, nearer}
    assert not table.offer(far)
    table.check()


def test_among_newcomers_at_no_known_distance_chance_decides() -> None:
    kept: Counter[int] = Counter()
    for seed in range(100):
        table = empty_table(0, seed)
        for number in range(1, 11):
            table.offer(Peer(ID_SPACE - number, "peer"), by_chance=True)
        kept.update(ID_SPACE - peer.node_id for peer in table)
        table.check()
    assert sum(kept.values()) == 100 * CELL_PEERS_MAX
    assert max(kept.values()) < 50, kept


@given(st.sets(st.integers(0, ID_SPACE - 1), min_size=1, max_size=40), ids, st.booleans())
def test_routing_gets_closer_or_ends(known: set[int], key: int, sparse: bool) -> None:
    """Every hop shares a longer prefix, or no shorter one and is closer, or is the closest there is."""
    owner = Peer(OWNER, "owner")
    leaves, table = LeafSet(owner, 4), RoutingTable(owner, Proximity(), random.Random(1))
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
