"""The failure detector of one node, on a clock of the test's own; and what it costs a quiet overlay."""

import random

from hypothesis import given
from hypothesis import strategies as st
from living_overlay import LivingOverlay

from overlay import Peer
from overlay.messages import Ping
from overlay.outbox import CODEC, Outbox
from overlay.pastry.departed import GONE_MAX, GONE_S, TOMBSTONE_S, TOMBSTONES_MAX, Departed
from overlay.pastry.watch import PASSING_MAX, Watch

OWNER, LOW, HIGH = Peer(500, "owner"), Peer(100, "low"), Peer(900, "high")


class Clock:
    """Runs a watch tick by tick; peers in `answering` answer every ping at once."""

    def __init__(self, near: tuple[Peer, ...] = (), far: tuple[Peer, ...] = (), seed: int = 1) -> None:
        self.outbox = Outbox()
        self.watch = Watch(OWNER, self.outbox, random.Random(seed), lambda _node_id: 0)
        self.now = 0.0
        self.answering: set[Peer] = set()
        self.pings: list[tuple[float, Peer]] = []
        self.failures: list[tuple[float, Peer]] = []
        self.watch.keep({peer.node_id: peer for peer in near}, {peer.node_id: peer for peer in far}, self.now)
        self.watch.hasten(self.now)

    def run(self, until: float) -> None:
        for _ in range(10_000):
            due = self.watch.next_timer()
            if due is None or due > until:
                break
            self.tick(due)
        self.now = until

    def tick(self, now: float) -> None:
        self.now = now
        for peer in self.watch.tick(now):
            self.failures.append((now, peer))
            self.watch.forget(peer.node_id)
        self.watch.check()
        for peer, data in self.outbox.drain_messages():
            assert CODEC.decode(data) == Ping(token=0, incarnation=0, edges=0)
            self.pings.append((now, peer))
            if peer in self.answering:
                self.watch.heard(peer, now)

    def silence_s(self) -> list[float]:
        """How long each that failed had been silent by then; none was ever heard after time 0."""
        return [time for time, _ in self.failures]


def test_a_silent_peer_fails_after_its_time_out() -> None:
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.watch.heard(LOW, 0.0)
    clock.run(20.0)
    assert [peer for _, peer in clock.failures] == [LOW, HIGH]
    near_s, far_s = clock.silence_s()
    assert 3.0 <= near_s <= 3.5
    assert 10.0 <= far_s <= 11.0
    assert 4 <= [peer for _, peer in clock.pings].count(LOW) <= 10
    assert clock.watch.next_timer() is None


def test_who_answers_does_not_fail_and_is_pinged_once_a_period() -> None:
    clock = Clock(near=(HIGH,), far=(LOW,))
    clock.answering = {LOW, HIGH}
    clock.run(100.0)
    assert clock.failures == []
    pinged = [peer for _, peer in clock.pings]
    assert 75 <= pinged.count(HIGH) <= 102
    assert 24 <= pinged.count(LOW) <= 34


def test_who_speaks_without_being_asked_is_not_pinged() -> None:
    clock = Clock(near=(LOW,))
    for tenth in range(200):
        clock.watch.heard(LOW, tenth / 10)
        clock.run(tenth / 10)
    assert clock.pings == []


def test_of_a_pair_the_one_with_the_lower_id_pings() -> None:
    """Whom the higher hears in time it does not ping."""
    higher = Clock(near=(LOW,))
    for number in range(50):
        higher.watch.heard(LOW, number * 1.1)
        higher.run(number * 1.1)
    assert higher.pings == []


def test_a_peer_that_is_needed_is_pinged_at_once_unless_it_was_heard_lately() -> None:
    clock = Clock(far=(LOW, HIGH))
    clock.answering = {HIGH}
    clock.run(2.0)
    clock.watch.heard(HIGH, 2.0)
    for peer in (LOW, HIGH):
        clock.watch.rely_on(peer, 2.0)
    clock.run(2.4)
    assert [peer for _, peer in clock.pings] == [LOW]
    assert clock.watch.suspects == set()
    clock.run(3.5)
    assert clock.watch.suspects == {LOW.node_id}
    assert [peer for _, peer in clock.pings].count(HIGH) == 1, "a second after it was heard"
    clock.run(9.0)
    assert [peer for _, peer in clock.failures] == [LOW]
    assert clock.silence_s()[0] <= 2.0 + 0.5 + 3.5
    assert LOW.node_id not in clock.watch.suspects


def test_a_hop_that_answered_is_left_alone() -> None:
    clock = Clock()
    clock.answering = {LOW}
    clock.watch.rely_on(LOW, 0.0)
    clock.run(30.0)
    assert [peer for _, peer in clock.pings] == [LOW]
    assert (len(clock.watch), clock.watch.next_timer()) == (0, None)
    clock.watch.rely_on(HIGH, 30.0)
    clock.run(40.0)
    assert [peer for _, peer in clock.failures] == [HIGH]


def test_an_answer_clears_suspicion() -> None:
    clock = Clock(near=(LOW,))
    clock.run(2.9)
    assert clock.watch.suspects == {LOW.node_id}
    assert clock.watch.heard(LOW, 2.9)
    assert clock.watch.suspects == set()
    clock.run(3.5)
    assert clock.failures == []


def test_doubt_pings_at_once() -> None:
    clock = Clock(far=(LOW,))
    clock.watch.ask(LOW, 0.1)
    assert [peer for peer, _ in clock.outbox.drain_messages()] == [LOW]


def test_who_was_suspended_asks_again_before_it_takes_anybody_for_dead() -> None:
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.watch.heard(LOW, 0.0)
    clock.run(2.0)
    clock.pings.clear()
    clock.tick(3600.0)
    assert clock.failures == []
    assert {peer for _, peer in clock.pings} == {LOW, HIGH}
    clock.run(3600.9)
    assert clock.failures == []
    clock.run(3650.0)
    assert [peer for _, peer in clock.failures] == [LOW, HIGH]


def test_what_is_watched_follows_what_matters() -> None:
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.watch.rely_on(Peer(7, "hop"), 0.0)
    for peer in (LOW, Peer(7, "hop")):
        clock.watch.heard(peer, 0.0)
    clock.watch.keep({HIGH.node_id: HIGH}, {}, 0.0)
    assert (LOW.node_id in clock.watch, HIGH.node_id in clock.watch, 7 in clock.watch) == (False, True, True)
    clock.watch.keep({}, {7: Peer(7, "hop")}, 0.0)
    assert (len(clock.watch), 7 in clock.watch) == (1, True)
    clock.watch.check()
    assert clock.watch.heard(Peer(7, "moved"), 0.0) is False
    clock.watch.renew(Peer(7, "moved"))
    assert clock.watch.peer(7) == Peer(7, "moved")


def test_who_owes_an_answer_is_not_let_go_without_it() -> None:
    clock = Clock(near=(LOW, HIGH))
    clock.answering = {HIGH}
    clock.run(1.5)
    clock.watch.keep({}, {}, clock.now)
    clock.run(5.0)
    assert [peer for _, peer in clock.failures] == [LOW]
    assert len(clock.watch) == 0


def test_hops_under_watch_are_bounded() -> None:
    clock = Clock()
    for number in range(2 * PASSING_MAX):
        clock.watch.rely_on(Peer(number, "hop"), 0.0)
    assert len(clock.watch) == PASSING_MAX
    clock.watch.check()


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"]), st.booleans(), st.floats(0, 10)), max_size=40)
)
def test_the_buried_and_the_gone_are_remembered_for_their_time(
    departures: list[tuple[int, str, bool, float]],
) -> None:
    departed, now, model = Departed(), 0.0, {}
    for node_id, address, is_gone, pause_s in departures:
        now += pause_s
        departed.bury(Peer(node_id, address), now, is_gone=is_gone)
        model[node_id] = (address, now)
        departed.check()
        for other, (where, since) in model.items():
            assert departed.is_buried(Peer(other, where), now) == (now < since + TOMBSTONE_S)
            assert not departed.is_buried(Peer(other, "elsewhere"), now)
    gone = {node_id for node_id, _, is_gone, _ in departures if is_gone}
    assert {node_id for node_id in range(6) if departed.is_gone(node_id)} == gone
    assert departed.has_gone == bool(gone)


def test_the_departed_are_bounded_and_the_oldest_make_room() -> None:
    departed = Departed()
    for number in range(2 * TOMBSTONES_MAX):
        departed.bury(Peer(number, "x"), float(number) / 1000, is_gone=True)
        departed.check()
    newest = range(2 * TOMBSTONES_MAX - GONE_MAX, 2 * TOMBSTONES_MAX)
    assert [number for number in range(2 * TOMBSTONES_MAX) if departed.is_gone(number)] == list(newest)
    assert departed.one_gone(10.0, random.Random(1)) is not None
    assert departed.one_gone(10.0 + GONE_S, random.Random(1)) is None


def test_a_quiet_overlay_costs_little() -> None:
    overlay = LivingOverlay(1, 32, groups=2)
    before = [node.statistics() for node in overlay.live]
    start = overlay.now
    overlay.run(30.0)
    after = [node.statistics() for node in overlay.live]
    sent = sum(b.sent - a.sent for a, b in zip(before, after, strict=True)) / 32 / (overlay.now - start)
    size = sum(b.sent_bytes - a.sent_bytes for a, b in zip(before, after, strict=True)) / 32 / (overlay.now - start)
    print(f"{sent:.1f} messages and {size:.0f} bytes a second from each of 32 nodes")
    assert sent <= 12.0
    assert size <= 1024.0
    assert [node.statistics().failed for node in overlay.live] == [0] * 32
