"""Measurements of proximity, and their effect on the routing table."""

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import hypot, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlay_oracle import check_all, leaf_set_errors, memory_overlay, simulated_overlay
from seeds import seeds

from overlay import (
    ID_SPACE,
    Node,
    Peer,
    PlaneLatency,
    Simulator,
    UniformLatency,
    closest,
    digit,
    route_path,
    shared_prefix_length,
)
from overlay.core.outbox import CODEC
from overlay.pastry.membership.table_maintenance import BURST_ECHOES, ECHOES_OPEN_MAX, SURVEY_BURST_S
from overlay.pastry.tables.candidates import CANDIDATES_MAX
from overlay.pastry.tables.proximity import Proximity
from overlay.pastry.tables.routing_table import CELL_PEERS_MAX
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.messages import Announcement, Echo, EchoReply, JoinReply, OverlayMessage, Pong, RowAnswer, RowRequest

times = st.floats(0.0, 10.0)

PONG = Pong(token=0, incarnation=0, edges=0)


def sent(node: Node) -> list[tuple[Peer, OverlayMessage]]:
    return [(peer, CODEC.decode(data)) for peer, data in node.messages_to_send()]


def tell(node: Node, sender: Peer, message: OverlayMessage, now: float) -> None:
    node.receive(sender, CODEC.encode(message), now)


def active_node(*peers: Peer) -> Node:
    """A node that has heard of some peers, and has not yet measured any."""
    node = Node(Peer(0, "me"), random=random.Random(1))
    node.start(0.0)
    for peer in peers:
        tell(node, peer, Announcement(), 0.0)
    sent(node)
    return node


def echoes(node: Node) -> dict[Peer, Echo]:
    return {peer: message for peer, message in sent(node) if isinstance(message, Echo)}


@given(st.lists(times, min_size=1, max_size=30))
def test_an_estimate_stays_within_what_was_measured_and_follows_the_minimum(measured: list[float]) -> None:
    proximity, peer = Proximity(), Peer(1, "peer")
    for round_trip_s in measured:
        assert proximity.observe(peer, round_trip_s) <= round_trip_s
    estimate = proximity.round_trip_s(1)
    assert min(measured) <= estimate + 1e-9
    assert estimate <= max(measured)


def test_a_route_that_has_become_longer_for_good_is_noticed() -> None:
    proximity, peer = Proximity(), Peer(1, "peer")
    proximity.observe(peer, 0.010)
    assert proximity.observe(peer, 0.100) < 0.03
    assert max(proximity.observe(peer, 0.100) for _ in range(40)) > 0.095


@given(st.lists(st.tuples(st.integers(0, 9), times), max_size=40))
def test_estimates_are_bounded(measured: list[tuple[int, float]]) -> None:
    proximity = Proximity(size=4)
    for number, round_trip_s in measured:
        proximity.observe(Peer(number, "peer"), round_trip_s)
        proximity.check()
    latest = dict.fromkeys(reversed([number for number, _ in measured]))
    assert all(number in proximity for number in list(latest)[:4])


@given(times, times)
def test_of_two_at_most_one_is_clearly_nearer(here: float, there: float) -> None:
    proximity = Proximity()
    proximity.observe(Peer(1, "here"), here)
    proximity.observe(Peer(2, "there"), there)
    assert not (proximity.is_clearly_nearer(1, 2) and proximity.is_clearly_nearer(2, 1))
    assert not proximity.is_clearly_nearer(1, 2) or here < there


def test_peers_that_were_heard_of_are_measured_and_the_near_ones_take_the_cell() -> None:
    peers = [Peer((0xF << 124) + number, f"peer-{number}") for number in range(8)]
    node = active_node(*peers)
    now = 0.0
    for _ in range(10):
        now += 1.5
        node.handle_timer(now)
        for peer, echo in echoes(node).items():
            tell(node, peer, EchoReply(token=echo.token), now + 0.010 * (1 + peers.index(peer)))
    assert [peer for peer in node.routing_table if peer in peers[:2]] == list(node.routing_table)
    node.check()


def test_measuring_ends_with_the_burst_and_goes_on_slowly() -> None:
    node = active_node(*(Peer(number << 100, f"peer-{number}") for number in range(1, 200)))
    by_second = []
    for second in range(1, 60):
        node.handle_timer(second * 1.25)
        by_second.append(len(echoes(node)))
    burst = int(SURVEY_BURST_S / 1.25)
    assert max(by_second) <= BURST_ECHOES
    assert sum(by_second[:10]) > BURST_ECHOES * 5
    assert sum(by_second[burst:]) <= 15


def test_open_echoes_and_candidates_are_bounded() -> None:
    node = active_node()
    for number in range(1, 2 * CANDIDATES_MAX):
        tell(node, Peer(number << 100, f"peer-{number}"), Echo(token=1), 0.5)
    assert sent(node)[0][1] == EchoReply(token=1)
    for step in range(1000):
        node.handle_timer(step / 100)
        node.check()
    assert len(echoes(node)) <= 10 * BURST_ECHOES + ECHOES_OPEN_MAX


def test_an_answer_nobody_asked_for_measures_nothing() -> None:
    peer, stranger = Peer(1 << 120, "peer"), Peer(2 << 120, "stranger")
    node = active_node(peer)
    node.handle_timer(1.5)
    token = echoes(node)[peer].token
    before = node.statistics().refused
    for sender, wrong in ((stranger, token), (peer, token ^ 1)):
        tell(node, sender, EchoReply(token=wrong), 1.5)
    assert node.statistics().refused == before + 2
    tell(node, peer, EchoReply(token=token), 1.6)
    tell(node, peer, EchoReply(token=token), 1.7)
    assert node.statistics().refused == before + 3


def leaves() -> list[Peer]:
    """Sixteen peers so near that nobody else gets into the leaf set."""
    gaps = [sign * number << 100 for sign in (1, -1) for number in range(1, 9)]
    return [Peer(gap % ID_SPACE, f"leaf-{gap}") for gap in gaps]


def test_an_entry_that_does_not_send_echoes_back_is_found_to_have_failed() -> None:
    dead = Peer(1 << 127, "dead")
    node = active_node(*leaves(), dead)
    assert dead not in node.leaf_set
    now = 0.0
    while dead in node.routing_table:
        now += 0.25
        assert now < 300.0
        node.handle_timer(now)
        for peer, message in sent(node):
            if peer != dead:
                tell(node, peer, EchoReply(token=message.token) if isinstance(message, Echo) else PONG, now)
    assert set(leaves()) == set(node.leaf_set)


def test_whoever_is_gone_is_not_measured() -> None:
    peer, other = Peer(1 << 120, "peer"), Peer(2 << 120, "other")
    node = active_node(peer, other)
    node.unreachable(peer, 0.1)
    node.handle_timer(1.5)
    assert set(echoes(node)) == {other}


def test_a_suspect_is_no_candidate() -> None:
    suspects, peers = {2}, [Peer(number, f"peer-{number}") for number in (1, 2, 3)]
    tables = PeerTables(Peer(0, "me"), suspects, random.Random(1))
    tables.learn_peers(peers, 0.0)
    suspects.add(3)
    assert [tables.next_candidate(0.0), tables.next_candidate(0.0)] == [peers[0], None]
    assert peers[1] not in tables.routing_table


def test_an_empty_cell_that_a_message_needed_is_asked_for() -> None:
    hop, found = Peer(0x70 << 120, "hop"), Peer(0x8F << 120, "found")
    node = active_node(*leaves(), hop)
    node.route(0x8E << 120, b"", 2.0)
    asked = [(peer, message) for peer, message in sent(node) if isinstance(message, RowRequest)]
    assert [message for _, message in asked] == [RowRequest(row=0)]
    node.route(0x8E << 120, b"", 2.1)
    assert not [message for _, message in sent(node) if isinstance(message, RowRequest)], "once is enough for now"
    tell(node, asked[0][0], RowAnswer(peers=(found,)), 2.2)
    assert node.routing_table.next_hop(0x8E << 120) == found


def test_rows_learnt_at_the_join_do_not_favour_who_is_named_first() -> None:
    row = tuple(Peer((0xF << 124) + number, f"peer-{number}") for number in range(10))
    chosen = set()
    for seed in range(60):
        node = Node(Peer(0, "me"), random=random.Random(seed))
        node.join(row[0], 0.0)
        tell(node, row[0], JoinReply(rows=row, neighbours=(), leaves=()), 0.1)
        chosen.update(node.routing_table)
    assert chosen == set(row)


def length(latency: PlaneLatency, path: Iterable[Peer]) -> float:
    """How long the straight lines of a path are, without what messages take on top by chance."""
    places = [latency.place(peer) for peer in path]
    return sum(hypot(a[0] - b[0], a[1] - b[1]) for a, b in pairwise(places))


def favour(nodes: list[Node]) -> float:
    """How much more often than by pure chance the most popular node stands in the tables of others."""
    named = Counter(peer.node_id for node in nodes for peer in node.routing_table)
    fair: Counter[int] = Counter()
    for node in nodes:
        cells: dict[tuple[int, int], list[int]] = {}
        for other in (other.peer.node_id for other in nodes if other is not node):
            row = shared_prefix_length(node.peer.node_id, other)
            cells.setdefault((row, digit(other, row)), []).append(other)
        for cell in cells.values():
            fair.update(dict.fromkeys(cell, min(1.0, CELL_PEERS_MAX / len(cell))))  # type: ignore[arg-type]
    return max(named[node_id] / fair[node_id] for node_id in named)


@pytest.mark.parametrize(("size", "seconds"), seeds(slow=[(100, 30.0), (256, 40.0)]))
def test_routes_are_short_in_hops_and_in_distance_soon_after_joining(size: int, seconds: float) -> None:
    source, seed = random.Random(size), size
    latency = PlaneLatency(source)
    simulator = Simulator(source, latency=latency)
    nodes = simulated_overlay(simulator, size, source)
    simulator.run(simulator.now + seconds)
    by_id = {node.peer.node_id: node for node in nodes}
    hops, routed, direct = 0, 0.0, 0.0
    for _ in range(2000):
        origin, key = source.choice(nodes), source.getrandbits(128)
        path = route_path(origin.peer, key, lambda peer: by_id[peer.node_id].tables)
        assert path[-1].node_id == closest(key, by_id)
        hops += len(path) - 1
        routed += length(latency, path)
        direct += length(latency, (path[0], path[-1]))
    print(f"seed {seed}: {hops / 2000:.3f} hops, stretch {routed / direct:.2f}, named {favour(nodes):.1f} times")
    assert hops / 2000 <= 0.95 * log(size, 16)
    assert routed / direct < 1.6
    assert favour(nodes) < 4.0
    assert leaf_set_errors(nodes) == []
    check_all(nodes)


def test_without_differences_in_distance_no_node_is_in_everybodys_table() -> None:
    source = random.Random(3)
    simulator = Simulator(source, latency=UniformLatency(source, 0.001, 0.0012))
    nodes = simulated_overlay(simulator, 80, source)
    simulator.run(simulator.now + 20.0)
    print(f"named {favour(nodes):.1f} times as often as by pure chance")
    assert favour(nodes) < 2.0


def test_proximity_never_shapes_the_leaf_set() -> None:
    _, nodes, _ = memory_overlay(40, seed=1)
    before = [node.leaf_set.members for node in nodes]
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.tables.observe(other.peer, abs(hash(other.peer)) % 1000 / 1000)
    assert [node.leaf_set.members for node in nodes] == before
    assert leaf_set_errors(nodes) == []
