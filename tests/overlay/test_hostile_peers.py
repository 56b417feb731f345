"""A node neither raises nor grows nor stops working, whatever a peer sends."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from overlay_oracle import memory_overlay

from overlay import Delivered, Id, Joined, Node, Peer
from overlay.core.outbox import CODEC
from overlay.scribe.group import FAN_OUT_MAX, REPAIR_SLOTS
from overlay.wire.epoch import COUNTER_MAX, NEVER, TreeEpoch
from overlay.wire.ids import id_to_bytes
from overlay.wire.messages import (
    HOPS_MAX,
    Absent,
    Acknowledge,
    AcknowledgeAgain,
    AcknowledgeResult,
    Announcement,
    Direct,
    Disseminate,
    EdgeBuckets,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    HopAck,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
    Leaving,
    OverlayMessage,
    Ping,
    PingReport,
    PingRequest,
    Pong,
    Publish,
    Pull,
    Refute,
    RelayedPing,
    Replicate,
    RootAnswer,
    RootQuery,
    Route,
    RowAnswer,
    RowRequest,
    Supply,
    Suspect,
)
from overlay.wire.tree_fields import (
    GroupRefusal,
    MulticastEntry,
    RootState,
    TreePosition,
    TreeStatus,
    UpwardEdge,
    Wanted,
)

# A handful of ids and keys, so that messages meet the state earlier ones made; 5 is the node itself.
keys = st.sampled_from([Id(n) for n in (0, 4, 5, 6, 7, 1 << 127, (1 << 128) - 1)])
peers = st.builds(Peer, keys, st.sampled_from(["here", "there"]))
peer_lists = st.lists(peers, max_size=4).map(tuple)
small = st.integers(0, 3)
incarnations = st.sampled_from([0, 1 << 20, (1 << 20) + 1, (1 << 64) - 1])
hops = st.sampled_from([0, 1, HOPS_MAX - 1, HOPS_MAX])
payloads = st.sampled_from([b"", b"payload"])
numbers = st.sampled_from([0, 1, 2, 3, 70, COUNTER_MAX])
epochs = st.builds(TreeEpoch, numbers, keys)
frontiers = st.lists(st.tuples(epochs, numbers), max_size=4).map(tuple)
entries = st.builds(MulticastEntry, epochs, numbers, small, st.sampled_from([0, 1000]), payloads)
wanted = st.none() | st.builds(Wanted, peers, st.sampled_from([0, 1000]))
packed = st.lists(keys, max_size=3).map(lambda ids: b"".join(map(id_to_bytes, ids))) | st.binary(max_size=40)


def several(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=3).map(tuple)


messages = st.one_of(
    st.builds(
        JoinRequest,
        joiner=peers,
        hops=hops,
        next_row=small,
        rows=peer_lists,
        neighbours=peer_lists,
        message_id=small,
    ),
    st.builds(JoinReply, rows=peer_lists, neighbours=peer_lists, leaves=peer_lists),
    st.builds(LeafSetProbe, leaves=peer_lists),
    st.builds(LeafSetAnswer, leaves=peer_lists),
    st.builds(Announcement),
    st.builds(Ping, token=small, incarnation=incarnations, edges=small),
    st.builds(Pong, token=small, incarnation=incarnations, edges=small),
    st.builds(PingRequest, target=peers, token=small),
    st.builds(RelayedPing, token=small, origin=peers),
    st.builds(PingReport, target=keys, token=small, reached=st.booleans()),
    st.builds(Suspect, peer=keys, incarnation=incarnations),
    st.builds(Refute, incarnation=incarnations),
    st.builds(HopAck, message_id=small),
    st.builds(Leaving),
    st.builds(Absent),
    st.builds(RowRequest, row=st.integers(0, 31)),
    st.builds(RowAnswer, peers=peer_lists),
    st.builds(Route, message_id=small, key=keys, origin=peers, hops=hops, payload=payloads),
    st.builds(Direct, payload=payloads),
    st.builds(Publish, message_id=small, group=keys, hops=hops, wanted=wanted, payload=payloads),
    st.builds(Disseminate, group=keys, hops=hops, entry=entries),
    st.builds(GroupJoin, statuses=several(st.builds(TreeStatus, keys, epochs, frontiers))),
    st.builds(GroupJoined, positions=several(st.builds(TreePosition, keys, epochs, frontiers, several(keys)))),
    st.builds(GroupRefused, refusals=several(st.builds(GroupRefusal, keys, st.none() | peers))),
    st.builds(GroupLeave, groups=several(keys)),
    st.builds(
        GroupDigest,
        buckets=st.integers(0, 2**16 - 1),
        children=several(keys),
        parents=several(st.builds(UpwardEdge, keys, small, epochs, frontiers)),
        asks=st.booleans(),
    ),
    st.builds(EdgeBuckets, digests=st.lists(small, min_size=16, max_size=16).map(tuple)),
    st.builds(Pull, group=keys, wanted=frontiers, origin=peers, hops=hops),
    st.builds(Supply, group=keys, frontier=frontiers, entries=several(entries), is_whole=st.booleans()),
    st.builds(Replicate, states=several(st.builds(RootState, keys, epochs, frontiers, several(entries)))),
    st.builds(RootQuery, group=keys, origin=peers, hops=hops),
    st.builds(RootAnswer, group=keys, epoch=epochs),
    st.builds(
        Acknowledge,
        group=keys,
        message_id=small,
        offset=small,
        ids=packed,
        members=st.binary(max_size=3),
        waiting=packed,
    ),
    st.builds(AcknowledgeAgain, group=keys, message_id=small, offset=small),
    st.builds(AcknowledgeResult, group=keys, message_id=small, received=packed, missing=packed),
)


def node_in(state: str) -> Node:
    node = Node(Peer(5, "node"), random=random.Random(1))
    if state == "active":
        node.start(0.0)
    elif state == "joining":
        node.join(Peer(4, "here"), 0.0)
    for group in (4, 5) if state != "idle" else ():
        node.subscribe(group, 0.0)
    return node


def a_root_was_at(
    frontier: tuple[tuple[TreeEpoch, int], ...], *entries: MulticastEntry
) -> list[tuple[Peer, OverlayMessage]]:
    """Somebody, closer to group 4 than the node, says so."""
    state = RootState(Id(4), TreeEpoch(0, Id(4)), frontier, entries)
    return [(Peer(0, "here"), Announcement()), (Peer(4, "here"), Replicate((state,)))]


@pytest.mark.fuzz
@example("active", a_root_was_at((), MulticastEntry(TreeEpoch(0, Id(0)), 0, 0, 0, b"")))
@example("active", a_root_was_at(((TreeEpoch(0, Id(4)), 0),), MulticastEntry(TreeEpoch(0, Id(0)), 0, 0, 0, b""),
                                 MulticastEntry(TreeEpoch(2, Id(0)), 2, 0, 0, b"")))  # fmt: skip
@given(
    st.sampled_from(["idle", "joining", "active"]),
    st.lists(
        st.tuples(peers, messages | st.sampled_from(["unreachable", "disconnected", "restarted", "meet"]) | st.none()),
        min_size=1,
        max_size=30,
    ),
)
def test_well_formed_messages_in_any_order_keep_every_invariant(
    state: str, script: list[tuple[Peer, OverlayMessage | str | None]]
) -> None:
    """Whatever the transport tells of peers in between."""
    node, now = node_in(state), 0.0
    for sender, message in script:
        if message is None:
            now = max(now, node.next_timer() or now)
            node.handle_timer(now)
        elif isinstance(message, str):
            getattr(node, message)(sender, now)
        else:
            node.receive(sender, CODEC.encode(message), now)
        node.check()
        assert all(peer != node.peer for peer, _ in node.messages_to_send())
        assert all(node.is_active for event in node.events() if isinstance(event, Delivered | Joined))


@pytest.mark.fuzz
@given(st.lists(st.binary(max_size=60), max_size=10))
def test_bytes_that_are_no_messages_are_counted(frames: list[bytes]) -> None:
    node = node_in("active")
    for data in frames:
        node.receive(Peer(4, "here"), data, 0.0)
    node.check()
    counted = node.statistics()
    assert counted.received == len(frames)
    assert counted.received_bytes == sum(map(len, frames))


def test_garbage_does_not_keep_a_node_from_its_work() -> None:
    network, nodes, source = memory_overlay(10, seed=1)
    for _ in range(500):
        source.choice(nodes).receive(source.choice(nodes).peer, source.randbytes(50), 0.0)
    key = source.getrandbits(128)
    nodes[0].route(key, b"still here", 0.0)
    network.deliver_all(0.0)
    assert [e.payload for node in nodes for e in node.events() if isinstance(e, Delivered)] == [b"still here"]
    assert sum(node.statistics().malformed for node in nodes) > 400


def test_a_node_does_not_listen_to_itself() -> None:
    node = node_in("active")
    node.receive(node.peer, CODEC.encode(Announcement()), 0.0)
    assert node.statistics().refused == 1


def test_a_message_that_has_gone_round_too_long_ends() -> None:
    node = node_in("active")
    node.receive(Peer(100, "far"), CODEC.encode(Announcement()), 0.0)
    node.messages_to_send()
    before = node.statistics().refused
    for message in (
        Route(message_id=1, key=Id(100), origin=Peer(4, "here"), hops=HOPS_MAX, payload=b"", wants_response=False),
        Publish(message_id=2, group=Id(100), hops=HOPS_MAX, wanted=None, payload=b""),
    ):
        node.receive(Peer(4, "here"), CODEC.encode(message), 0.0)
    assert node.statistics().refused == before + 2
    sent = [CODEC.decode(data) for _, data in node.messages_to_send()]
    assert sent == [HopAck(message_id=1), HopAck(message_id=2)], "nobody is to send it again"


def test_a_routed_message_is_delivered_once() -> None:
    node = node_in("active")
    data = CODEC.encode(
        Route(message_id=9, key=Id(5), origin=Peer(4, "here"), hops=1, payload=b"x", wants_response=False)
    )
    for _ in range(3):
        node.receive(Peer(4, "here"), data, 0.0)
    assert [event for event in node.events() if isinstance(event, Delivered)] == [
        Delivered(Id(5), b"x", Peer(4, "here"))
    ]
    assert node.statistics().duplicates == 2


def test_open_probes_are_bounded() -> None:
    node, source = node_in("active"), random.Random(1)
    for number in range(100):
        leaves = tuple(Peer(source.getrandbits(128), "nowhere") for _ in range(16))
        node.receive(Peer(1000 + number, "liar"), CODEC.encode(LeafSetProbe(leaves=leaves)), 0.0)
        node.check()
    for _ in range(20):
        node.handle_timer(node.next_timer() or 0.0)
    assert all(peer.address == "liar" for peer in node.leaf_set)


def test_groups_and_children_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.scribe.attachment.GROUPS_MAX", 10)
    node = node_in("active")
    for number in range(50):
        for sender, key in ((100 + number, 4), (100, 1000 + number)):
            join = GroupJoin(statuses=(TreeStatus(Id(key), NEVER, ()),))
            node.receive(Peer(sender, "many"), CODEC.encode(join), 0.0)
            node.check()
    assert len(node.children(4)) == FAN_OUT_MAX - REPAIR_SLOTS
    assert len(node.groups) == 10
    assert node.statistics().refused == 50 - (FAN_OUT_MAX - REPAIR_SLOTS) + 42


def test_rows_nobody_asked_for_are_refused() -> None:
    node = node_in("active")
    node.receive(Peer(4, "here"), CODEC.encode(RowAnswer(peers=(Peer(1 << 127, "there"),))), 0.0)
    assert len(node.routing_table) == 0
    assert node.statistics().refused == 1
