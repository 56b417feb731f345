"""Questions to whoever is closest to a key, and their answers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlay_oracle import check_all, memory_overlay, simulated_overlay
from seeds import seeds

from overlay import (
    Delivered,
    Event,
    Id,
    MemoryNetwork,
    Node,
    Peer,
    Requested,
    RequestFailed,
    Responded,
    Simulator,
    closest,
)
from overlay.core.outbox import CODEC
from overlay.pastry.forwarding.requests import ANSWERS_MAX, REQUESTS_OPEN_MAX, Answers
from overlay.wire.messages import Announcement, Response, Route

KEY = 8 << 124


class Owners:
    """The programs the nodes live in: they answer every request with its payload turned round."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, Requested]] = []
        self.told: list[tuple[int, Responded | RequestFailed]] = []

    def __call__(self, now: float, node: Node, event: Event) -> None:
        if isinstance(event, Requested):
            self.applied.append((node.peer.node_id, event))
            node.respond(event, event.payload[::-1], now)
        elif isinstance(event, Responded | RequestFailed):
            self.told.append((node.peer.node_id, event))


def look(network: MemoryNetwork, owners: Owners, now: float = 0.0) -> None:
    """Carry messages and let the owners act on what comes, until all is quiet."""
    while network.deliver_all(now) or any(_drain(node, owners, now) for node in network.nodes):
        pass


def _drain(node: Node, owners: Owners, now: float) -> bool:
    events = node.events()
    for event in events:
        owners(now, node, event)
    return bool(events)


def asked(node: Node, message: Route, now: float = 1.0) -> list[Event]:
    """What a node's owner hears when a routed message comes in."""
    node.receive(Peer(1 << 126, "hop"), CODEC.encode(message), now)
    return [event for event in node.events() if isinstance(event, Requested | Delivered)]


def alone() -> Node:
    node = Node(Peer(KEY, "me"), random=random.Random(1))
    node.start(0.0)
    node.events()
    return node


def wanting(message_id: int, origin: Peer, payload: bytes = b"?") -> Route:
    return Route(message_id=message_id, key=Id(KEY), origin=origin, hops=1, payload=payload, wants_response=True)


@pytest.mark.parametrize("size", [1, 2, 30])
def test_the_node_closest_to_the_key_answers(size: int) -> None:
    network, nodes, source = memory_overlay(size, seed=size)
    owners, ids = Owners(), [node.peer.node_id for node in nodes]
    tickets = {}
    for number in range(50):
        origin, key = source.choice(nodes), source.getrandbits(128)
        ticket = origin.request(key, b"question %d" % number, 5.0, 0.0)
        tickets[ticket] = (origin.peer.node_id, closest(key, ids), b"question %d" % number)
    look(network, owners)
    assert len(owners.applied) == len(owners.told) == len(tickets)
    for told_id, told in owners.told:
        assert isinstance(told, Responded)
        assert (told_id, told.responder.node_id, told.payload[::-1]) == tickets[told.ticket]
    check_all(nodes)


def test_a_request_fails_at_its_deadline_and_not_before() -> None:
    node, root = Node(Peer(0, "me"), random=random.Random(1)), Peer(KEY, "root")
    node.start(10.0)
    node.receive(root, CODEC.encode(Announcement()), 10.0)
    ticket = node.request(KEY, b"?", 3.0, 10.0)
    for step in range(12):
        node.handle_timer(10.0 + step / 4)
        node.receive(root, CODEC.encode(Announcement()), 10.0 + step / 4)
        assert [event for event in node.events() if isinstance(event, RequestFailed)] == []
    timer = node.next_timer()
    assert timer is not None
    assert timer <= 13.0
    sent = [CODEC.decode(data) for _, data in node.messages_to_send()]
    again = [message for message in sent if isinstance(message, Route)]
    assert {message.message_id for message in again} == {ticket}
    assert len(again) >= 2
    node.handle_timer(13.0)
    (failed,) = (event for event in node.events() if isinstance(event, RequestFailed))
    assert failed == RequestFailed(ticket, "no answer within 3 s")
    node.receive(root, CODEC.encode(Response(ticket=ticket, payload=b"late")), 13.1)
    assert not any(isinstance(event, Responded) for event in node.events())
    node.check()


def test_what_is_asked_twice_is_applied_once_and_answered_twice() -> None:
    node, origin = alone(), Peer(5, "origin")
    (requested,) = asked(node, wanting(7, origin))
    assert isinstance(requested, Requested)
    assert asked(node, wanting(7, origin)) == [], "the owner is still at it"
    node.respond(requested, b"!", 1.0)
    assert asked(node, wanting(7, origin)) == []
    answer = (origin, CODEC.encode(Response(ticket=7, payload=b"!")))
    assert node.messages_to_send().count(answer) == 2
    assert len(asked(node, wanting(7, Peer(6, "another")))) == 1, "ids are the origin's own"


def test_the_first_answer_counts() -> None:
    node = alone()
    ticket = node.request(KEY, b"?", 5.0, 1.0)
    for payload in (b"first", b"second"):
        node.receive(Peer(5, "responder"), CODEC.encode(Response(ticket=ticket, payload=payload)), 1.5)
    node.receive(Peer(5, "responder"), CODEC.encode(Response(ticket=ticket + 1, payload=b"never asked")), 1.5)
    responded = [event for event in node.events() if isinstance(event, Responded)]
    assert responded == [Responded(ticket, b"first", Peer(5, "responder"))]
    assert node.statistics().duplicates == 2


def test_open_requests_are_bounded_and_fail_when_the_node_leaves() -> None:
    node = alone()
    tickets = [node.request(KEY, b"", 5.0, 1.0) for _ in range(REQUESTS_OPEN_MAX + 1)]
    node.check()
    failed = [event.ticket for event in node.events() if isinstance(event, RequestFailed)]
    assert failed == tickets[-1:]
    node.leave(1.0)
    failed = [event.ticket for event in node.events() if isinstance(event, RequestFailed)]
    assert failed == tickets[:-1]
    node.check()


def test_answers_that_are_kept_are_bounded() -> None:
    node = alone()
    for number in range(2 * ANSWERS_MAX):
        (requested,) = asked(node, wanting(number, Peer(5, "origin")))
        assert isinstance(requested, Requested)
        node.respond(requested, bytes(100_000), 1.0)
        node.messages_to_send()
    node.check()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.binary(max_size=4)), max_size=60))
def test_the_latest_answers_are_kept(given_answers: list[tuple[int, int, bytes]]) -> None:
    answers = Answers(count_max=3, bytes_max=8)
    for origin, message_id, payload in given_answers:
        answers.expect(origin, message_id)
        answers.keep(origin, message_id, payload)
        answers.check()
        assert answers.find(origin, message_id) == payload


def test_a_request_of_a_node_that_joins_waits_until_it_is_in() -> None:
    network, nodes, source = memory_overlay(5, seed=2)
    newcomer = Node(Peer(source.getrandbits(128), "newcomer"), random=source)
    network.add(newcomer)
    newcomer.join(nodes[0].peer, 0.0)
    ticket = newcomer.request(KEY, b"ab", 5.0, 0.0)
    owners = Owners()
    look(network, owners)
    (told,) = (event for _, event in owners.told)
    assert isinstance(told, Responded)
    assert (told.ticket, told.payload) == (ticket, b"ba")


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_requests_are_answered_through_loss_and_crashes_and_no_node_applies_one_twice(seed: int) -> None:
    source, owners = random.Random(seed), Owners()
    simulator = Simulator(source, on_event=owners)
    nodes = simulated_overlay(simulator, 40, source)
    simulator.loss = 0.2
    tickets = {}
    for number in range(100):
        origin = source.choice(nodes[10:])
        tickets[origin.request(source.getrandbits(128), b"%d" % number, 20.0, simulator.now)] = origin
        simulator.run(simulator.now + 0.05)
        if number == 20:
            for node in nodes[:4]:
                simulator.crash(node)
    simulator.run(simulator.now + 25.0)
    answered = [told.ticket for _, told in owners.told if isinstance(told, Responded)]
    print(f"seed {seed}: {len(answered)} of {len(tickets)} answered, {len(owners.applied)} times applied")
    assert sorted(answered) == sorted(tickets), f"seed {seed}"
    applied = [(node_id, requested.ticket) for node_id, requested in owners.applied]
    assert len(applied) == len(set(applied)), f"seed {seed}"


def test_a_node_may_change_or_stop_what_it_passes_on() -> None:
    passed: list[tuple[int, bytes, Peer]] = []

    def on_forward(key: Id, payload: bytes, next_hop: Peer) -> bytes | None:
        passed.append((key, payload, next_hop))
        return {b"keep": b"keep", b"change": b"changed"}.get(payload)

    hop, root = Node(Peer(0, "hop"), random=random.Random(1), on_forward=on_forward), alone()
    network = MemoryNetwork()
    network.add(hop)
    network.add(root)
    hop.start(0.0)
    hop.receive(root.peer, CODEC.encode(Announcement()), 0.0)
    for payload in (b"keep", b"change", b"stop"):
        hop.route(KEY, payload, 0.0)
    hop.route(0, b"its own", 0.0)
    network.deliver_all(0.0)
    assert passed == [(KEY, payload, root.peer) for payload in (b"keep", b"change", b"stop")]
    assert [event.payload for event in root.events() if isinstance(event, Delivered)] == [b"keep", b"changed"]
    assert hop.statistics().stopped == 1
