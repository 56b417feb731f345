"""One node's side of the tree protocol, with peers that are not what they should be."""

import random

import pytest

from overlay import (
    Attached,
    ChildRemoved,
    EpochTaken,
    Event,
    Id,
    Joined,
    LeafSetChanged,
    MulticastReceived,
    Node,
    ParentChanged,
    Peer,
)
from overlay.messages import (
    PATH_LENGTH_MAX,
    Announcement,
    Disseminate,
    EdgeBuckets,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    OverlayMessage,
    Ping,
    Place,
    Pong,
    Refusal,
    Replicate,
    RootState,
    Standing,
    UpwardEdge,
)
from overlay.outbox import CODEC
from overlay.scribe.attachment import FAN_OUT_MAX, REPAIR_SLOTS
from overlay.scribe.epoch import NEVER, Epoch
from overlay.scribe.group import path_checksum
from overlay.scribe.history import Entry, Frontier

KEY = Id(1000)
FIRST = Epoch(1, Id(1000))
ROOT, UNCLE, CHILD, LOW = Peer(1000, "root"), Peer(900, "uncle"), Peer(400, "child"), Peer(100, "low")


def member(subscribed: bool = True) -> Node:
    """A node at 500 that knows all the peers above; the key's closest node is ROOT."""
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    for peer in (ROOT, UNCLE, CHILD, LOW):
        tell(node, peer, Announcement())
    if subscribed:
        node.subscribe(KEY, 0.0)
    assert drain(node) == ([(ROOT, join(KEY))] if subscribed else [])
    assert raised(node) == [Joined()]
    return node


def attached() -> Node:
    node = member()
    tell(node, ROOT, joined(KEY, ()))
    tell(node, CHILD, join(KEY))
    drain(node)
    raised(node)
    return node


def tell(node: Node, sender: Peer, message: OverlayMessage, now: float = 0.0) -> None:
    node.receive(sender, CODEC.encode(message), now)
    node.check()


def drain(node: Node) -> list[tuple[Peer, OverlayMessage]]:
    return [(peer, CODEC.decode(data)) for peer, data in node.messages_to_send()]


def raised(node: Node) -> list[Event]:
    """The events that are not about the leaf set."""
    return [event for event in node.events() if not isinstance(event, LeafSetChanged)]


def join(key: Id, epoch: Epoch = NEVER, frontier: Frontier = ()) -> GroupJoin:
    return GroupJoin(standings=(Standing(key, epoch, frontier),))


def joined(key: Id, path: tuple[Id, ...], epoch: Epoch = FIRST, frontier: Frontier = ()) -> GroupJoined:
    return GroupJoined(places=(Place(key, epoch, frontier, path),))


def refused(redirect: Peer | None) -> GroupRefused:
    return GroupRefused(refusals=(Refusal(KEY, redirect),))


def news(sequence: int = 1, hops: int = 1, epoch: Epoch = FIRST, payload: bytes = b"x") -> Disseminate:
    return Disseminate(group=KEY, hops=hops, entry=Entry(epoch, sequence, 100 * epoch.counter + sequence, 0, payload))


def groups_only(messages: list[tuple[Peer, OverlayMessage]]) -> list[tuple[Peer, OverlayMessage]]:
    return [(p, m) for p, m in messages if isinstance(m, GroupJoin | GroupJoined | GroupLeave | GroupRefused)]


def run_timers(node: Node, until: float) -> list[tuple[Peer, OverlayMessage]]:
    """Handle timers as they become due; return all that was sent. All peers answer pings, and nothing else."""
    messages = []
    for _ in range(100):
        now = node.next_timer()
        if now is None or now > until:
            return messages
        node.handle_timer(now)
        node.check()
        for peer, message in drain(node):
            messages.append((peer, message))
            if isinstance(message, Ping):
                tell(node, peer, Pong(token=0, incarnation=0, edges=0), now)
    raise AssertionError(f"more than 100 timers before {until} s")


def test_a_root_that_meets_a_closer_node_becomes_its_child() -> None:
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    node.subscribe(KEY, 0.0)
    assert raised(node) == [Joined(), EpochTaken(KEY, 1), Attached(KEY)]
    assert node.is_root(KEY)
    tell(node, ROOT, Announcement())
    own = Epoch(1, Id(500))
    state = Replicate(states=(RootState(KEY, own, (), ()),))
    assert drain(node) == [(ROOT, state), (ROOT, join(KEY, own))], "the state is handed over"
    assert not node.is_root(KEY)
    assert not node.is_attached(KEY)
    tell(node, ROOT, joined(KEY, (), Epoch(2, ROOT.node_id)))
    assert raised(node) == [ParentChanged(KEY, ROOT), Attached(KEY)]


def test_an_answer_attaches_and_is_passed_on_to_waiting_children() -> None:
    node = member()
    tell(node, CHILD, join(KEY))
    assert drain(node) == []
    tell(node, ROOT, joined(KEY, ()))
    assert drain(node) == [(CHILD, joined(KEY, (Id(1000),)))]
    assert raised(node)[-2:] == [ParentChanged(KEY, ROOT), Attached(KEY)]


def test_a_request_is_repeated_until_answered() -> None:
    node = member()
    messages = run_timers(node, until=5.0)
    assert [message for message in messages if message[0] == ROOT].count((ROOT, join(KEY))) >= 3


def test_a_request_is_repeated_to_whoever_is_nearer_by_then() -> None:
    node = member(subscribed=False)
    node.subscribe(950, 0.0)
    assert drain(node) == [(UNCLE, join(Id(950)))]
    nearer = Peer(960, "nearer")
    tell(node, nearer, Announcement())
    messages = run_timers(node, until=1.5)
    assert groups_only(messages)[:2] == [(UNCLE, GroupLeave(groups=(Id(950),))), (nearer, join(Id(950)))]


def test_who_becomes_the_closest_node_while_asking_becomes_the_root() -> None:
    node = member()
    for peer in (ROOT, UNCLE):
        node.leaf_set.remove(peer.node_id)
    assert (ROOT, GroupLeave(groups=(KEY,))) in run_timers(node, until=1.5)
    assert node.is_root(KEY)
    assert raised(node) == [EpochTaken(KEY, 1), Attached(KEY)]


def test_a_child_that_becomes_the_closest_node_leaves_its_parent() -> None:
    node = attached()
    for peer in (ROOT, UNCLE):
        node.leaf_set.remove(peer.node_id)
    tell(node, Peer(1, "newcomer"), Announcement())
    own = Epoch(2, Id(500))
    assert groups_only(drain(node)) == [(ROOT, GroupLeave(groups=(KEY,))), (CHILD, joined(KEY, (), own))]
    assert raised(node) == [EpochTaken(KEY, 2), ParentChanged(KEY, None)]
    assert node.is_attached(KEY)


def test_a_repeated_request_of_a_child_is_answered_again() -> None:
    node = attached()
    tell(node, CHILD, join(KEY))
    assert drain(node) == [(CHILD, joined(KEY, (Id(1000),)))]
    assert node.children(KEY) == (CHILD,)


def test_a_child_on_the_path_to_the_root_is_refused_and_shown_the_way() -> None:
    node = member()
    tell(node, ROOT, joined(KEY, (UNCLE.node_id,)))
    for ancestor in (ROOT, UNCLE):
        drain(node)
        tell(node, ancestor, join(KEY))
        assert drain(node) == [(ancestor, refused(ROOT))]
    assert node.children(KEY) == ()
    assert node.statistics().refused == 2


def test_two_nodes_that_ask_each_other_refuse_each_other() -> None:
    node = member()
    tell(node, ROOT, join(KEY))
    assert drain(node) == [(ROOT, refused(None))]


def test_a_refusal_with_a_pointer_is_followed() -> None:
    node = member()
    tell(node, ROOT, refused(UNCLE))
    assert drain(node) == [(UNCLE, join(KEY))]
    tell(node, UNCLE, joined(KEY, ()))
    assert node.parent(KEY) == UNCLE


def test_pointers_that_go_round_end_at_the_retry_timer() -> None:
    node = member()
    asked, pointer = ROOT, UNCLE
    for _ in range(16):
        tell(node, asked, refused(pointer))
        assert drain(node) == [(pointer, join(KEY))]
        asked, pointer = pointer, asked
    tell(node, asked, refused(pointer))
    assert drain(node) == []
    node.handle_timer(2.0)
    assert (ROOT, join(KEY)) in drain(node)


def test_a_refusal_without_a_pointer_waits_for_the_timer() -> None:
    for redirect in (None, Peer(500, "node")):
        node = member()
        tell(node, ROOT, refused(redirect))
        assert drain(node) == []
        node.handle_timer(2.0)
        assert (ROOT, join(KEY)) in drain(node)


def test_a_path_that_leads_back_here_is_no_path() -> None:
    node = member()
    tell(node, ROOT, joined(KEY, (UNCLE.node_id, Id(500))))
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    assert not node.is_attached(KEY)
    assert node.next_timer() is not None


def test_a_cycle_that_shows_in_a_new_path_is_cut() -> None:
    node = attached()
    tell(node, ROOT, joined(KEY, (CHILD.node_id, Id(500))))
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    assert node.parent(KEY) is None
    assert not node.is_attached(KEY)
    assert raised(node) == [ParentChanged(KEY, None)]


def test_a_child_that_turns_up_on_the_path_is_no_child_any_more() -> None:
    node = attached()
    tell(node, ROOT, joined(KEY, (CHILD.node_id,)))
    assert node.children(KEY) == ()
    assert raised(node) == [ChildRemoved(KEY, CHILD)]


def test_a_forwarder_whose_only_child_turns_up_on_the_path_leaves() -> None:
    node = member(subscribed=False)
    tell(node, CHILD, join(KEY))
    tell(node, ROOT, joined(KEY, (CHILD.node_id,)))
    assert drain(node) == [(ROOT, join(KEY)), (ROOT, GroupLeave(groups=(KEY,)))]
    assert node.groups == ()


def test_an_overlong_path_is_refused() -> None:
    node = member()
    tell(node, ROOT, joined(KEY, tuple(Id(10_000 + n) for n in range(PATH_LENGTH_MAX))))
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    assert not node.is_attached(KEY)


def test_who_was_not_asked_cannot_become_the_parent() -> None:
    node = attached()
    tell(node, UNCLE, joined(KEY, ()))
    assert node.parent(KEY) == ROOT
    assert drain(node) == [(UNCLE, GroupLeave(groups=(KEY,)))]
    tell(node, ROOT, joined(Id(7), ()))
    assert drain(node) == [(ROOT, GroupLeave(groups=(Id(7),)))]


def test_a_path_change_is_passed_on_and_a_repetition_is_not() -> None:
    node = attached()
    tell(node, ROOT, joined(KEY, (UNCLE.node_id,)))
    assert drain(node) == [(CHILD, joined(KEY, (ROOT.node_id, UNCLE.node_id)))]
    tell(node, ROOT, joined(KEY, (UNCLE.node_id,)))
    assert drain(node) == []


def test_a_forwarder_leaves_with_its_last_child() -> None:
    node = attached()
    node.unsubscribe(KEY, 0.0)
    assert drain(node) == []
    tell(node, CHILD, GroupLeave(groups=(KEY,)))
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    assert node.groups == ()
    node.unsubscribe(KEY, 0.0)
    assert drain(node) == []


def test_who_leaves_while_asking_says_so() -> None:
    node = member()
    node.unsubscribe(KEY, 0.0)
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    tell(node, ROOT, joined(KEY, ()))
    assert drain(node) == [(ROOT, GroupLeave(groups=(KEY,)))]
    assert node.groups == ()


def test_a_multicast_is_raised_and_passed_on_once() -> None:
    node = attached()
    for _ in range(3):
        tell(node, ROOT, news(hops=1))
    assert raised(node) == [MulticastReceived(KEY, b"x")]
    assert drain(node) == [(CHILD, news(hops=2))]
    assert node.statistics().duplicates == 2


@pytest.mark.parametrize("sender", [CHILD, UNCLE])
def test_a_multicast_is_taken_from_the_parent_only(sender: Peer) -> None:
    node = attached()
    tell(node, sender, news(hops=1))
    assert raised(node) == []
    assert node.statistics().refused == 1
    assert drain(node) == [(sender, GroupLeave(groups=(KEY,)))]


def test_a_multicast_of_the_parent_before_still_counts_while_moving() -> None:
    node = attached()
    tell(node, ROOT, refused(UNCLE))
    tell(node, UNCLE, joined(KEY, ()))
    raised(node)
    drain(node)
    tell(node, ROOT, news(hops=1))
    tell(node, UNCLE, news(hops=1))
    assert raised(node) == [MulticastReceived(KEY, b"x")]
    assert groups_only(drain(node)) == [(ROOT, GroupLeave(groups=(KEY,)))]


def digest(children: tuple[Id, ...] = (), parents: tuple[UpwardEdge, ...] = ()) -> GroupDigest:
    return GroupDigest(buckets=0xFFFF, children=children, parents=parents, asks=False)


def test_digests_mend_edges_the_two_ends_disagree_on() -> None:
    node = attached()
    tell(node, UNCLE, digest(children=(KEY, Id(7))))
    assert drain(node) == [(UNCLE, GroupLeave(groups=(KEY, Id(7))))]
    tell(node, ROOT, digest(children=(KEY,)))
    assert drain(node) == []
    stale = UpwardEdge(KEY, 0, FIRST, 0)
    tell(node, LOW, digest(parents=(stale,)))
    assert LOW in node.children(KEY)
    assert drain(node) == [(LOW, joined(KEY, (ROOT.node_id,)))]
    tell(node, LOW, digest(parents=(stale,)))
    assert drain(node) == [(LOW, joined(KEY, (ROOT.node_id,)))]
    tell(node, LOW, digest(parents=(UpwardEdge(KEY, path_checksum((ROOT.node_id,)), FIRST, 0),)))
    assert drain(node) == []


def heartbeat(node: Node, peer: Peer, edges: int, now: float) -> list[OverlayMessage]:
    """A neighbour's ping; return what the node has to say to it but for its answer."""
    tell(node, peer, Ping(token=0, incarnation=0, edges=edges), now)
    return [message for receiver, message in drain(node) if receiver == peer and not isinstance(message, Pong)]


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
    asked = [standing.group for _, message in sent if isinstance(message, GroupJoin) for standing in message.standings]
    assert asked == keys
