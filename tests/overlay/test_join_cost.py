"""Cost of joins, and its bounds with many joiners."""

from itertools import pairwise
from math import log

import pytest
from overlay_oracle import memory_overlay
from seeds import seeds
from test_overlay_join import node_at, sent, tell

from overlay import (
    Node,
    Peer,
)
from overlay.pastry.membership.join import JOIN_REQUESTS_BURST
from overlay.pastry.membership.membership import JOINER_PROBES_MAX
from overlay.wire.messages import (
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
)


@pytest.mark.parametrize("size", seeds(16, 64, slow=[256]))
def test_a_join_takes_few_messages(size: int) -> None:
    """As many as Pastry's authors count: 3·16·log16(N), everything that anyone sends because of it."""
    network, nodes, source = memory_overlay(size, seed=5)
    for number in range(10):
        before = sum(node.statistics().sent for node in nodes)
        newcomer = node_at(source.getrandbits(128))
        network.add(newcomer)
        newcomer.join(source.choice(nodes).peer, 0.0)
        network.deliver_all(0.0)
        nodes.append(newcomer)
        cost = sum(node.statistics().sent for node in nodes) - before
        print(f"{len(nodes)} nodes, join {number}: {cost} messages")
        assert cost <= 3 * 16 * log(len(nodes), 16)
        # Its own count has all but the hops between its contact and who answers, and their acknowledgements.
        assert cost - 8 <= newcomer.statistics().join_messages <= cost


def test_a_joiner_probes_those_who_belong_in_its_leaf_set_and_hardly_anyone_else() -> None:
    network, nodes, source = memory_overlay(60, seed=4)
    newcomer = node_at(source.getrandbits(128))
    network.add(newcomer)
    newcomer.join(nodes[0].peer, 0.0)
    before = sum(node.statistics().sent_repair for node in nodes)
    network.deliver_all(0.0)
    probes = newcomer.statistics().sent_repair
    answers = sum(node.statistics().sent_repair for node in nodes) - before
    assert probes == answers
    assert 16 <= probes <= 17, "the sixteen, and perhaps who had only just to go"


def answer_probes(node: Node, leaves: tuple[Peer, ...], silent: Peer) -> list[set[Peer]]:
    """All but one answer what they are asked, until nobody new is asked; return who was asked together."""
    asked: list[set[Peer]] = []
    while probed := {peer for peer, message in sent(node) if isinstance(message, LeafSetProbe)}:
        asked.append(probed)
        for peer in probed - {silent}:
            tell(node, peer, LeafSetAnswer(leaves=leaves))
    return asked


def test_a_joiner_asks_the_nearest_first_and_who_was_kept_out_when_one_of_them_is_silent() -> None:
    node = node_at(1 << 127)
    near = [Peer((1 << 127) + sign * number, f"near-{sign}-{number}") for number in range(1, 10) for sign in (1, -1)]
    *nearest, above, below = near
    node.join(near[0], 0.0)
    sent(node)
    tell(node, near[0], JoinReply(rows=(), neighbours=(), leaves=tuple(near[1:16])))
    first, *later = answer_probes(node, tuple(near[2:]), silent=near[3])
    assert first == set(near[:JOINER_PROBES_MAX])
    assert set().union(first, *later) == set(nearest)
    node.unreachable(near[3], 0.0)
    (probed,) = answer_probes(node, tuple(near[2:]), silent=near[3])
    assert probed <= {above, below}
    assert node.is_active
    node.check()


def test_joins_beyond_a_rate_are_refused_and_come_again() -> None:
    node = node_at(5)
    node.start(0.0)
    for number in range(3 * JOIN_REQUESTS_BURST):
        joiner = Peer(number << 100 | 1, "joiner")
        request = JoinRequest(joiner=joiner, hops=0, next_row=0, rows=(), neighbours=(), message_id=number)
        tell(node, joiner, request)
    assert sum(isinstance(message, JoinReply) for _, message in sent(node)) == JOIN_REQUESTS_BURST
    assert node.statistics().refused == 2 * JOIN_REQUESTS_BURST
    tell(node, joiner, request, 1.0)
    assert sum(isinstance(message, JoinReply) for _, message in sent(node)) == 1


def test_a_joiner_without_an_answer_asks_less_and_less_often() -> None:
    node, contact, now = node_at(5), Peer(6, "contact"), 0.0
    node.join(contact, now)
    times = [now]
    for _ in range(12):
        now = node.next_timer() or 0.0
        node.handle_timer(now)
        times.append(now)
    assert len(sent(node)) == 13
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert 0.75 <= pauses[0] <= 1.25
    assert all(1.5 <= pause <= 2.5 for pause in pauses[6:])


def test_of_a_joiner_one_request_is_held() -> None:
    node, contact, joiner = node_at(5), Peer(6, "contact"), Peer(7, "joiner")
    node.join(contact, 0.0)
    for second in range(100):
        tell(
            node,
            joiner,
            JoinRequest(joiner=joiner, hops=0, next_row=0, rows=(), neighbours=(), message_id=second),
            float(second),
        )
    assert (node.statistics().duplicates, node.statistics().dropped) == (99, 0)
