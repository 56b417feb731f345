"""Suspicions, helpers and relays, leases and messages in flight, each part by itself."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from overlay import Id, Peer
from overlay.core.outbox import CODEC, Outbox
from overlay.pastry.detection.heartbeat import REFUTATION_PAUSE_S, Heartbeat
from overlay.pastry.detection.indirect import HELPERS, NACK_S, RELAYED_MAX, Helpers, Relay
from overlay.pastry.detection.lease import LEASE_S, PROMISE_S, RELAYED_PROMISE_S, Leases
from overlay.pastry.detection.suspicion import CONFIRMATIONS, SUSPICIONS_MAX, TELL_S, Suspicions, suspicion_s
from overlay.pastry.forwarding.in_flight import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX, TRIES_MAX, InFlight
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.messages import PingReport, PingRequest, RelayedPing, Route

OWNER, BELOW, ABOVE = Peer(500, "owner"), Peer(400, "below"), Peer(900, "above")


def test_a_suspicion_lasts_the_shorter_the_more_share_it_and_the_longer_the_larger_the_ring() -> None:
    for size in (1, 10, 1280, 10_000):
        lengths = [suspicion_s(confirmations, size) for confirmations in range(CONFIRMATIONS + 2)]
        assert all(more <= fewer for fewer, more in pairwise(lengths))
        assert round(lengths[0] / lengths[CONFIRMATIONS], 6) == 6.0
        assert lengths[CONFIRMATIONS] == lengths[CONFIRMATIONS + 1] >= 4.0
    assert 12.0 < suspicion_s(CONFIRMATIONS, 1280) < 13.0


def run_out(suspicions: Suspicions, until: float) -> tuple[list[float], list[tuple[float, Peer]]]:
    """When suspects were told, and whose membership was over when."""
    told: list[float] = []
    over: list[tuple[float, Peer]] = []
    while (due := suspicions.next_timer()) is not None and due <= until:
        tick_told, tick_over = suspicions.tick(due)
        suspicions.check()
        told += [due] * len(tick_told)
        over += [(due, peer) for peer in tick_over]
    return told, over


def test_a_suspect_is_told_until_its_membership_is_over() -> None:
    suspicions = Suspicions(random.Random(1))
    suspicions.begin(BELOW, 0, set(), 10.0, 0.0, tell=True)
    told, over = run_out(suspicions, 100.0)
    assert over == [(24.0, BELOW)]
    assert 24.0 / (1.25 * TELL_S) - 1 <= len(told) <= 24.0 / (0.75 * TELL_S)
    assert len(suspicions) == 0


def test_others_that_confirm_a_suspicion_shorten_it_but_not_the_same_one_twice_nor_old_news() -> None:
    suspicions = Suspicions(random.Random(1))
    suspicions.begin(BELOW, 5, set(), 10.0, 0.0, tell=False)
    assert [suspicions.confirm(BELOW.node_id, by, inc) for by, inc in ((1, 5), (1, 5), (2, 4))] == [True] * 3
    assert not suspicions.confirm(77, 1, 5)
    assert run_out(suspicions, suspicion_s(1, 10.0) - 0.1) == ([], [])
    suspicions.confirm(BELOW.node_id, 3, 5)
    told, over = run_out(suspicions, 100.0)
    assert told == []
    assert [peer for _, peer in over] == [BELOW]


def test_who_is_heard_is_suspected_no_longer_and_a_standstill_does_not_count() -> None:
    suspicions = Suspicions(random.Random(1))
    for peer in (BELOW, ABOVE):
        suspicions.begin(peer, 0, {1, 2}, 10.0, 0.0, tell=False)
    assert (suspicions.end(ABOVE.node_id), suspicions.end(ABOVE.node_id)) == (True, False)
    suspicions.extend_deadlines(100.0)
    assert run_out(suspicions, 103.9) == ([], [])
    assert run_out(suspicions, 110.0) == ([], [(104.0, BELOW)])


def test_suspicions_are_bounded_and_the_oldest_is_over_early() -> None:
    suspicions = Suspicions(random.Random(1))
    for number in range(SUSPICIONS_MAX + 10):
        suspicions.begin(Peer(number, "x"), 0, set(), 10.0, 1.0 + number / 1000, tell=False)
    _, over = run_out(suspicions, 2.0)
    assert [peer.node_id for _, peer in over] == list(range(10))
    assert len(suspicions) == SUSPICIONS_MAX


def test_only_what_is_news_raises_an_incarnation_and_only_so_fast() -> None:
    heartbeat = Heartbeat(3, Outbox(), random.Random(1))
    first = heartbeat.incarnation
    assert first == 3 << 20
    assert heartbeat.refute(first - 1, 10.0) == first
    assert heartbeat.refute(first, 10.0) == first + 1
    assert heartbeat.refute((1 << 64) - 1, 10.0 + REFUTATION_PAUSE_S / 2) == first + 1, "whoever says that lies"
    assert heartbeat.refute((1 << 64) - 1, 10.0 + REFUTATION_PAUSE_S) == first + 2
    for number in range(3):
        heartbeat._last = first + 3
        heartbeat.refute(first + 9, 20.0 + number)
    assert heartbeat.incarnation == first + 3 < Heartbeat(4, Outbox(), random.Random(1)).incarnation


def heartbeat_of(outbox: Outbox) -> Heartbeat:
    return Heartbeat(1, outbox, random.Random(1))


def test_some_of_many_are_asked_to_help_and_believed_once() -> None:
    outbox = Outbox()
    helpers = Helpers(heartbeat_of(outbox), outbox, random.Random(1))
    candidates = [Peer(number, "helper") for number in range(10, 20)]
    helpers.ask(BELOW, candidates, 3.0)
    sent = [(peer, CODEC.decode(data)) for peer, data in outbox.drain_messages()]
    assert len({peer for peer, _ in sent}) == HELPERS
    request = sent[0][1]
    assert isinstance(request, PingRequest)
    assert request.target == BELOW
    report = PingReport(target=Id(BELOW.node_id), token=request.token, reached=True)
    stranger = next(peer for peer in candidates if peer not in [asked for asked, _ in sent])
    assert helpers.reported(stranger, report) is None
    assert helpers.are_silent(BELOW.node_id)
    helpers.reported(sent[0][0], PingReport(target=Id(BELOW.node_id), token=request.token, reached=False))
    assert not helpers.are_silent(BELOW.node_id)
    assert helpers.reported(sent[1][0], report) == 3.0
    assert helpers.reported(sent[2][0], report) is None
    assert len(helpers) == 0


def test_a_relay_reports_both_ways_and_has_bounded_room() -> None:
    outbox = Outbox()
    relay = Relay(heartbeat_of(outbox), outbox)
    for number in range(RELAYED_MAX + 5):
        relay.handle_request(BELOW, PingRequest(target=ABOVE, token=number), 1.0)
        relay.check()
    assert outbox.counters.refused == 5
    pings = [CODEC.decode(data) for peer, data in outbox.drain_messages() if peer == ABOVE]
    assert len(pings) == RELAYED_MAX
    assert isinstance(pings[0], RelayedPing)
    assert pings[0].origin == BELOW
    assert not relay.answered(BELOW, pings[0].token), "it was not asked"
    assert relay.answered(ABOVE, pings[0].token)
    relay.tick(1.0 + NACK_S / 2)
    assert [CODEC.decode(data) for _, data in outbox.drain_messages()] == [
        PingReport(target=Id(ABOVE.node_id), token=0, reached=True)
    ]
    relay.tick(1.0 + NACK_S)
    reports = [CODEC.decode(data) for _, data in outbox.drain_messages()]
    assert len(reports) == RELAYED_MAX - 1
    assert all(isinstance(report, PingReport) and not report.reached for report in reports)
    assert relay.next_timer() is None


def leases_between(*neighbours: Peer) -> tuple[PeerTables, Leases]:
    tables = PeerTables(OWNER, set(), random.Random(1))
    for peer in neighbours:
        tables.meet(peer)
    leases = Leases(tables)
    leases.follow(0.0)
    return tables, leases


def test_without_neighbours_a_node_owns_every_key() -> None:
    _, leases = leases_between()
    leases.follow(100.0)
    assert leases.cover(7)
    assert leases.next_timer() is None


def test_a_lapsed_lease_stops_the_node_where_the_neighbour_would_inherit() -> None:
    tables, leases = leases_between(BELOW, ABOVE)
    leases.answered(ABOVE.node_id, 1.0, 1.0)
    assert leases.next_timer() == LEASE_S
    leases.follow(LEASE_S)
    assert (leases.cover(460), leases.cover(690)) == (False, True)
    assert leases.next_timer() == 1.0 + LEASE_S
    leases.answered(BELOW.node_id, 2.5, 3.5)
    assert leases.cover(460), "at once"
    leases.follow(5.6)
    assert (leases.cover(460), leases.cover(690)) == (False, False)
    tables.forget(BELOW.node_id)
    tables.forget(ABOVE.node_id)
    leases.follow(5.6)
    assert leases.cover(460)


def test_only_a_new_question_is_a_promise() -> None:
    _, leases = leases_between(BELOW)
    leases.pinged(BELOW.node_id, 1, 1.0)
    leases.pinged(BELOW.node_id, 1, 3.0)
    leases.follow(1.0 + PROMISE_S)
    assert not leases.cover(460), "it still waits for an answer"
    leases.pinged(BELOW.node_id, 2, 4.0)
    assert leases.cover(460)
    leases.relayed(BELOW.node_id, 6.0)
    leases.follow(6.0 + RELAYED_PROMISE_S - 0.1)
    assert leases.cover(460)
    leases.pinged(77, 3, 8.0)
    leases.follow(8.0)
    assert not leases.cover(460), "a stranger has nothing to promise"


def route(message_id: int, payload: bytes = b"") -> Route:
    return Route(message_id=message_id, key=Id(1), origin=OWNER, hops=0, payload=payload, wants_response=False)


def test_what_was_acknowledged_is_waited_for_no_longer_whoever_of_those_tried_says_so() -> None:
    in_flight = InFlight(Outbox())
    in_flight.add(7, route(1), 0.0)
    in_flight.acknowledged(8, 1, 0.1)
    assert len(in_flight) == 1
    (sent,) = in_flight.take_due(0.3)
    in_flight.add(8, sent.message, 0.3, sent)
    in_flight.acknowledged(7, 1, 0.4)
    assert len(in_flight) == 0
    assert in_flight.take_due(9.0) == []
    in_flight.check()


def test_tries_come_more_and_more_seldom_and_remember_who_was_tried() -> None:
    in_flight = InFlight(Outbox())
    in_flight.add(0, route(1), 0.0)
    times = [0.0]
    for number in range(1, TRIES_MAX):
        due = in_flight.next_timer()
        assert due is not None
        times.append(due)
        (sent,) = in_flight.take_due(due)
        assert sent.tried | {sent.hop_id} == set(range(number))
        in_flight.add(number, sent.message, due, sent)
        in_flight.check()
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert all(later > earlier - 1e-9 for earlier, later in pairwise(pauses))
    assert 0.29 < pauses[0] < 0.31
    assert times[-1] > 6.0, "longer than it takes until a dead peer has failed"


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 4 << 20)), max_size=60))
def test_messages_in_flight_are_bounded_and_the_oldest_are_let_go(script: list[tuple[int, int]]) -> None:
    outbox = Outbox()
    in_flight = InFlight(outbox)
    payload = bytes(4 << 20)
    for message_id, size in script:
        in_flight.add(7, route(message_id, payload[:size]), 0.0)
        in_flight.check()
    for number in range(IN_FLIGHT_MAX + 1):
        in_flight.add(7, route(10_000 + number), 0.0)
    in_flight.check()
    assert outbox.counters.unguarded > 0
    assert IN_FLIGHT_BYTES_MAX >= 4 << 20
