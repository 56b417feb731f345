"""A revoked agent loses its links at once and gets no new ones; one with a new certificate loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from creator_world import maker
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from transport_fleet import Agent, Fleet, bounded, receive_or_end, until

from overlay import (
    Authority,
    CreatorTrust,
    Credentials,
    Identity,
    Revocation,
    RevocationError,
    UntrustedCreatorError,
    format_id,
)
from overlay.wire.ids import Id

SOON = {"sweep_s": 0.01, "goodbye_s": 0.5}


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


def revoked(authority: Authority, number: int, *agents: Agent) -> bytes:
    now = datetime.now(UTC)
    return authority.revocation_list(
        number, [Revocation(agent.transport.admission.trust.identity.claims.serial, now) for agent in agents]
    )


def refused(agent: Agent) -> dict[str, int]:
    return dict(agent.transport.statistics().refused)


def linked(agent: Agent) -> set[int]:
    return {link.peer.node_id for link in agent.transport.connections()}


async def link_up(one: Agent, *others: Agent) -> None:
    for other in others:
        one.send(other, b"hello")
        await until(lambda other=other: (one.peer.node_id, b"hello") in other.recorder.messages)
        await until(lambda other=other: other.peer.node_id in linked(one))


@bounded
async def test_a_revoked_agent_is_shut_out_of_the_whole_fleet(fleet: Fleet) -> None:
    one, two, three, four, thief = [await fleet.start(number) for number in (1, 2, 3, 4, 5)]
    for agent in (one, two, three, four):
        await link_up(agent, thief)
    await link_up(one, two)
    await link_up(two, three)
    await link_up(three, four)
    assert one.transport.admission.revoke(
        revoked(fleet.authority, 1, thief)
    )  # four hears of it from the last in the chain
    await until(lambda: not linked(thief))
    for agent in (one, two, three, four):
        assert agent.recorder.events == [("disconnected", 5)]
        assert refused(agent) == {"certificate revoked": 1}
    for agent in (one, four):
        thief.send(agent, b"let me in")
        agent.send(thief, b"a secret")
    await until(lambda: [event for event, _ in one.recorder.events].count("unreachable") == 1)
    await until(lambda: refused(four)["certificate revoked"] == 2)
    assert one.recorder.reasons[0].startswith("certificate revoked (agent-5, serial number ")
    assert b"a secret" not in thief.recorder.payloads
    assert b"let me in" not in one.recorder.payloads + four.recorder.payloads
    assert linked(two) == {1, 3}


@bounded
async def test_who_comes_later_is_told_by_whom_it_meets(fleet: Fleet) -> None:
    one, thief = await fleet.start(1), await fleet.start(5)
    one.transport.admission.revoke(revoked(fleet.authority, 1, thief))
    late = await fleet.start(2)
    await link_up(late, thief)
    await link_up(late, one)
    await until(lambda: 5 not in linked(late))
    assert refused(late) == {"certificate revoked": 1}


@bounded
async def test_a_revoked_creator_is_refused_by_the_whole_fleet(fleet: Fleet) -> None:
    one, two, three = agents = [await fleet.start(number) for number in (1, 2, 3)]
    await link_up(one, two)
    await link_up(two, three)
    maria, oleg = maker(fleet.authority), maker(fleet.authority, "oleg")
    creators = [CreatorTrust(agent.transport.admission.trust) for agent in agents]
    for trust in creators:
        trust.check(maria.certificate, b"a job", maria.key.sign(b"a job"), time.time())
    one.transport.admission.revoke(fleet.authority.revocation_list(1, [Revocation(maria.serial, datetime.now(UTC))]))
    await until(lambda: three.transport.admission.trust.revocations.is_revoked(maria.serial))
    for trust in creators:
        with pytest.raises(UntrustedCreatorError, match="creator's certificate revoked: maria, "):
            trust.check(maria.certificate, b"a job", maria.key.sign(b"a job"), time.time())
        trust.check(oleg.certificate, b"a job", oleg.key.sign(b"a job"), time.time())
    assert linked(two) == {1, 3}  # which is nothing to the agents


@bounded
async def test_lists_that_are_not_taken_change_nothing(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    await link_up(one, two)
    one.transport.admission.revoke(revoked(fleet.authority, 5))
    for bad in (revoked(fleet.authority, 4, two), revoked(Authority.create("shop"), 6, two), b"\x30\x82"):
        with pytest.raises(RevocationError):
            one.transport.admission.revoke(bad)
    one.send(two, b"still here")
    await until(lambda: b"still here" in two.recorder.payloads)


@bounded
async def test_a_certificate_that_runs_out_ends_a_living_link(fleet: Fleet) -> None:
    offset = 0.0
    one = await fleet.start(1, wall_s=lambda: time.time() + offset, **SOON)
    two = await fleet.start(2)
    await link_up(one, two)
    offset = 366 * 86_400.0
    await until(lambda: not linked(one))
    assert one.recorder.events == [("disconnected", 2)]
    assert refused(one)["certificate expired"] >= 1


def crafted(authority: Authority, *uris: str) -> Credentials:
    """A certificate that the authority's commands would never make."""
    usual = x509.load_pem_x509_certificate(authority.issue("agent-2", node_id=2).certificate_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
    builder = (
        x509.CertificateBuilder()
        .subject_name(usual.subject)
        .issuer_name(usual.issuer)
        .public_key(key.public_key())
        .serial_number(usual.serial_number)
        .not_valid_before(usual.not_valid_before_utc)
        .not_valid_after(usual.not_valid_after_utc)
    )
    for extension in usual.extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName | x509.SubjectKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate = builder.add_extension(names, critical=False).sign(authority._key, hashes.SHA256())
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Credentials(certificate.public_bytes(serialization.Encoding.PEM), key_pem, Id(2))


@pytest.mark.parametrize(
    ("uris", "reason"),
    [
        ([f"elf://shop/client/{format_id(2)}"], "not an agent's certificate"),
        ([f"elf://shop/creator/{format_id(2)}"], "not an agent's certificate"),
        ([f"elf://shop/agent/{format_id(2)}", f"elf://shop/agent/{format_id(3)}"], "not an agent's certificate"),
        ([f"elf://shop/{format_id(2)}"], "not an agent's certificate"),
        ([f"elf://zoo/agent/{format_id(2)}"], "another fleet"),
    ],
)
@bounded
async def test_only_one_agent_of_the_fleet_may_be_what_a_certificate_says(
    fleet: Fleet, uris: list[str], reason: str
) -> None:
    one = await fleet.start(1)
    async with await fleet.dial_raw(one.peer.address, crafted(fleet.authority, *uris)) as stream:
        assert not await receive_or_end(stream)  # not even a hello
    await until(lambda: refused(one))
    assert refused(one) == {reason: 1}


class Rotation:
    """A fleet of transports that all talk to each other, and the files of its agents."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.old, self.new = fleet.authority, Authority.create("shop")
        self.agents: list[Agent] = []
        self._told = 0

    async def start(self, count: int) -> None:
        self.agents = [await self.fleet.start(number + 1, **SOON) for number in range(count)]
        await self.everybody_hears_everybody()

    def identities(self, issuer: Authority, *trusted: Authority) -> Iterator[tuple[Agent, Identity]]:
        for agent in self.agents:
            files = self.fleet.write(issuer.issue(f"agent-{agent.peer.node_id}", node_id=agent.peer.node_id))
            files[0].write_bytes(b"".join(authority.certificate_pem for authority in trusted))
            yield agent, Identity.load(*files)

    async def step(self, issuer: Authority, *trusted: Authority) -> None:
        """One agent after the other gets its new files; all go on talking to each other all the time."""
        for agent, identity in self.identities(issuer, *trusted):
            agent.transport.admission.use(identity)
            await self.everybody_hears_everybody()

    async def everybody_hears_everybody(self) -> None:
        self._told += 1
        message = f"message {self._told}".encode()
        for one in self.agents:
            for other in self.agents:
                if other is not one:
                    one.send(other, message)
        await until(lambda: all(self._heard(agent, message) for agent in self.agents))

    def _heard(self, agent: Agent, message: bytes) -> bool:
        return len({sender for sender, data in agent.recorder.messages if data == message}) == len(self.agents) - 1


@bounded
async def test_the_authority_is_replaced_without_a_stop(fleet: Fleet) -> None:
    rotation = Rotation(fleet)
    await rotation.start(4)
    await rotation.step(rotation.old, rotation.old, rotation.new)  # install
    await rotation.step(rotation.new, rotation.old, rotation.new)  # use
    await rotation.step(rotation.new, rotation.new)  # remove
    for agent in rotation.agents:
        assert agent.recorder.events == []  # nobody was unreachable, and no link broke
        assert refused(agent) == {}
        assert agent.transport.statistics().dropped == 0
    one = rotation.agents[0]
    with pytest.raises(trio.BrokenResourceError):
        async with await fleet.dial_raw(one.peer.address, fleet.credentials(9, rotation.old)) as stream:
            await stream.receive_some()
    await until(lambda: refused(one))
    assert refused(one) == {"certificate of another authority": 1}


@bounded
async def test_when_an_authority_is_removed_links_by_its_word_end(fleet: Fleet) -> None:
    rotation = Rotation(fleet)
    await rotation.start(2)
    await rotation.step(rotation.old, rotation.old, rotation.new)
    one, straggler = rotation.agents
    (identity,) = [identity for agent, identity in rotation.identities(rotation.new, rotation.new) if agent is one]
    one.transport.admission.use(identity)
    await until(lambda: not linked(one))
    one.send(straggler, b"x")
    await until(lambda: one.recorder.events)
    assert one.recorder.events == [("unreachable", 2)]
    assert one.recorder.reasons[0].startswith("certificate of another authority")


@bounded
async def test_an_agent_stays_who_it_is(fleet: Fleet) -> None:
    one = await fleet.start(1)
    for make in _others(fleet):
        with pytest.raises(ValueError, match="the new certificate is that of another agent"):
            one.transport.admission.use(make())
    assert one.transport.admission.trust.identity.node_id == 1


def _others(fleet: Fleet) -> list[Callable[[], Identity]]:
    renamed = fleet.authority.issue("another", node_id=1)
    return [lambda: fleet.identity(2), lambda: Identity.load(*fleet.write(renamed))]


@bounded
async def test_what_is_the_transports_own_is_nobodys_message(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    with pytest.raises(ValueError, match="0xC1"):
        one.send(two, b"\xc1 is where the transport's own begin")
    async with fleet.raw_peer(one, 3) as raw:
        await until(lambda: linked(one) == {3})
        await raw.send(b"\xc1nonsense")
        await until(lambda: not linked(one))
    assert refused(one) == {"malformed message": 1}
    assert one.recorder.messages == []
