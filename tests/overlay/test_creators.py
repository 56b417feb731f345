"""Trust in creators: their certificates and signatures, as an agent judges them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from creator_world import DAY_S, NOW, Maker, as_der, crafted, identity, maker, revoke, trust_in
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from overlay import Authority, CreatorTrust, UntrustedCreatorError, format_id
from overlay.transport.identity.creators import CERTIFICATE_BYTES_MAX, VERIFIED_MAX
from overlay.transport.identity.trust import Trust

AUTHORITY = Authority.create("shop")
NEW = Authority.create("shop")
MARIA = maker(AUTHORITY)
PAYLOAD = b"what maria signs"
SIGNATURE = MARIA.key.sign(PAYLOAD)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> CreatorTrust:
    """Of an agent that nothing changes for."""
    return CreatorTrust(trust_in(tmp_path_factory.mktemp("agent") / "5", AUTHORITY))


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return trust_in(tmp_path / "5", AUTHORITY)


def refusal(creators: CreatorTrust, certificate: bytes, now: float = NOW) -> UntrustedCreatorError:
    with pytest.raises(UntrustedCreatorError) as caught:
        creators.claims(certificate, now)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


def test_a_certificate_says_who_signs_what_it_comes_with(shared: CreatorTrust) -> None:
    claims = shared.check(MARIA.certificate, PAYLOAD, SIGNATURE, NOW)
    assert (claims.fleet, claims.name, claims.public_key) == ("shop", "maria", MARIA.public_key)
    assert claims.serial == MARIA.serial
    assert NOW + 364 * DAY_S < claims.expires_at < NOW + 366 * DAY_S


def test_a_creators_certificate_is_for_signatures_and_for_clients() -> None:
    found = x509.load_der_x509_certificate(MARIA.certificate)
    usage = found.extensions.get_extension_for_class(x509.KeyUsage).value
    assert [usage.digital_signature, usage.key_cert_sign, usage.crl_sign, usage.key_agreement] == [True, *[False] * 3]
    extended = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.CLIENT_AUTH]
    assert len(MARIA.certificate) < 1024


@pytest.mark.parametrize(
    ("name", "public_key", "days", "words"),
    [
        ("", bytes(32), 1.0, "a creator's name is 1 to 64 printable characters"),
        ("maria\n", bytes(32), 1.0, "a creator's name"),
        ("maria", bytes(31), 1.0, "32 bytes"),
        ("maria", bytes(32), 0.0, "would end"),
    ],
)
def test_what_makes_no_certificate_is_a_value_error(name: str, public_key: bytes, days: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AUTHORITY.trust(name, public_key, days=days)


def test_a_certificate_counts_between_its_dates(shared: CreatorTrust) -> None:
    for now, reason in ((NOW + 366 * DAY_S, "creator's certificate expired"), (NOW - DAY_S, "not yet valid")):
        for _ in range(2):  # also when it is remembered
            error = refusal(shared, MARIA.certificate, now)
            assert reason in error.reason
            assert "maria, " in str(error)
        shared.claims(MARIA.certificate, NOW)


def by_an_agent() -> bytes:
    """Signed by an agent of the fleet, as if it were an authority."""
    agent = AUTHORITY.issue("web-5", node_id=5)
    certificate = x509.load_pem_x509_certificate(agent.certificate_pem)
    key = serialization.load_pem_private_key(agent.key_pem, None)
    return crafted(AUTHORITY, signer=key, issuer=certificate.subject)


def by_an_authority_below() -> bytes:
    """Signed by an authority that the fleet's has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    below = x509.load_der_x509_certificate(
        crafted(AUTHORITY, names=["below"], uris=["elf://shop"], key=key.public_key(), is_authority=True)
    )
    return crafted(AUTHORITY, signer=key, issuer=below.subject)


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (maker(NEW).certificate, "creator's certificate of another authority"),
        (maker(Authority.create("zoo")).certificate, "creator's certificate of another authority"),
        (by_an_agent(), "creator's certificate of another authority"),
        (by_an_authority_below(), "creator's certificate of another authority"),
        (crafted(AUTHORITY, signer=MARIA.key), "creator's certificate of another authority"),
        (b"", "creator's certificate malformed"),
        (MARIA.certificate[:-1], "creator's certificate malformed"),
        (MARIA.certificate + b"\0", "creator's certificate malformed"),
        (AUTHORITY.trust("maria", MARIA.public_key), "creator's certificate malformed"),  # PEM
        (MARIA.certificate + bytes(CERTIFICATE_BYTES_MAX), "creator's certificate too large"),
        (as_der(AUTHORITY.issue("web-5").certificate_pem), "not a creator's certificate"),
        (as_der(AUTHORITY.certificate_pem), "not a creator's certificate"),
        (crafted(AUTHORITY, uris=[]), "not a creator's certificate"),
        (crafted(AUTHORITY, uris=[f"elf://shop/creator/{format_id(5)}"]), "not a creator's certificate"),
        (crafted(AUTHORITY, uris=[f"elf://shop/agent/{format_id(5)}"]), "not a creator's certificate"),
        (crafted(AUTHORITY, uris=[f"elf://shop/creator/{format_id(5)}"] * 2), "not a creator's certificate"),
        (crafted(AUTHORITY, is_authority=True), "not a creator's certificate"),
        (crafted(AUTHORITY, names=["maria", "web-5"]), "not a creator's certificate"),
        (crafted(AUTHORITY, names=["\x1b[2Jmaria"]), "not a creator's certificate"),
        (crafted(AUTHORITY, without=x509.SubjectAlternativeName), "not a creator's certificate"),
        (crafted(AUTHORITY, without=x509.BasicConstraints), "not a creator's certificate"),
    ],
)
def test_who_is_no_creator_of_the_fleet_is_told_why(shared: CreatorTrust, certificate: bytes, reason: str) -> None:
    assert refusal(shared, certificate).reason == reason


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()).public_key(),
        rsa.generate_private_key(65537, 2048).public_key(),
        ed448.Ed448PrivateKey.generate().public_key(),
    ],
)
def test_creators_have_keys_of_one_kind(shared: CreatorTrust, key: object) -> None:
    certificate = crafted(AUTHORITY, key=key, uris=[f"elf://shop/creator/{format_id(5)}"])
    assert str(refusal(shared, certificate)) == (
        "not a creator's certificate: maria: its key is not the one it speaks of"
    )


def test_the_fleets_authority_speaks_for_its_fleet_alone(shared: CreatorTrust) -> None:
    key = Ed25519PrivateKey.generate().public_key()
    uri = x509.load_der_x509_certificate(crafted(Authority.create("zoo"), key=key))
    names = uri.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert str(refusal(shared, crafted(AUTHORITY, key=key, uris=uris))) == "creator of another fleet: maria of zoo"


@pytest.mark.parametrize(
    ("public_key", "payload", "signature"),
    [
        (MARIA.public_key, PAYLOAD + b".", SIGNATURE),
        (maker(AUTHORITY).public_key, PAYLOAD, SIGNATURE),
        (MARIA.public_key, PAYLOAD, bytes(64)),
        (MARIA.public_key, PAYLOAD, SIGNATURE[:-1]),
        (MARIA.public_key, PAYLOAD, SIGNATURE + b"\0"),
        (MARIA.public_key[:-1], PAYLOAD, SIGNATURE),
        (b"", PAYLOAD, SIGNATURE),
        (b"\xff" * 32, PAYLOAD, SIGNATURE),
    ],
    ids=["payload", "key", "zeros", "short", "long", "short key", "no key", "bad key"],
)
def test_another_signature_is_not_believed(
    shared: CreatorTrust, public_key: bytes, payload: bytes, signature: bytes
) -> None:
    shared.verify(MARIA.public_key, PAYLOAD, SIGNATURE)
    with pytest.raises(UntrustedCreatorError, match="not the creator's signature"):
        shared.verify(public_key, payload, signature)


def test_an_agent_cannot_sign_for_a_creator(shared: CreatorTrust) -> None:
    agent = AUTHORITY.issue("web-5")
    key = serialization.load_pem_private_key(agent.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signature = key.sign(PAYLOAD, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(UntrustedCreatorError, match="not a creator's certificate: web-5: its role is agent"):
        shared.check(as_der(agent.certificate_pem), PAYLOAD, signature, NOW)
    with pytest.raises(UntrustedCreatorError, match="not the creator's signature"):
        shared.check(MARIA.certificate, PAYLOAD, signature, NOW)


def test_no_changed_bit_makes_another_creator(shared: CreatorTrust) -> None:
    good = shared.claims(MARIA.certificate, NOW)
    for bit in range(8 * len(MARIA.certificate)):
        bad = bytearray(MARIA.certificate)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            assert shared.claims(bytes(bad), NOW) == good, bit
        except UntrustedCreatorError:
            continue


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A certificate with some of it replaced, removed or added to."""
    good = draw(st.sampled_from([MARIA.certificate, as_der(AUTHORITY.certificate_pem)]))
    start = draw(st.integers(0, len(good)))
    end = draw(st.integers(start, min(len(good), start + 40)))
    return good[:start] + draw(st.binary(max_size=40)) + good[end:]


@pytest.mark.fuzz
@given(certificate=mangled() | st.binary(max_size=CERTIFICATE_BYTES_MAX + 10), signature=st.binary(max_size=70))
def test_whatever_bytes_come_they_are_refused_and_no_more(
    shared: CreatorTrust, certificate: bytes, signature: bytes
) -> None:
    if certificate != MARIA.certificate:
        refusal(shared, certificate)
    with pytest.raises(UntrustedCreatorError):
        shared.check(MARIA.certificate, PAYLOAD, signature, NOW)
    with pytest.raises(UntrustedCreatorError):
        shared.verify(certificate[:32], PAYLOAD, SIGNATURE)


def test_who_is_revoked_is_refused_from_then_on(trust: Trust) -> None:
    creators, other = CreatorTrust(trust), maker(AUTHORITY, "oleg")
    creators.check(MARIA.certificate, PAYLOAD, SIGNATURE, NOW)
    revoke(trust, AUTHORITY, 1, MARIA.serial)
    error = refusal(creators, MARIA.certificate)
    assert error.reason == "creator's certificate revoked"
    assert f"maria, serial number {MARIA.serial:x}, since 20" in str(error)
    creators.claims(other.certificate, NOW)
    revoke(trust, AUTHORITY, 2)  # a list without her: the authority has changed its mind
    creators.claims(MARIA.certificate, NOW)


def test_while_the_authority_is_replaced_both_count_and_then_one(trust: Trust, tmp_path: Path) -> None:
    creators, renewed = CreatorTrust(trust), maker(NEW)
    creators.claims(MARIA.certificate, NOW)
    refusal(creators, renewed.certificate)
    trust.use(identity(tmp_path / "install", AUTHORITY, NEW))
    for one in (MARIA, renewed):
        creators.claims(one.certificate, NOW)
    revoke(trust, NEW, 1, renewed.serial)
    assert refusal(creators, renewed.certificate).reason == "creator's certificate revoked"
    trust.use(identity(tmp_path / "remove", NEW))
    assert refusal(creators, MARIA.certificate).reason == "creator's certificate of another authority"
    assert creators.claims(maker(NEW, "oleg").certificate, NOW).name == "oleg"


def test_what_is_remembered_is_bounded(trust: Trust) -> None:
    creators = CreatorTrust(trust)
    makers: list[Maker] = [maker(AUTHORITY, f"maker {number}") for number in range(VERIFIED_MAX + 1)]
    for one in makers:
        creators.claims(one.certificate, NOW)
        creators.claims(makers[0].certificate, NOW)
    assert len(creators._verified) == VERIFIED_MAX
    assert [creators.claims(one.certificate, NOW).name for one in makers[:2]] == ["maker 0", "maker 1"]


def test_an_agent_without_signed_jobs_does_not_load_what_judges_them() -> None:
    program = (
        "import sys, agent.daemon.run, agent; from overlay import CreatorTrust, CreatorClaims, UntrustedCreatorError;"
        "agent.Mandate, agent.signed_bytes; CreatorTrust(None); print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "False\n"
