"""Roots of one node's trees: the epochs it takes and believes, the multicasts it raises, pulls and gives up."""

import random

import pytest
from test_scribe_edges import (
    CHILD,
    FIRST,
    KEY,
    LOW,
    ROOT,
    UNCLE,
    attached,
    drain,
    join,
    joined,
    member,
    news,
    raised,
    tell,
)

from overlay import EpochTaken, Id, MulticastReceived, Node, Peer
from overlay.wire.epoch import JUMP_MAX, NEVER, TreeEpoch
from overlay.wire.messages import (
    Announcement,
    Disseminate,
    GroupJoin,
    GroupJoined,
    OverlayMessage,
    Pull,
    Replicate,
    RootAnswer,
    RootQuery,
    Supply,
)
from overlay.wire.tree_fields import (
    LOG_ENTRIES_MAX,
    MulticastEntry,
    RootState,
)

OWN = Peer(500, "node")


def root_node(epochs: dict[Id, int] | None = None) -> Node:
    """A node at 500 that is alone but for some far peers, and the root of the key 500."""
    node = Node(OWN, random=random.Random(1), epochs=epochs)
    node.start(0.0)
    for peer in (ROOT, LOW):
        tell(node, peer, Announcement())
    drain(node)
    raised(node)
    return node


def payloads(node: Node) -> list[bytes]:
    return [event.payload for event in raised(node) if isinstance(event, MulticastReceived)]


def sent(node: Node, kind: type[OverlayMessage]) -> list[tuple[Peer, OverlayMessage]]:
    return [(peer, message) for peer, message in drain(node) if isinstance(message, kind)]


def entry(sequence: int, epoch: TreeEpoch = FIRST, payload: bytes = b"x") -> MulticastEntry:
    return MulticastEntry(epoch, sequence, 100 * epoch.counter + sequence, 0, payload)


def run_until(node: Node, until: float) -> list[tuple[Peer, OverlayMessage]]:
    messages = []
    for step in range(int(until * 10)):
        node.handle_timer(step / 10)
        messages += drain(node)
        for peer in (ROOT, UNCLE, CHILD, LOW):
            tell(node, peer, Announcement(), step / 10)
    return messages


def test_a_root_goes_above_the_epoch_it_took_in_an_earlier_life() -> None:
    node = root_node({Id(500): 7})
    node.subscribe(500, 0.0)
    assert EpochTaken(Id(500), 8) in raised(node)
    assert node.epochs == {500: 8}


def test_a_root_goes_above_what_its_replica_of_the_one_before_says() -> None:
    node = root_node()
    before = TreeEpoch(4, ROOT.node_id)
    tell(node, ROOT, Replicate(states=(RootState(Id(500), before, ((before, 1),), (entry(1, before),)),)))
    node.subscribe(500, 0.0)
    assert EpochTaken(Id(500), 5) in raised(node)
    tell(node, LOW, join(Id(500), before, ((before, 0),)))
    ((_, answer),) = sent(node, GroupJoined)
    assert isinstance(answer, GroupJoined)
    assert (before, 1) in answer.positions[0].frontier
    tell(node, LOW, Pull(group=Id(500), wanted=((before, 0),), origin=LOW, hops=0))
    ((_, supply),) = sent(node, Supply)
    assert isinstance(supply, Supply)
    assert supply.entries == (entry(1, before),)


def test_a_root_raises_above_the_epoch_a_child_knows() -> None:
    node = root_node()
    node.subscribe(500, 0.0)
    raised(node)
    tell(node, LOW, join(Id(500), TreeEpoch(9, ROOT.node_id)))
    assert EpochTaken(Id(500), 10) in raised(node)
    ((_, answer), *_) = sent(node, GroupJoined)
    assert isinstance(answer, GroupJoined)
    assert answer.positions[0].epoch == TreeEpoch(10, OWN.node_id)


def test_a_counter_that_jumps_is_not_believed_of_a_child() -> None:
    node = root_node()
    node.subscribe(500, 0.0)
    raised(node)
    tell(node, LOW, join(Id(500), TreeEpoch(JUMP_MAX * 2, ROOT.node_id)))
    assert raised(node)[:1] != [EpochTaken(Id(500), JUMP_MAX * 2 + 1)]
    assert node.epochs == {500: 1}


def test_a_higher_epoch_is_passed_on_towards_the_root() -> None:
    node = attached()
    tell(node, LOW, join(KEY, TreeEpoch(5, UNCLE.node_id)))
    ((parent, onward),) = sent(node, GroupJoin)
    assert parent == ROOT
    assert isinstance(onward, GroupJoin)
    assert onward.statuses[0].epoch == TreeEpoch(5, UNCLE.node_id)


def test_states_are_taken_from_their_own_roots_and_never_go_back() -> None:
    node = root_node()
    for sender, counter in ((LOW, 5), (ROOT, 5), (ROOT, 4)):
        tell(node, sender, Replicate(states=(RootState(Id(500), TreeEpoch(counter, ROOT.node_id), (), ()),)))
    assert node.statistics().refused == 2


@pytest.mark.parametrize(
    ("answer", "delivered"), [(TreeEpoch(2, UNCLE.node_id), True), (TreeEpoch(3, ROOT.node_id), True), (FIRST, False)]
)
def test_a_root_that_is_not_the_closest_known_node_is_verified(answer: TreeEpoch, delivered: bool) -> None:
    node = attached()
    shown = TreeEpoch(2, UNCLE.node_id)
    tell(node, ROOT, joined(KEY, (UNCLE.node_id,), shown))
    tell(node, ROOT, news(1, epoch=shown))
    assert payloads(node) == [], "not before that"
    node.handle_timer(0.5)
    assert (ROOT, RootQuery(group=KEY, origin=OWN, hops=1)) in drain(node)
    tell(node, LOW, RootAnswer(group=KEY, epoch=shown), 0.5)
    tell(node, ROOT, news(1, epoch=shown), 0.5)
    assert payloads(node) == [], "not for the word of a node further away"
    tell(node, ROOT, RootAnswer(group=KEY, epoch=answer), 0.6)
    tell(node, ROOT, news(1, epoch=max(answer, shown)), 0.7)
    assert payloads(node) == ([b"x"] if delivered else [])


def test_queries_end_at_the_node_closest_to_the_key() -> None:
    node = root_node()
    node.subscribe(500, 0.0)
    drain(node)
    for key in (500, 501, 999):
        tell(node, LOW, RootQuery(group=Id(key), origin=UNCLE, hops=1))
    assert [pair for pair in drain(node) if isinstance(pair[1], RootAnswer | RootQuery)] == [
        (UNCLE, RootAnswer(group=Id(500), epoch=TreeEpoch(1, OWN.node_id))),
        (UNCLE, RootAnswer(group=Id(501), epoch=NEVER)),
        (ROOT, RootQuery(group=Id(999), origin=UNCLE, hops=2)),
    ]


def test_multicasts_of_a_lower_epoch_are_refused() -> None:
    node = attached()
    tell(node, ROOT, joined(KEY, (), TreeEpoch(3, ROOT.node_id)))
    tell(node, ROOT, news(1))
    assert payloads(node) == []
    tell(node, ROOT, news(1, epoch=TreeEpoch(3, ROOT.node_id)))
    assert payloads(node) == [b"x"]


def test_a_gap_is_pulled_and_what_came_early_waits_for_it() -> None:
    node = attached()
    for sequence in (1, 4, 3):
        tell(node, ROOT, news(sequence, payload=b"%d" % sequence))
    assert payloads(node) == [b"1"]
    assert [m.entry.sequence for p, m in drain(node) if p == CHILD and isinstance(m, Disseminate)] == [1, 4, 3]
    node.handle_timer(0.2)
    assert (ROOT, Pull(group=KEY, wanted=((FIRST, 1),), origin=OWN, hops=0)) in drain(node)
    tell(node, ROOT, Supply(group=KEY, frontier=((FIRST, 4),), entries=(entry(2, payload=b"2"),), is_whole=True))
    assert payloads(node) == [b"2", b"3", b"4"]
    ((child, _place),) = sent(node, GroupJoined)
    assert child == CHILD, "who may lack it too"


def test_what_nobody_keeps_is_given_up_and_counted() -> None:
    node = attached()
    tell(node, ROOT, news(1, payload=b"1"))
    tell(node, ROOT, news(5, payload=b"5"))
    node.handle_timer(0.2)
    tell(node, ROOT, Supply(group=KEY, frontier=((FIRST, 5),), entries=(entry(5),), is_whole=True), 0.3)
    assert payloads(node) == [b"1", b"5"]
    assert node.statistics().missed == 3


def test_a_parent_that_never_answers_is_not_waited_for_for_ever() -> None:
    node = attached()
    tell(node, ROOT, news(1, payload=b"1"))
    tell(node, ROOT, news(3, payload=b"3"))
    run_until(node, 12.0)
    assert payloads(node) == [b"1", b"3"]
    assert node.statistics().missed == 1


def test_a_newcomer_starts_where_its_parent_is() -> None:
    node = member()
    tell(node, ROOT, joined(KEY, (), FIRST, ((FIRST, 10),)))
    assert run_until(node, 1.0) == [] or not any(isinstance(m, Pull) for _, m in run_until(node, 1.0))
    tell(node, ROOT, news(11))
    assert payloads(node) == [b"x"]


def test_an_orphan_catches_up_under_another_parent() -> None:
    node = attached()
    tell(node, ROOT, news(1))
    tell(node, ROOT, joined(KEY, (), FIRST, ((FIRST, 3),)))
    node.handle_timer(0.2)
    assert (ROOT, Pull(group=KEY, wanted=((FIRST, 1),), origin=OWN, hops=0)) in drain(node)


def test_who_keeps_too_little_passes_the_question_on() -> None:
    node = member()
    tell(node, ROOT, joined(KEY, (), FIRST, ((FIRST, 10),)))
    tell(node, CHILD, join(KEY))
    drain(node)
    tell(node, CHILD, Pull(group=KEY, wanted=((FIRST, 8),), origin=CHILD, hops=0))
    assert (ROOT, Pull(group=KEY, wanted=((FIRST, 8),), origin=CHILD, hops=1)) in drain(node)


def test_logs_are_bounded() -> None:
    node = attached()
    for sequence in range(1, 3 * LOG_ENTRIES_MAX):
        tell(node, ROOT, news(sequence))
    tell(node, CHILD, Pull(group=KEY, wanted=((FIRST, 2 * LOG_ENTRIES_MAX),), origin=CHILD, hops=0))
    ((_, supply),) = sent(node, Supply)
    assert isinstance(supply, Supply)
    assert [one.sequence for one in supply.entries] == list(range(2 * LOG_ENTRIES_MAX + 1, 3 * LOG_ENTRIES_MAX))
