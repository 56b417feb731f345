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
from overlay.core.outbox import CODEC
from overlay.wire.epoch import NEVER, TreeEpoch
from overlay.wire.messages import (
    Announcement,
    Disseminate,
    Echo,
    EchoReply,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    OverlayMessage,
    Ping,
    Pong,
    Replicate,
)
from overlay.wire.tree_fields import (
    PATH_LENGTH_MAX,
    Frontier,
    GroupRefusal,
    MulticastEntry,
    RootState,
    TreePosition,
    TreeStatus,
)

KEY = Id(1000)
FIRST = TreeEpoch(1, Id(1000))
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


def join(key: Id, epoch: TreeEpoch = NEVER, frontier: Frontier = ()) -> GroupJoin:
    return GroupJoin(statuses=(TreeStatus(key, epoch, frontier),))


def joined(key: Id, path: tuple[Id, ...], epoch: TreeEpoch = FIRST, frontier: Frontier = ()) -> GroupJoined:
    return GroupJoined(positions=(TreePosition(key, epoch, frontier, path),))


def refused(redirect: Peer | None) -> GroupRefused:
    return GroupRefused(refusals=(GroupRefusal(KEY, redirect),))


def news(sequence: int = 1, hops: int = 1, epoch: TreeEpoch = FIRST, payload: bytes = b"x") -> Disseminate:
    return Disseminate(
        group=KEY, hops=hops, entry=MulticastEntry(epoch, sequence, 100 * epoch.counter + sequence, 0, payload)
    )


def groups_only(messages: list[tuple[Peer, OverlayMessage]]) -> list[tuple[Peer, OverlayMessage]]:
    return [(p, m) for p, m in messages if isinstance(m, GroupJoin | GroupJoined | GroupLeave | GroupRefused)]


def run_timers(node: Node, until: float, silent: tuple[Peer, ...] = ()) -> list[tuple[Peer, OverlayMessage]]:
    """Handle timers as they become due; return all that was sent. Who is not silent answers pings and echoes."""
    messages = []
    for _ in range(200):
        now = node.next_timer()
        if now is None or now > until:
            return messages
        node.handle_timer(now)
        node.check()
        for peer, message in drain(node):
            messages.append((peer, message))
            if isinstance(message, Ping) and peer not in silent:
                tell(node, peer, Pong(token=message.token, incarnation=0, edges=message.edges), now)
            elif isinstance(message, Echo) and peer not in silent:
                tell(node, peer, EchoReply(token=message.token), now)
    raise AssertionError(f"more than 200 timers before {until} s")


def test_a_root_that_meets_a_closer_node_becomes_its_child() -> None:
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    node.subscribe(KEY, 0.0)
    assert raised(node) == [Joined(), EpochTaken(KEY, 1), Attached(KEY)]
    assert node.is_root(KEY)
    tell(node, ROOT, Announcement())
    own = TreeEpoch(1, Id(500))
    state = Replicate(states=(RootState(KEY, own, (), ()),))
    assert drain(node) == [(ROOT, state), (ROOT, join(KEY, own))], "the state is handed over"
    assert not node.is_root(KEY)
    assert not node.is_attached(KEY)
    tell(node, ROOT, joined(KEY, (), TreeEpoch(2, ROOT.node_id)))
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
    own = TreeEpoch(2, Id(500))
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


def test_nobody_is_shown_the_way_to_a_dead_peer_for_long() -> None:
    """A node under an orphan knows, far beyond its leaf set, a peer that died meanwhile: it has to find that out."""
    near = [Peer(500 + distance, f"near {distance}") for distance in range(-8, 9) if distance]
    far, uncle = Peer(1 << 127, "far"), Peer((1 << 127) + (1 << 100), "uncle")
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    for peer in (*near, far):
        tell(node, peer, Announcement())
    key = far.node_id
    node.subscribe(key, 0.0)
    tell(node, far, GroupRefused(refusals=(GroupRefusal(key, uncle),)))
    tell(node, uncle, joined(key, (Id(1 << 126),)))
    assert node.parent(key) == uncle
    run_timers(node, 5.0)
    tell(node, uncle, join(key), 5.0)
    assert groups_only(drain(node)) == [(uncle, GroupRefused(refusals=(GroupRefusal(key, far),)))]
    run_timers(node, 8.5, silent=(far,))
    tell(node, uncle, join(key), 8.5)
    ((_, answer),) = groups_only(drain(node))
    assert isinstance(answer, GroupRefused)
    assert answer.refusals[0].redirect != far


def test_an_orphan_asks_none_of_those_that_died_with_its_parent() -> None:
    near = [Peer(500 + distance, f"near {distance}") for distance in range(-8, 9) if distance]
    parent, twin, other = Peer(1 << 127, "parent"), Peer((1 << 127) + 1, "twin"), Peer(7 << 124, "other")
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    for peer in (*near, parent, twin, other):
        tell(node, peer, Announcement())
    key = parent.node_id
    node.subscribe(key, 0.0)
    tell(node, parent, joined(key, ()))
    run_timers(node, 1.0)
    asked = [peer for peer, _ in groups_only(run_timers(node, 6.0, silent=(parent, twin)))]
    assert asked
    assert set(asked) == {other}


def test_a_silent_candidate_is_given_up_for_another_and_not_asked_on_the_word_of_a_third() -> None:
    near = [Peer(500 + distance, f"near {distance}") for distance in range(-8, 9) if distance]
    silent, other = Peer(1 << 127, "silent"), Peer((1 << 127) + 1, "other")
    node = Node(Peer(500, "node"), random=random.Random(1))
    node.start(0.0)
    for peer in (*near, silent, other):
        tell(node, peer, Announcement())
    key = silent.node_id
    node.subscribe(key, 0.0)
    asked = [peer for peer, message in run_timers(node, 2.0, silent=(silent,)) if isinstance(message, GroupJoin)]
    assert asked[-1] == other
    tell(node, other, GroupRefused(refusals=(GroupRefusal(key, silent),)), 2.0)
    assert groups_only(drain(node)) == []


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
