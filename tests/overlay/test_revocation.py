"""Lists of revoked certificates: what is taken, what is not and why, and how they spread."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from overlay import Authority, Peer, Revocation, RevocationError, Revocations, fingerprint, read_list
from overlay.transport.identity.revocation import LIST_BYTES_MAX
from overlay.transport.link.refusals import ViolationError
from overlay.transport.revocation_gossip import AGAIN_S, CODEC, MARK, TAKEN_MAX, Numbers, RevocationGossip, Revoked

AUTHORITY = Authority.create("shop")
OTHER = Authority.create("shop")


def der(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(Encoding.DER)


def listed(number: int, *serials: int, authority: Authority = AUTHORITY) -> bytes:
    return authority.revocation_list(number, [Revocation(serial, datetime.now(UTC)) for serial in serials])


def as_der(pem: bytes) -> bytes:
    return x509.load_pem_x509_crl(pem).public_bytes(Encoding.DER)


def without_a_number() -> bytes:
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(AUTHORITY.certificate.subject)
    crl = builder.last_update(now).next_update(now.replace(year=now.year + 1))
    return crl.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def test_a_list_is_read_whatever_its_form() -> None:
    pem = listed(7, 11, 12)
    for data in (pem, as_der(pem)):
        found = read_list(data, [der(OTHER), der(AUTHORITY)])
        assert (found.number, found.serials, found.authority) == (7, {11, 12}, fingerprint(der(AUTHORITY)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a list of revoked certificates"),
        (b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "not a list of revoked certificates"),
        (listed(7, 11)[:-40], "not a list of revoked certificates"),
        (as_der(listed(7, 11))[:-1], "not a list of revoked certificates"),
        (AUTHORITY.certificate_pem, "not a list of revoked certificates"),
        (without_a_number(), "the list is of another authority"),
        (listed(1 << 64, 11), "not a list of revoked certificates"),
        (listed(7, 11, authority=OTHER), "the list is of another authority"),
        (listed(7, 11, authority=Authority.create("zoo")), "the list is of another authority"),
        (b"\x30" * (3 * LIST_BYTES_MAX), "the list is too long"),
    ],
)
def test_what_is_no_list_of_ours_is_refused_in_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(RevocationError) as caught:
        read_list(data, [der(AUTHORITY)])
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_no_changed_bit_changes_what_a_list_says() -> None:
    good = as_der(listed(7, 11))
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            found = read_list(bytes(bad), [der(AUTHORITY)])
        except RevocationError:
            continue
        assert (found.number, found.serials) == (7, {11}), bit  # a bit of padding beside the signature


def test_a_list_that_is_signed_and_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.transport.identity.revocation.LIST_BYTES_MAX", 1000)
    with pytest.raises(RevocationError, match=r"the list is too long: 1,\d\d\d bytes, over the limit of 1,000"):
        read_list(as_der(listed(7, *range(2**150, 2**150 + 35))), [der(AUTHORITY)])


def test_the_higher_number_counts() -> None:
    kept: list[bytes] = []
    revocations = Revocations([der(AUTHORITY)], kept.append)
    six, seven = listed(6, 11), listed(7, 12)
    assert revocations.take(six)
    assert not revocations.take(six)
    assert revocations.is_revoked(11)
    assert revocations.take(seven)
    assert (revocations.is_revoked(11), revocations.is_revoked(12)) == (False, True)
    with pytest.raises(RevocationError, match=r"not newer than .* number 6, and there is one with number 7"):
        revocations.take(six)
    with pytest.raises(RevocationError, match="number 7, and there is one with number 7"):
        revocations.take(listed(7, 13))
    assert revocations.is_revoked(12)
    assert len(kept) == 2
    again = Revocations([der(AUTHORITY)])
    assert again.take(kept[-1])
    assert again.is_revoked(12)


def test_each_authority_has_its_list_for_as_long_as_it_counts() -> None:
    revocations = Revocations([der(AUTHORITY), der(OTHER)])
    revocations.take(listed(7, 11))
    revocations.take(listed(3, 12, authority=OTHER))
    assert revocations.is_revoked(11)
    assert revocations.is_revoked(12)
    revocations.trust([der(OTHER)])
    assert revocations.numbers == {fingerprint(der(OTHER)): 3}
    assert not revocations.is_revoked(11)
    with pytest.raises(RevocationError, match="another authority"):
        revocations.take(listed(8, 11))


class Epidemic:
    """Agents that have links to some others; messages arrive in order, one at a time."""

    def __init__(self, seed: int, count: int, links: int) -> None:
        self.chance = random.Random(seed)
        self.peers = [Peer(number + 1, f"10.0.0.1:{number + 1}") for number in range(count)]
        self.revocations = [Revocations([der(AUTHORITY)]) for _ in self.peers]
        self.agents = [
            RevocationGossip(revocations, self._sender(number), self.chance)
            for number, revocations in enumerate(self.revocations)
        ]
        self.links: list[set[int]] = [set() for _ in self.peers]
        for number in range(count):
            for other in {(number + 1) % count, *self.chance.sample(range(count), links)} - {number}:
                self.links[number].add(other)
                self.links[other].add(number)
        self.waiting: deque[tuple[int, int, bytes]] = deque()
        self.sent = {Numbers: 0, Revoked: 0}

    def give(self, number: int, data: bytes) -> None:
        assert self.revocations[number].take(data)
        self._tell(number)

    def settle(self, now: float = 0.0) -> None:
        while self.waiting:
            sender, receiver, data = self.waiting.popleft()
            self.sent[type(CODEC.decode(data[1:]))] += 1
            if self.agents[receiver].received(self.peers[sender], data, now):
                self._tell(receiver)

    def numbers(self) -> set[int]:
        return {number for revocations in self.revocations for number in revocations.numbers.values()}

    def _tell(self, number: int) -> None:
        self.agents[number].announce([self.peers[other] for other in sorted(self.links[number])])

    def _sender(self, number: int) -> object:
        def send(peer: Peer, data: bytes) -> None:
            self.waiting.append((number, peer.node_id - 1, data))

        return send


@pytest.mark.parametrize("seed", range(10))
def test_given_to_one_agent_a_list_reaches_all(seed: int) -> None:
    fleet = Epidemic(seed, count=100, links=4)
    for number in (5, 9):
        fleet.give(fleet.chance.randrange(100), listed(number, 11))
        fleet.settle(now=number * AGAIN_S)
        assert fleet.numbers() == {number}, seed
    links = sum(map(len, fleet.links))
    assert fleet.sent[Numbers] <= 2 * 2 * links, seed
    assert fleet.sent[Revoked] <= 2 * 3 * 100, seed  # a list goes to nobody more than a few times


def test_without_lists_nobody_says_anything() -> None:
    fleet = Epidemic(1, count=10, links=2)
    for agent in fleet.agents:
        agent.announce(fleet.peers)
        agent.remind(fleet.peers)
    assert not fleet.waiting


def test_two_that_know_different_lists_end_with_the_newer_one_and_rest() -> None:
    fleet = Epidemic(1, count=2, links=1)
    fleet.revocations[0].take(listed(5, 11))
    fleet.give(1, listed(6, 12))
    fleet.agents[0].announce([fleet.peers[1]])
    fleet.settle()
    assert fleet.numbers() == {6}
    assert sum(fleet.sent.values()) < 10


def test_what_went_amiss_is_mended_by_a_reminder() -> None:
    fleet = Epidemic(1, count=2, links=1)
    fleet.give(0, listed(5, 11))
    fleet.waiting.clear()
    fleet.agents[0].remind([fleet.peers[1]])
    fleet.settle()
    assert fleet.numbers() == {5}


def alone() -> tuple[RevocationGossip, list[bytes], Revocations]:
    sent: list[bytes] = []
    revocations = Revocations([der(AUTHORITY)])
    return RevocationGossip(revocations, lambda _peer, data: sent.append(data), random.Random(1)), sent, revocations


PEER = Peer(7, "10.0.0.7:7700")


def messages(*bodies: Numbers | Revoked) -> Iterable[bytes]:
    return [MARK + CODEC.encode(body) for body in bodies]


@pytest.mark.parametrize(
    "data",
    [
        MARK,
        MARK + b"nonsense",
        *messages(Revoked(b"nonsense"), Revoked(as_der(listed(7, 11, authority=OTHER)))),
        *messages(Revoked(b"\x30" * (LIST_BYTES_MAX + 1))),
        *messages(Numbers([(b"short", 1)]), Numbers([(bytes(32), -1)]), Numbers([(bytes(32), 1)] * 9)),
    ],
)
def test_what_no_agent_sends_is_a_violation(data: bytes) -> None:
    agent, sent, revocations = alone()
    with pytest.raises(ViolationError):
        agent.received(PEER, data, 0.0)
    assert not sent
    assert not revocations.lists


def test_a_peer_that_boasts_is_asked_and_no_more() -> None:
    agent, sent, _ = alone()
    name = fingerprint(der(AUTHORITY))
    for number in range(1, 1001):
        agent.received(PEER, next(iter(messages(Numbers([(name, 5)])))), number / 1000)
    assert len(sent) == 3
    agent.received(PEER, next(iter(messages(Numbers([(bytes(32), 5)])))), 2.0)  # of an authority nobody knows
    assert len(sent) == 3


def test_a_peer_that_asks_again_and_again_gets_a_list_once_in_a_while() -> None:
    agent, sent, revocations = alone()
    revocations.take(listed(5, 11))
    ask = next(iter(messages(Numbers([(fingerprint(der(AUTHORITY)), 0)]))))
    for _ in range(1000):
        agent.received(PEER, ask, 0.0)
    assert len(sent) == 1
    agent.received(PEER, ask, AGAIN_S)
    assert len(sent) == 2


def test_a_peer_that_sends_list_after_list_loses_its_link() -> None:
    agent, _, revocations = alone()
    revocations.take(listed(500, 11))
    *some, one_more = messages(*(Revoked(as_der(listed(number, 11))) for number in range(1, TAKEN_MAX + 2)))
    for data in some:
        assert not agent.received(PEER, data, 0.0)
    with pytest.raises(ViolationError, match="too many lists"):
        agent.received(PEER, one_more, 0.0)
