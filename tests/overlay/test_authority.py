"""The authority admits agents, keeps its key to itself, and is never written over."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay import ID_SPACE, Authority, AuthorityError, format_id


def test_a_certificate_says_who_the_agent_is() -> None:
    credentials = Authority.create("shop").issue("agent-5", node_id=0xAB)
    certificate = x509.load_pem_x509_certificate(credentials.certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"elf://shop/agent/{format_id(0xAB)}"]
    assert [name.value for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["agent-5"]
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert credentials.node_id == 0xAB


def test_the_authority_draws_ids_from_the_whole_space() -> None:
    authority = Authority.create("shop")
    ids = {authority.issue(f"agent-{number}").node_id for number in range(20)}
    assert len(ids) == 20
    assert max(ids) > ID_SPACE // 4  # fails once in 10^12 runs


def test_a_certificate_never_outlives_its_authority() -> None:
    credentials = Authority.create("shop", days=10).issue("agent-5", days=365)
    certificate = x509.load_pem_x509_certificate(credentials.certificate_pem)
    assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=11)


def test_saved_and_loaded_it_is_the_same_authority(tmp_path: Path) -> None:
    authority = Authority.create("shop")
    authority.save(tmp_path / "ca")
    loaded = Authority.load(tmp_path / "ca")
    issued = x509.load_pem_x509_certificate(loaded.issue("agent-5").certificate_pem)
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))
    assert (loaded.fleet, loaded.certificate_pem) == ("shop", authority.certificate_pem)


def test_saved_with_a_password_it_needs_that_password(tmp_path: Path) -> None:
    authority = Authority.create("shop")
    authority.save(tmp_path, b"correct horse")
    assert b"ENCRYPTED" in (tmp_path / "ca.key").read_bytes()
    assert Authority.load(tmp_path, b"correct horse").certificate_pem == authority.certificate_pem
    with pytest.raises(AuthorityError, match=r"ca\.key: that is not its password"):
        Authority.load(tmp_path, b"wrong horse")
    with pytest.raises(AuthorityError, match=r"ca\.key: is protected by a password, which is needed"):
        Authority.load(tmp_path)


def test_only_the_owner_reads_keys(tmp_path: Path) -> None:
    authority = Authority.create("shop")
    authority.save(tmp_path)
    authority.issue("agent-5").save(tmp_path / "agent.pem", tmp_path / "agent.key")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ca.key", "agent.key")]
    assert modes == [0o600, 0o600]
    assert "PRIVATE" not in repr(authority.issue("agent-6"))


def test_an_authority_is_never_written_over(tmp_path: Path) -> None:
    Authority.create("shop").save(tmp_path)
    before = (tmp_path / "ca.key").read_bytes()
    with pytest.raises(AuthorityError, match=r"ca\.key: is already there"):
        Authority.create("shop").save(tmp_path)
    assert (tmp_path / "ca.key").read_bytes() == before


@pytest.mark.parametrize("fleet", ["", "-shop", "shop/eu", "a shop", "läden", "x" * 64])
def test_a_fleet_needs_a_plain_name(fleet: str) -> None:
    with pytest.raises(ValueError, match="a fleet's name"):
        Authority.create(fleet)


@pytest.mark.parametrize("name", ["", " agent", "agent\n5", "x" * 65])
def test_an_agent_needs_a_printable_name(name: str) -> None:
    with pytest.raises(ValueError, match="an agent's name"):
        Authority.create("shop").issue(name)


@pytest.mark.parametrize(("node_id", "days"), [(-1, 1.0), (ID_SPACE, 1.0), (5, 0.0), (5, -3.0)])
def test_what_makes_no_certificate_is_a_value_error(node_id: int, days: float) -> None:
    with pytest.raises(ValueError, match=r"an id is|would end"):
        Authority.create("shop").issue("agent-5", node_id=node_id, days=days)


def test_what_is_no_authority_is_said_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(AuthorityError, match=r"ca\.pem: No such file"):
        Authority.load(tmp_path)
    Authority.create("shop").save(tmp_path)
    (tmp_path / "ca.key").write_text("no key")
    with pytest.raises(AuthorityError, match=r"ca\.key: not a private key"):
        Authority.load(tmp_path)
    Authority.create("shop").save(tmp_path / "other")
    (tmp_path / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(AuthorityError, match=r"ca\.key: does not belong to"):
        Authority.load(tmp_path)
    (tmp_path / "ca.pem").write_bytes(Authority.create("shop").issue("agent-5", node_id=5).certificate_pem)
    with pytest.raises(AuthorityError, match=r"ca\.pem: not the certificate of a fleet's authority"):
        Authority.load(tmp_path)
