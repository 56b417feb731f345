"""Heartbeats between neighbours in trees, and the limit on children."""

from test_scribe_edges import CHILD, FIRST, KEY, LOW, ROOT, UNCLE, attached, drain, join, joined, member, tell

from overlay import (
    Id,
    Node,
    Peer,
)
from overlay.scribe.group import FAN_OUT_MAX, REPAIR_SLOTS, path_checksum
from overlay.wire.messages import (
    EdgeBuckets,
    GroupDigest,
    GroupJoin,
    GroupLeave,
    GroupRefused,
    OverlayMessage,
    Ping,
    Pong,
)
from overlay.wire.tree_fields import (
    UpwardEdge,
)


def digest(children: tuple[Id, ...] = (), parents: tuple[UpwardEdge, ...] = ()) -> GroupDigest:
    return GroupDigest(buckets=0xFFFF, children=children, parents=parents, asks=False)


def test_digests_mend_edges_the_two_ends_disagree_on() -> None:
    node = attached()
    tell(node, UNCLE, digest(children=(KEY, Id(7))))
    assert drain(node) == [(UNCLE, GroupLeave(groups=(KEY, Id(7))))]
    tell(node, ROOT, digest(children=(KEY,)))
    assert drain(node) == []
    stale = UpwardEdge(KEY, 0, FIRST, ())
    tell(node, LOW, digest(parents=(stale,)))
    assert LOW in node.children(KEY)
    assert drain(node) == [(LOW, joined(KEY, (ROOT.node_id,)))]
    tell(node, LOW, digest(parents=(stale,)))
    assert drain(node) == [(LOW, joined(KEY, (ROOT.node_id,)))]
    tell(node, LOW, digest(parents=(UpwardEdge(KEY, path_checksum((ROOT.node_id,)), FIRST, ()),)))
    assert drain(node) == []


def heartbeat(node: Node, peer: Peer, edges: int, now: float) -> list[OverlayMessage]:
    """A neighbour's ping; return what the node has to say to it about their edges."""
    tell(node, peer, Ping(token=0, incarnation=0, edges=edges), now)
    return [message for to, message in drain(node) if to == peer and isinstance(message, EdgeBuckets | GroupDigest)]


def edges_with(node: Node, peer: Peer) -> int:
    tell(node, peer, Ping(token=0, incarnation=0, edges=0))
    (pong,) = (message for receiver, message in drain(node) if receiver == peer)
    assert isinstance(pong, Pong)
    return pong.edges


def test_a_difference_that_stays_is_looked_into_at_the_second_heartbeat() -> None:
    node = attached()
    assert heartbeat(node, CHILD, 77, now=1.0) == []
    assert heartbeat(node, CHILD, 77, now=1.1) == [], "that is the same heartbeat"
    (buckets,) = heartbeat(node, CHILD, 77, now=2.0)
    assert isinstance(buckets, EdgeBuckets)
    assert buckets.digests[KEY % 16] == edges_with(node, CHILD)
    assert sum(map(bool, buckets.digests)) == 1


def test_a_difference_that_was_only_on_its_way_is_not() -> None:
    node = attached()
    for second in range(1, 20):
        edges = 77 if second % 2 else edges_with(node, CHILD)
        assert heartbeat(node, CHILD, edges, now=float(second)) == []


def test_differences_that_change_all_the_time_are_looked_into_at_last() -> None:
    node = attached()
    said = [heartbeat(node, CHILD, edges, now=float(edges)) for edges in range(1, 4)]
    assert [len(messages) for messages in said] == [0, 0, 1]


def test_only_what_differs_is_told() -> None:
    node = attached()
    node.subscribe(KEY + 1, 0.0)
    tell(node, ROOT, joined(Id(KEY + 1), ()))
    drain(node)
    tell(node, ROOT, EdgeBuckets(digests=(0,) * (KEY % 16) + (5,) + (0,) * (15 - KEY % 16)))
    (other,) = (message for _, message in drain(node))
    assert isinstance(other, GroupDigest)
    assert other.asks
    assert [edge.group for edge in other.parents] == [KEY, KEY + 1]
    tell(node, ROOT, EdgeBuckets(digests=(0,) * 16))
    (missing,) = (message for _, message in drain(node))
    assert isinstance(missing, GroupDigest)
    assert missing.buckets == 1 << KEY % 16 | 1 << (KEY + 1) % 16


def test_a_node_refuses_children_beyond_its_fan_out_and_names_one_that_may_take_them() -> None:
    node = attached()
    answers = []
    for number in range(FAN_OUT_MAX + 5):
        tell(node, Peer(10_000 + number, "crowd"), join(KEY))
        answers += [message for peer, message in drain(node) if peer.address == "crowd"]
    assert len(node.children(KEY)) == FAN_OUT_MAX - REPAIR_SLOTS
    (*_, last) = answers
    assert isinstance(last, GroupRefused)
    assert last.refusals[0].redirect in node.children(KEY)


def test_places_are_kept_for_those_who_had_one() -> None:
    node = attached()
    for number in range(FAN_OUT_MAX + 5):
        tell(node, Peer(10_000 + number, "crowd"), join(KEY))
    for number in range(FAN_OUT_MAX + 5):
        tell(node, Peer(20_000 + number, "orphan"), join(KEY, FIRST))
    assert len(node.children(KEY)) == FAN_OUT_MAX
    assert sum(child.address == "orphan" for child in node.children(KEY)) == REPAIR_SLOTS


def test_many_groups_are_asked_for_with_one_message() -> None:
    node = member(subscribed=False)
    keys = [Id(10_000 + number) for number in range(300)]
    for key in keys:
        node.subscribe(key, 0.0)
    sent = drain(node)
    assert [peer for peer, _ in sent] == [ROOT, ROOT]
    asked = [status.group for _, message in sent if isinstance(message, GroupJoin) for status in message.statuses]
    assert asked == keys
