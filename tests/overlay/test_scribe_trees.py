"""Trees of whole overlays: one root a key, every subscriber under it, each multicast to all of them once."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlay_oracle import Groups, check_all, join_or_start, memory_overlay
from seeds import seeds

from overlay import (
    Attached,
    ChildAdded,
    ChildRemoved,
    EpochTaken,
    Event,
    MemoryNetwork,
    MulticastReceived,
    Node,
    ParentChanged,
    Peer,
    PlaneLatency,
    Simulator,
    UniformLatency,
    closest,
)


def drained(nodes: list[Node], kind: type[Event]) -> list[tuple[int, Event]]:
    return [(node.peer.node_id, event) for node in nodes for event in node.events() if isinstance(event, kind)]


def test_200_groups_over_64_nodes() -> None:
    network, nodes, source = memory_overlay(64, seed=1)
    groups = Groups(nodes, [source.getrandbits(128) for _ in range(200)])
    for node in nodes:
        groups.subscribe_some(node, source.random(), source, 0.0)
    network.deliver_all(0.0)
    assert groups.errors() == []
    check_all(nodes)
    drained(nodes, MulticastReceived)
    for key in groups.subscribers:
        source.choice(nodes).multicast(key, key.to_bytes(16, "big"), 0.0)
    network.deliver_all(0.0)
    received = Counter(drained(nodes, MulticastReceived))
    assert received == Counter(
        (node_id, MulticastReceived(key, key.to_bytes(16, "big")))
        for key, ids in groups.subscribers.items()
        for node_id in ids
    )


def test_unsubscribing_prunes_the_tree() -> None:
    network, nodes, source = memory_overlay(64, seed=2)
    groups = Groups(nodes, [source.getrandbits(128) for _ in range(50)])
    for node in nodes:
        groups.subscribe_some(node, 0.5, source, 0.0)
    network.deliver_all(0.0)
    for key, ids in groups.subscribers.items():
        for node in nodes:
            if node.peer.node_id in ids and source.random() < 0.8:
                groups.unsubscribe(node, key, 0.0)
    network.deliver_all(0.0)
    assert groups.errors() == []
    for key in groups.subscribers:
        for node in nodes:
            groups.unsubscribe(node, key, 0.0)
    network.deliver_all(0.0)
    assert [node.groups for node in nodes] == [()] * 64
    check_all(nodes)


def test_a_multicast_to_nobody_is_counted() -> None:
    network, nodes, _ = memory_overlay(5, seed=3)
    nodes[0].multicast(77, b"hello?", 0.0)
    network.deliver_all(0.0)
    assert drained(nodes, MulticastReceived) == []
    assert sum(node.statistics().dropped for node in nodes) == 1


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([1, 2, 3, 9, 30]),
    subscribe=st.floats(0, 1),
    unsubscribe=st.floats(0, 0.5),
    settle=st.floats(0, 1),
)
def test_groups_made_before_during_and_after_joins_end_as_one_tree_each(
    seed: int, size: int, subscribe: float, unsubscribe: float, settle: float
) -> None:
    """Without loss no timer is needed for it."""
    source = random.Random(seed)
    network = MemoryNetwork()
    groups = Groups([], [source.getrandbits(128) for _ in range(20)])
    for number in range(size):
        node = Node(Peer(source.getrandbits(128), f"memory-{number}"), random=source)
        network.add(node)
        join_or_start(node, groups.nodes, source, 0.0)
        groups.nodes.append(node)
        for key in groups.subscribers:
            if source.random() < subscribe:
                groups.subscribe(source.choice(groups.nodes), key, 0.0)
            if source.random() < unsubscribe:
                groups.unsubscribe(source.choice(groups.nodes), key, 0.0)
        if source.random() < settle:
            network.deliver_all(0.0)
            check_all(groups.nodes)
    network.deliver_all(0.0)
    assert all(node.is_active for node in groups.nodes)
    check_all(groups.nodes)
    assert groups.errors() == []


@pytest.mark.parametrize("seed", seeds(1, slow=[0, 2, 3, 4, 5, 6, 7]))
def test_trees_converge_in_spite_of_loss_delays_and_joins(seed: int) -> None:
    source = random.Random(seed)
    loss = source.choice([0.1, 0.3])
    latency = source.choice([UniformLatency(source, 0.001, 0.3), PlaneLatency(source, side_s=0.5)])
    simulator = Simulator(source, loss=loss, latency=latency)
    groups = Groups([], [source.getrandbits(128) for _ in range(30)])
    for _ in range(source.choice([5, 20, 40])):
        node = simulator.add_node()
        join_or_start(node, groups.nodes, source, simulator.now)
        groups.nodes.append(node)
        groups.subscribe_some(source.choice(groups.nodes), 0.3, source, simulator.now)
        for key, ids in groups.subscribers.items():
            if ids and source.random() < 0.1:
                leaving = next(node for node in groups.nodes if node.peer.node_id in ids)
                groups.unsubscribe(leaving, key, simulator.now)
        simulator.run(simulator.now + source.choice([0.0, 0.05, 1.0]))
        check_all(groups.nodes)
    while groups.errors() and simulator.now < 300.0:
        simulator.run(simulator.now + 1.0)
        check_all(groups.nodes)
    print(f"seed {seed}, loss {loss}: one tree a group after {simulator.now:.1f} s")
    assert groups.errors() == []
    assert_multicasts_reach_everyone(simulator, groups, source)


def assert_multicasts_reach_everyone(simulator: Simulator, groups: Groups, source: random.Random) -> None:
    simulator.loss = 0.0
    simulator.run(simulator.now + 8.0)
    assert groups.errors() == [], "whoever was taken for dead because of losses is back"
    received: Counter[tuple[int, int]] = Counter()
    simulator.on_event = lambda _now, node, event: (
        received.update([(node.peer.node_id, event.group)]) if isinstance(event, MulticastReceived) else None
    )
    for key in groups.subscribers:
        source.choice(groups.nodes).multicast(key, b"", simulator.now)
    simulator.run(simulator.now + 8.0)
    assert received == Counter((node_id, key) for key, ids in groups.subscribers.items() for node_id in ids)


def test_a_closer_newcomer_takes_the_tree_over() -> None:
    network, nodes, source = memory_overlay(20, seed=4)
    key = source.getrandbits(128)
    for node in nodes:
        node.subscribe(key, 0.0)
    network.deliver_all(0.0)
    old_root = next(node for node in nodes if node.is_root(key))
    drained(nodes, ParentChanged)
    newcomer = Node(Peer(key, "newcomer"), random=source)
    network.add(newcomer)
    newcomer.join(nodes[0].peer, 0.0)
    network.deliver_all(0.0)
    assert newcomer.is_root(key)
    assert newcomer.is_attached(key)
    assert not old_root.is_root(key)
    assert old_root.parent(key) == newcomer.peer
    assert newcomer.children(key) == (old_root.peer,)
    assert drained([old_root], ParentChanged) == [(old_root.peer.node_id, ParentChanged(key, newcomer.peer))]
    assert drained([newcomer], ChildAdded) == [(newcomer.peer.node_id, ChildAdded(key, old_root.peer))]
    everyone = Groups([*nodes, newcomer], [key])
    everyone.subscribers[key] = {node.peer.node_id for node in nodes}
    assert everyone.errors() == []


def test_events_tell_the_story_of_a_tree() -> None:
    network, nodes, _ = memory_overlay(2, seed=5)
    key = nodes[0].peer.node_id
    drained(nodes, Event)  # type: ignore[arg-type]
    assert closest(key, [node.peer.node_id for node in nodes]) == key
    nodes[1].subscribe(key, 0.0)
    network.deliver_all(0.0)
    assert nodes[0].events() == [ChildAdded(key, nodes[1].peer), EpochTaken(key, 1), Attached(key)]
    assert nodes[1].events() == [ParentChanged(key, nodes[0].peer), Attached(key)]
    nodes[1].multicast(key, b"news", 0.0)
    network.deliver_all(0.0)
    assert nodes[0].events() == []
    assert nodes[1].events() == [MulticastReceived(key, b"news")]
    nodes[1].unsubscribe(key, 0.0)
    network.deliver_all(0.0)
    assert nodes[0].events() == [ChildRemoved(key, nodes[1].peer)]
    assert nodes[0].groups == nodes[1].groups == ()
