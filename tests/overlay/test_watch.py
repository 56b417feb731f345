"""The failure detector of one node, on a clock of the test's own; and what it costs a quiet overlay."""

import random

from hypothesis import given
from hypothesis import strategies as st
from living_overlay import LivingOverlay

from overlay import Peer
from overlay.core.outbox import CODEC, Outbox
from overlay.pastry.detection.health import SCORE_MAX, Health
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.pastry.detection.watch import ANSWER_MAX_S, ANSWER_S, PASSING_MAX, Watch
from overlay.pastry.tables.departed import GONE_MAX, GONE_S, TOMBSTONE_S, TOMBSTONES_MAX, Departed
from overlay.wire.messages import Ping

OWNER, LOW, HIGH = Peer(500, "owner"), Peer(100, "low"), Peer(900, "high")


class Clock:
    """Runs a watch tick by tick; peers in `answering` answer every ping at once."""

    def __init__(self, near: tuple[Peer, ...] = (), far: tuple[Peer, ...] = (), seed: int = 1) -> None:
        self.outbox = Outbox()
        self.health = Health()
        heartbeat = Heartbeat(1, self.outbox, random.Random(seed))
        self.watch = Watch(OWNER, heartbeat, self.health, random.Random(seed))
        self.now = 0.0
        self.answering: set[Peer] = set()
        self.pings: list[tuple[float, Peer]] = []
        self.tokens: list[int] = []
        self.silent: list[tuple[float, Peer]] = []
        self.suspected: list[tuple[float, Peer]] = []
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
        late_s = self.watch.late_s(now)
        if late_s > 0:
            self.watch.extend_deadlines(late_s, now)
        if self.watch.is_due(now):
            findings = self.watch.tick(now)
            self.silent += [(now, peer) for peer in findings.silent]
            self.suspected += [(now, watched.peer) for watched in findings.suspected]
            for peer in findings.lapsed:
                self.failures.append((now, peer))
                self.watch.forget(peer.node_id)
        self.watch.check()
        self.fetch()

    def fetch(self) -> None:
        for peer, data in self.outbox.drain_messages():
            message = CODEC.decode(data)
            assert isinstance(message, Ping)
            self.pings.append((self.now, peer))
            self.tokens.append(message.token)
            if peer in self.answering:
                self.answer(peer, message.token)

    def answer(self, peer: Peer, token: int) -> None:
        self.watch.note_alive(peer, self.now)
        self.watch.paired(peer, 0, self.now)
        self.watch.answered(peer, token, self.now)

    def pinged(self, peer: Peer) -> int:
        return [other for _, other in self.pings].count(peer)


def test_a_silent_peer_is_asked_then_asked_through_others_then_suspected_then_fails() -> None:
    clock = Clock(near=(LOW,))
    clock.watch.note_alive(LOW, 0.0)
    clock.watch.paired(LOW, 0, 0.0)
    clock.run(20.0)
    asked_s = clock.pings[0][0]
    assert 1.25 <= asked_s <= 1.5, "the other of the pair should have asked before"
    (silent_s, _), (suspected_s, _), (failed_s, _) = clock.silent + clock.suspected + clock.failures
    assert ANSWER_S <= silent_s - asked_s <= ANSWER_S + 0.25
    assert 2 * ANSWER_S <= suspected_s - asked_s <= 2 * ANSWER_S + 0.25
    assert 3.0 <= failed_s <= 4.0
    assert 5 <= clock.pinged(LOW) <= 9
    assert len(set(clock.tokens)) == 1, "it is the same question"
    assert clock.watch.next_timer() is None


def test_members_that_are_far_fail_as_fast_once_they_were_asked() -> None:
    clock = Clock(far=(HIGH,))
    clock.run(20.0)
    assert 5.5 <= clock.failures[0][0] <= 6.5


def test_who_answers_does_not_fail_and_is_pinged_once_a_period() -> None:
    clock = Clock(near=(HIGH,), far=(LOW,))
    clock.answering = {LOW, HIGH}
    clock.run(100.0)
    assert clock.failures == clock.suspected == clock.silent == []
    assert 75 <= clock.pinged(HIGH) <= 102
    assert 24 <= clock.pinged(LOW) <= 34
    assert len(set(clock.tokens)) == len(clock.tokens), "each is a new question"


def test_who_speaks_without_being_asked_is_pinged_only_if_it_is_near() -> None:
    """A near peer's pings carry what both ends compare, whatever else is said."""
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.answering = {LOW}
    for tenth in range(200):
        for peer in (LOW, HIGH):
            clock.watch.note_alive(peer, tenth / 10)
        clock.run(tenth / 10)
    assert clock.pinged(HIGH) == 0
    assert 12 <= clock.pinged(LOW) <= 20


def test_of_a_pair_the_one_with_the_lower_id_pings() -> None:
    """Whom the higher hears in time it does not ping."""
    higher = Clock(near=(LOW,))
    for number in range(50):
        higher.watch.note_alive(LOW, number * 1.1)
        higher.watch.paired(LOW, 0, number * 1.1)
        higher.run(number * 1.1)
    assert higher.pings == []


def test_a_peer_that_is_needed_is_pinged_at_once_unless_it_was_heard_lately() -> None:
    clock = Clock(far=(LOW, HIGH))
    clock.answering = {HIGH}
    clock.run(2.0)
    clock.watch.note_alive(HIGH, 2.0)
    for peer in (LOW, HIGH):
        clock.watch.rely_on(peer, 2.0)
    clock.run(2.4)
    assert [peer for _, peer in clock.pings] == [LOW]
    assert clock.watch.suspects == set()
    clock.run(4.0)
    assert clock.watch.suspects == {LOW.node_id}
    assert clock.pinged(HIGH) == 1, "a second after it was heard"
    clock.run(9.0)
    assert [peer for _, peer in clock.failures] == [LOW]
    assert clock.failures[0][0] <= 2.0 + 0.5 + 3.5
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


def test_any_word_clears_suspicion() -> None:
    clock = Clock(near=(LOW,))
    clock.run(2.0)
    assert clock.watch.suspects == {LOW.node_id}
    assert clock.watch.note_alive(LOW, 2.0)
    assert clock.watch.suspects == set()
    clock.run(2.9)
    assert clock.failures == []


def test_who_was_reached_by_another_is_alive() -> None:
    clock = Clock(near=(LOW,))
    for number in range(1, 20):
        clock.run(number * 1.7)
        clock.watch.reached(LOW.node_id, number * 1.7)
    assert clock.failures == []


def test_doubt_pings_at_once_but_not_again_and_again() -> None:
    clock = Clock(far=(LOW,))
    for hundredth in range(15):
        clock.watch.ask(LOW, 0.1 + hundredth / 100)
    clock.fetch()
    assert clock.pinged(LOW) == 1


def test_what_others_suspect_is_looked_into_and_dropped_on_no_account_of_theirs() -> None:
    clock = Clock(far=(LOW,))
    clock.answering = {LOW}
    for number in range(20):
        for by in (1, 2, 3, 4):
            clock.watch.note_suspicion(LOW.node_id, by, 0, clock.now)
        clock.fetch()
        clock.run(number / 2)
    assert clock.pinged(LOW) >= 19
    assert clock.failures == clock.suspected == []
    clock.watch.paired(LOW, 7, clock.now)
    before = len(clock.pings)
    clock.watch.note_suspicion(LOW.node_id, 1, 6, clock.now + 0.3)
    clock.fetch()
    assert len(clock.pings) == before, "that has been refuted"
    clock.watch.note_suspicion(77, 1, 6, clock.now)
    assert 77 not in clock.watch


def test_a_node_in_trouble_gives_others_more_time() -> None:
    well, ill = Clock(near=(LOW,)), Clock(near=(LOW,))
    ill.health.worsen(SCORE_MAX)
    for clock in (well, ill):
        clock.run(20.0)
    asked_s = ill.pings[0][0]
    assert ill.suspected[0][0] - asked_s >= 2 * ANSWER_MAX_S
    assert well.failures[0][0] < ill.failures[0][0] <= asked_s + 2 * ANSWER_MAX_S + 1.5


def test_answers_in_time_restore_trust_in_oneself() -> None:
    clock = Clock(near=(LOW,))
    clock.answering = {LOW}
    clock.health.worsen(SCORE_MAX + 5)
    assert clock.health.score == SCORE_MAX
    clock.run(15.0)
    assert clock.health.score == 0


def test_who_was_suspended_asks_again_before_it_takes_anybody_for_dead() -> None:
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.watch.note_alive(LOW, 0.0)
    clock.run(2.0)
    clock.pings.clear()
    clock.tick(3600.0)
    assert clock.failures == []
    assert {peer for _, peer in clock.pings} == {LOW, HIGH}
    clock.run(3602.4)
    assert clock.failures == []
    clock.run(3650.0)
    assert {peer for _, peer in clock.failures} == {LOW, HIGH}


def test_what_is_watched_follows_what_matters() -> None:
    clock = Clock(near=(LOW,), far=(HIGH,))
    clock.watch.rely_on(Peer(7, "hop"), 0.0)
    for peer in (LOW, Peer(7, "hop")):
        clock.watch.note_alive(peer, 0.0)
    clock.watch.keep({HIGH.node_id: HIGH}, {}, 0.0)
    assert (LOW.node_id in clock.watch, HIGH.node_id in clock.watch, 7 in clock.watch) == (False, True, True)
    clock.watch.keep({}, {7: Peer(7, "hop")}, 0.0)
    assert (len(clock.watch), 7 in clock.watch) == (1, True)
    clock.watch.check()
    assert clock.watch.note_alive(Peer(7, "moved"), 0.0) is False
    clock.watch.renew(Peer(7, "moved"))
    assert clock.watch.peer(7) == Peer(7, "moved")


def test_who_owes_an_answer_is_not_let_go_without_it() -> None:
    clock = Clock(near=(LOW, HIGH))
    clock.answering = {HIGH}
    clock.run(0.9)
    clock.watch.keep({}, {}, clock.now)
    clock.run(5.0)
    assert [peer for _, peer in clock.failures] == [LOW]
    clock.run(20.0)
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
        departed.add(Peer(node_id, address), now, is_gone=is_gone)
        model[node_id] = (address, now)
        departed.check()
        for other, (where, since) in model.items():
            assert departed.has_tombstone(Peer(other, where), now) == (now < since + TOMBSTONE_S)
            assert not departed.has_tombstone(Peer(other, "elsewhere"), now)
    gone = {node_id for node_id, _, is_gone, _ in departures if is_gone}
    assert {node_id for node_id in range(6) if departed.is_gone(node_id)} == gone
    assert departed.has_gone == bool(gone)


def test_the_departed_are_bounded_and_the_oldest_make_room() -> None:
    departed = Departed()
    for number in range(2 * TOMBSTONES_MAX):
        departed.add(Peer(number, "x"), float(number) / 1000, is_gone=True)
        departed.check()
    newest = range(2 * TOMBSTONES_MAX - GONE_MAX, 2 * TOMBSTONES_MAX)
    assert [number for number in range(2 * TOMBSTONES_MAX) if departed.is_gone(number)] == list(newest)
    assert departed.random_gone(10.0, random.Random(1)) is not None
    assert departed.random_gone(10.0 + GONE_S, random.Random(1)) is None


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
