import random

import pytest
from overlay_oracle import memory_overlay

from overlay import DeliveryLimitError, MemoryNetwork, MessageReceived, Node, Peer, PeerFailed


def test_messages_arrive_in_the_order_they_were_sent() -> None:
    network, nodes, _ = memory_overlay(2, seed=1)
    for number in range(50):
        nodes[0].send(nodes[1].peer, bytes([number]), 0.0)
    nodes[1].events()
    network.deliver_all(0.0)
    assert nodes[1].events() == [MessageReceived(nodes[0].peer, bytes([number])) for number in range(50)]


def test_a_payload_of_tens_of_megabytes_passes() -> None:
    network, nodes, _ = memory_overlay(2, seed=1)
    payload = random.Random(1).randbytes(40 << 20)
    nodes[1].events()
    nodes[0].send(nodes[1].peer, payload, 0.0)
    network.deliver_all(0.0)
    assert nodes[1].events() == [MessageReceived(nodes[0].peer, payload)]


def test_too_many_deliveries_are_an_error_that_names_the_bound() -> None:
    network, nodes, _ = memory_overlay(2, seed=1)
    for _ in range(5):
        nodes[0].send(nodes[1].peer, b"", 0.0)
    with pytest.raises(DeliveryLimitError, match="after 4 deliveries"):
        network.deliver_all(0.0, deliveries_max=4)


def test_a_quiet_network_stays_quiet_but_for_pings_and_the_periodic_exchange() -> None:
    network, nodes, source = memory_overlay(20, seed=2)
    for key in [source.getrandbits(128) for _ in range(50)]:
        for node in nodes[:10]:
            node.subscribe(key, 0.0)
    network.deliver_all(0.0)
    assert network.deliver_all(0.0) == 0
    deliveries, start = 0, network.now
    while network.now < start + 50.0:
        deliveries += network.deliver_all(network.advance())
    messages_per_node_s = deliveries / len(nodes) / (network.now - start)
    # Per 5 s: two probes and a row request with answers, and a digest to each tree neighbour: everyone here.
    # Per second: a ping or an answer to each tree neighbour.
    assert messages_per_node_s < (6 + 19) / 5 * 1.2 + 19


def test_the_clock_moves_to_the_next_timer() -> None:
    network, nodes, _ = memory_overlay(3, seed=1)
    due = min(timer for node in nodes if (timer := node.next_timer()) is not None)
    assert network.advance() == due == network.now
    assert MemoryNetwork().advance() == 0.0


def test_ids_are_unique_and_unknown_receivers_are_counted() -> None:
    network, nodes, _ = memory_overlay(1, seed=1)
    with pytest.raises(ValueError, match="already a node"):
        network.add(Node(nodes[0].peer, random=random.Random(1)))
    nodes[0].events()
    nodes[0].send(Peer(7, "nowhere"), b"", 0.0)
    assert network.deliver_all(0.0) == 0
    assert network.undeliverable == 1
    assert nodes[0].events() == [PeerFailed(Peer(7, "nowhere"))]
