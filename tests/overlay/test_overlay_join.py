import random

import pytest
from overlay_oracle import check_all, leaf_set_errors, memory_overlay

from overlay import (
    Delivered,
    Joined,
    LeafSetChanged,
    MemoryNetwork,
    MessageReceived,
    Node,
    Peer,
    PeerFailed,
    ProtocolError,
    closest,
)
from overlay.core.outbox import CODEC
from overlay.pastry.forwarding.held import HELD_MESSAGES_MAX
from overlay.pastry.membership.join import PROBE_ATTEMPTS_MAX, TRANSITIONS, JoinEvent, JoinState, next_state
from overlay.wire.messages import (
    Absent,
    Announcement,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
    OverlayMessage,
    Ping,
    Pong,
    RowAnswer,
    RowRequest,
    Suspect,
)

PING = Ping(token=1, incarnation=0, edges=0)


def node_at(node_id: int) -> Node:
    return Node(Peer(node_id, f"node-{node_id}"), random=random.Random(node_id))


def sent(node: Node) -> list[tuple[Peer, OverlayMessage]]:
    return [(peer, CODEC.decode(data)) for peer, data in node.messages_to_send()]


def tell(node: Node, sender: Peer, message: OverlayMessage, now: float = 0.0) -> None:
    node.receive(sender, CODEC.encode(message), now)


def sent_until(node: Node, until: float) -> list[tuple[Peer, OverlayMessage]]:
    """Handle timers as they become due; return all that was sent. All peers answer pings, and nothing else."""
    messages = []
    while (now := node.next_timer()) is not None and now <= until:
        node.handle_timer(now)
        node.check()
        for peer, message in sent(node):
            messages.append((peer, message))
            if isinstance(message, Ping):
                tell(node, peer, Pong(token=message.token, incarnation=0, edges=message.edges), now)
    return messages


@pytest.mark.parametrize("size", [1, 2, 3, 17, 40])
def test_nodes_that_join_one_by_one_know_their_neighbours(size: int) -> None:
    _, nodes, _ = memory_overlay(size, seed=size)
    assert all(node.is_active for node in nodes)
    assert leaf_set_errors(nodes) == []
    check_all(nodes)
    for node in nodes:
        assert [event for event in node.events() if isinstance(event, Joined)] == [Joined()]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 40])
def test_every_key_is_delivered_at_its_closest_node_once(size: int) -> None:
    network, nodes, source = memory_overlay(size, seed=size)
    ids = [node.peer.node_id for node in nodes]
    origins = {}
    for number in range(200):
        origin, key = source.choice(nodes), source.getrandbits(128)
        origin.route(key, f"payload {number}".encode(), 0.0)
        origins[key] = (origin.peer, f"payload {number}".encode())
    network.deliver_all(0.0)
    delivered = [(node, event) for node in nodes for event in node.events() if isinstance(event, Delivered)]
    assert len(delivered) == len(origins)
    for node, event in delivered:
        assert node.peer.node_id == closest(event.key, ids)
        assert node.is_root(event.key)
        assert origins[event.key] == (event.origin, event.payload)


def test_who_is_in_a_table_knows_whose_table_it_is_in() -> None:
    _, nodes, _ = memory_overlay(64, seed=6)
    by_id = {node.peer.node_id: node for node in nodes}
    for node in nodes:
        for peer in node.routing_table:
            other = by_id[peer.node_id]
            assert node.peer.node_id in other.leaf_set or other.routing_table.next_hop(node.peer.node_id)


def test_an_active_node_compares_leaf_sets_with_its_neighbours_from_time_to_time() -> None:
    node = node_at(50)
    node.start(0.0)
    for node_id in (30, 40, 60, 70):
        tell(node, Peer(node_id, "peer"), Announcement())
    sent(node)
    probe = LeafSetProbe(leaves=node.leaf_set.members)
    assert {
        (peer.node_id, message) for peer, message in sent_until(node, 6.5) if isinstance(message, LeafSetProbe)
    } == {
        (40, probe),
        (60, probe),
    }
    assert sent_until(node, 20.0).count((Peer(40, "peer"), probe)) >= 2


def test_an_active_node_fills_its_table_from_the_rows_of_others() -> None:
    node, peer, unknown = node_at(50), Peer(8 << 124, "peer"), Peer(9 << 124, "unknown")
    node.start(0.0)
    tell(node, peer, Announcement())
    sent(node)
    assert (peer, RowRequest(row=0)) in sent_until(node, 8.0)
    tell(node, peer, RowAnswer(peers=(unknown, peer, node.peer)), 8.0)
    assert set(node.routing_table) == {peer, unknown}
    tell(node, unknown, RowRequest(row=0), 8.0)
    assert sent(node) == [(unknown, RowAnswer(peers=(peer, unknown)))]


def test_a_node_delivers_nothing_before_all_it_probed_have_answered() -> None:
    joiner, contact, other = node_at(50), Peer(10, "contact"), Peer(90, "other")
    joiner.join(contact, 0.0)
    sent(joiner)
    joiner.route(49, b"early", 0.0)
    joiner.subscribe(51, 0.0)
    tell(joiner, contact, JoinReply(rows=(), neighbours=(), leaves=(other,)))
    assert {peer for peer, message in sent(joiner) if isinstance(message, LeafSetProbe)} == {contact, other}
    tell(joiner, contact, LeafSetAnswer(leaves=(other, joiner.peer)))
    assert not joiner.is_active
    assert not joiner.is_root(50)
    assert joiner.events() == []
    tell(joiner, other, LeafSetAnswer(leaves=(contact, joiner.peer)))
    assert joiner.is_active
    assert joiner.events()[0] == Joined()
    joiner.check()


def test_held_messages_are_delivered_or_passed_on_after_the_join() -> None:
    joiner, contact = node_at(50), Peer(10, "contact")
    joiner.join(contact, 0.0)
    joiner.route(49, b"mine", 0.0)
    joiner.route(11, b"the contact's", 0.0)
    sent(joiner)
    tell(joiner, contact, JoinReply(rows=(), neighbours=(), leaves=()))
    tell(joiner, contact, LeafSetAnswer(leaves=()))
    assert joiner.events() == [Joined(), LeafSetChanged(), Delivered(49, b"mine", joiner.peer)]
    assert any(peer == contact and getattr(message, "key", None) == 11 for peer, message in sent(joiner))


def test_what_is_held_is_bounded_and_the_rest_is_counted() -> None:
    joiner = node_at(50)
    joiner.join(Peer(10, "contact"), 0.0)
    for _ in range(HELD_MESSAGES_MAX + 7):
        joiner.route(49, b"early", 0.0)
    assert joiner.statistics().dropped == 7
    joiner.check()


def test_held_bytes_are_bounded_too() -> None:
    joiner = node_at(50)
    joiner.join(Peer(10, "contact"), 0.0)
    megabytes = bytes(30 << 20)
    for _ in range(3):
        joiner.route(49, megabytes, 0.0)
    assert joiner.statistics().dropped == 1
    joiner.check()


def test_requests_and_probes_are_repeated_until_answered() -> None:
    joiner, contact, silent = node_at(50), Peer(10, "contact"), Peer(90, "silent")
    joiner.join(contact, 0.0)
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(contact, JoinRequest)]
    joiner.handle_timer(0.0)
    assert sent(joiner) == []
    joiner.handle_timer(joiner.next_timer() or 0.0)
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(contact, JoinRequest)]
    now = joiner.next_timer() or 0.0
    tell(joiner, contact, JoinReply(rows=(), neighbours=(), leaves=(silent,)), now)
    tell(joiner, contact, LeafSetAnswer(leaves=(silent,)), now)
    probes = 0
    for _ in range(2 * PROBE_ATTEMPTS_MAX):
        probes += sum(peer == silent and isinstance(message, LeafSetProbe) for peer, message in sent(joiner))
        now = joiner.next_timer() or now
        joiner.handle_timer(now)
        joiner.check()
    assert probes == PROBE_ATTEMPTS_MAX
    assert joiner.is_active
    assert silent.node_id not in joiner.leaf_set


def test_a_joiner_denies_that_it_is_a_member_and_asks_whoever_believes_that_it_is() -> None:
    """They mean the process of the same id that was there before."""
    joiner, contact, believer = node_at(50), Peer(10, "contact"), Peer(90, "believer")
    joiner.join(contact, 0.0)
    sent(joiner)
    for message in (LeafSetProbe(leaves=()), PING, Suspect(peer=joiner.peer.node_id, incarnation=0)):
        tell(joiner, believer, message)
        assert sent(joiner) == [(believer, Absent())]
    assert believer.node_id not in joiner.leaf_set
    joiner.handle_timer(2.0)
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(believer, JoinRequest)]


def test_who_denies_that_it_is_a_member_is_dropped_everywhere() -> None:
    node, peer = node_at(50), Peer(60, "peer")
    node.start(0.0)
    tell(node, peer, Announcement())
    node.subscribe(61, 0.0)
    node.events()
    tell(node, peer, Absent())
    node.check()
    assert (len(node.leaf_set), len(node.routing_table)) == (0, 0)
    assert node.is_root(61)
    assert PeerFailed(peer) in node.events()
    tell(node, peer, LeafSetProbe(leaves=()))
    assert peer.node_id in node.leaf_set


def test_a_joiner_may_try_another_contact() -> None:
    joiner, silent, contact = node_at(50), Peer(10, "silent"), Peer(90, "contact")
    joiner.join(silent, 0.0)
    joiner.join(contact, 0.5)
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(silent, JoinRequest), (contact, JoinRequest)]
    joiner.handle_timer(2.0)
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(contact, JoinRequest)]
    tell(joiner, contact, JoinReply(rows=(), neighbours=(), leaves=()), 2.0)
    joiner.join(silent, 2.0)
    tell(joiner, contact, LeafSetAnswer(leaves=()), 2.0)
    assert joiner.is_active
    joiner.check()


def test_a_joiner_that_nobody_answers_any_more_is_not_alone_in_a_new_ring() -> None:
    joiner, contact = node_at(50), Peer(10, "contact")
    joiner.join(contact, 0.0)
    tell(joiner, contact, JoinReply(rows=(), neighbours=(), leaves=(Peer(90, "other"),)))
    joiner.unreachable(contact, 0.0)
    joiner.check()
    assert not joiner.is_active
    sent(joiner)
    joiner.unreachable(Peer(90, "other"), 0.0)
    joiner.check()
    assert not joiner.is_active
    assert [(peer, type(message)) for peer, message in sent(joiner)] == [(contact, JoinRequest)]


def test_a_peer_named_by_others_is_probed_before_it_is_believed() -> None:
    node = node_at(50)
    node.start(0.0)
    stranger = Peer(52, "stranger")
    tell(node, Peer(60, "neighbour"), LeafSetProbe(leaves=(stranger,)))
    assert 52 not in node.leaf_set
    assert any(peer == stranger and isinstance(message, LeafSetProbe) for peer, message in sent(node))
    tell(node, stranger, LeafSetAnswer(leaves=()))
    assert 52 in node.leaf_set


def test_the_table_of_states_refuses_what_is_not_in_it() -> None:
    for state in JoinState:
        for event in JoinEvent:
            if (state, event) not in TRANSITIONS:
                with pytest.raises(ProtocolError, match=event.name):
                    next_state(state, event)
    assert set(TRANSITIONS.values()) == set(JoinState)
    assert {event for state, event in TRANSITIONS if TRANSITIONS[state, event] is JoinState.IDLE} == {
        JoinEvent.LEAVE_CALLED
    }


def test_a_node_starts_or_joins_once() -> None:
    node = node_at(1)
    with pytest.raises(ProtocolError, match="through itself"):
        node.join(node.peer, 0.0)
    node.start(0.0)
    with pytest.raises(ProtocolError, match="already started or joined"):
        node.start(0.0)
    with pytest.raises(ProtocolError, match="already started or joined"):
        node.join(Peer(2, "other"), 0.0)


def test_messages_to_oneself_do_not_travel() -> None:
    node = node_at(1)
    node.start(0.0)
    node.send(node.peer, b"note", 0.0)
    node.route(99, b"routed", 0.0)
    assert node.events() == [
        Joined(),
        MessageReceived(node.peer, b"note"),
        Delivered(99, b"routed", node.peer),
    ]
    assert node.messages_to_send() == []


def test_payloads_and_keys_out_of_bounds_are_refused() -> None:
    node = node_at(1)
    node.start(0.0)
    with pytest.raises(ProtocolError, match="over the limit"):
        node.route(1, bytes((64 << 20) + 1), 0.0)
    for key in (-1, 2**128):
        with pytest.raises(ValueError, match="an id is"):
            node.route(key, b"", 0.0)


def test_nodes_that_join_at_once_through_one_contact_all_get_in() -> None:
    source = random.Random(3)
    network = MemoryNetwork()
    nodes = [node_at(source.getrandbits(128)) for _ in range(40)]
    for node in nodes:
        network.add(node)
    nodes[0].start(0.0)
    for node in nodes[1:]:
        node.join(nodes[0].peer, 0.0)
    network.deliver_all(0.0)
    for _ in range(200):
        if all(node.is_active for node in nodes) and not leaf_set_errors(nodes):
            break
        network.deliver_all(network.advance())
    assert leaf_set_errors(nodes) == []
    check_all(nodes)
