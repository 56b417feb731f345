"""An identity is checked when it is loaded; what is wrong is said in one line that names the file."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from overlay import Authority, CreatorFiles, Identity, IdentityError, read_public_key
from overlay.transport.identity.claims import read_claims

AUTHORITY = Authority.create("shop")


class Files:
    """The three files of one agent."""

    def __init__(self, directory: Path, authority: Authority = AUTHORITY, **issue: Any) -> None:
        self.ca, self.certificate, self.key = (directory / name for name in ("ca.pem", "agent.pem", "agent.key"))
        self.ca.write_bytes(AUTHORITY.certificate_pem)
        authority.issue("agent-5", node_id=5, **issue).save(self.certificate, self.key)

    def load(self, **options: Any) -> Identity:
        return Identity.load(self.ca, self.certificate, self.key, **options)

    def fault(self, **options: Any) -> str:
        with pytest.raises(IdentityError) as caught:
            self.load(**options)
        message = str(caught.value)
        assert "\n" not in message
        return message


def days(number: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=number)


def test_an_identity_says_who_the_agent_is(tmp_path: Path) -> None:
    identity = Files(tmp_path).load(fleet="shop")
    assert (identity.fleet, identity.name, identity.node_id) == ("shop", "agent-5", 5)
    assert days(364) < identity.expires < days(365)
    for context in (identity.server_context, identity.client_context):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("name", ["ca.pem", "agent.pem", "agent.key"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path)
    (tmp_path / name).unlink()
    assert files.fault() == f"{tmp_path / name}: No such file or directory"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("ca.pem", "not a certificate (PEM)"),
        ("agent.pem", "not a certificate (PEM)"),
        ("agent.key", "not a private key (PEM)"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_of_nonsense_is_named(tmp_path: Path, name: str, complaint: str, content: bytes) -> None:
    files = Files(tmp_path)
    (tmp_path / name).write_bytes(content)
    assert files.fault() == f"{tmp_path / name}: {complaint}"


def test_an_expired_certificate_is_refused_with_its_date(tmp_path: Path) -> None:
    files = Files(tmp_path, not_before=days(-3), days=1)
    assert files.fault() == f"{files.certificate}: expired at {days(-2):%Y-%m-%d %H:%M} UTC"


def test_a_certificate_of_the_future_is_refused_with_its_date(tmp_path: Path) -> None:
    files = Files(tmp_path, not_before=days(3))
    assert files.fault().startswith(f"{files.certificate}: not valid before {days(3):%Y-%m-%d}")


def test_a_key_must_fit_its_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.key.unlink()
    AUTHORITY.issue("agent-6").save(tmp_path / "other.pem", files.key)
    assert files.fault() == f"{files.key}: does not belong to the certificate {files.certificate}"


def test_a_key_under_a_password_is_not_asked_for(tmp_path: Path) -> None:
    files = Files(tmp_path)
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    assert files.fault().startswith(f"{files.key}: is protected by a password: name the file")


@pytest.mark.parametrize("fleet", ["shop", "zoo"])
def test_another_authority_is_refused_whatever_its_name(tmp_path: Path, fleet: str) -> None:
    files = Files(tmp_path, authority=Authority.create(fleet))
    assert files.fault().startswith(f"{files.certificate}: not signed by the authority {files.ca}")


def test_an_authority_is_not_an_agent(tmp_path: Path) -> None:
    files = Files(tmp_path)
    AUTHORITY.save(tmp_path / "ca")
    with pytest.raises(IdentityError, match=r"ca\.pem: not an agent's certificate"):
        Identity.load(files.ca, tmp_path / "ca" / "ca.pem", tmp_path / "ca" / "ca.key")


def test_an_agent_is_not_an_authority(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.ca.write_bytes(files.certificate.read_bytes())
    assert files.fault() == f"{files.ca}: not the certificate of an authority"


def test_the_fleet_of_the_configuration_must_be_the_certificates(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert files.fault(fleet="zoo") == f"{files.certificate}: of fleet 'shop', not 'zoo'"


def test_files_may_hold_words_beside_the_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for path in (files.ca, files.certificate):
        path.write_bytes("Subject: CN=Läden\n".encode() + path.read_bytes())
    assert files.load().node_id == 5


def test_while_the_authority_changes_both_are_known(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.ca.write_bytes(Authority.create("shop").certificate_pem + AUTHORITY.certificate_pem)
    assert files.load().node_id == 5


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["elf://shop"],
        ["elf://shop/5"],
        ["elf://shop/" + "0" * 32],
        ["elf://shop/agent/5"],
        ["elf://shop/Agent/" + "0" * 32],
        ["elf://shop/agent/" + "0" * 32, "http://shop"],
        ["http://shop/agent/" + "0" * 32],
        ["elf://shop/agent/" + "0" * 33],
        ["elf://shop/agent/" + "0" * 32, "elf://shop/agent/" + "1" * 32],
        ["elf://shop/agent/" + "A" * 32],
        ["elf:///agent/" + "0" * 32],
    ],
)
def test_only_certificates_that_name_one_agent_are_an_agents(uris: list[str]) -> None:
    certificate = {
        "subject": ((("commonName", "agent-5"),),),
        "subjectAltName": tuple(("URI", uri) for uri in uris),
    }
    with pytest.raises(ValueError, match="it does not say elf://"):
        read_claims(certificate)


@pytest.mark.parametrize("names", [[], ["a", "b"], ["\x1b[2J"]])
def test_only_certificates_with_one_readable_name_are_an_agents(names: list[str]) -> None:
    certificate = {
        "subject": tuple((("commonName", name),) for name in names),
        "subjectAltName": (("URI", "elf://shop/agent/" + "0" * 32),),
    }
    with pytest.raises(ValueError, match="name"):
        read_claims(certificate)


def test_a_certificate_for_another_role_is_no_agents(tmp_path: Path) -> None:
    assert Files(tmp_path, role="client").fault() == (
        f"{tmp_path}/agent.pem: not an agent's certificate: it is for a client"
    )


def test_a_creator_is_no_agent(tmp_path: Path) -> None:
    files, creator = Files(tmp_path), CreatorFiles(tmp_path / "creator")
    creator.create("maria", None)
    creator.certificate_file.write_bytes(AUTHORITY.trust("maria", read_public_key(creator.public_file)))
    with pytest.raises(IdentityError, match=r"creator\.pem: not an agent's certificate"):
        Identity.load(files.ca, creator.certificate_file, creator.key_file)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o777])
def test_a_key_that_is_open_to_everybody_is_refused(tmp_path: Path, mode: int) -> None:
    files = Files(tmp_path)
    files.key.chmod(mode)
    assert files.fault() == (
        f"{files.key}: is open to everybody on this machine (mode {mode:03o}): its secret may be known; chmod o= it"
    )
    files.key.chmod(0o640)  # the owner's group may be the agent's
    assert files.load().node_id == 5


def test_a_key_under_a_password_is_opened_by_the_password_in_a_file(tmp_path: Path) -> None:
    files = Files(tmp_path, key_password=b"secret")
    password = tmp_path / "password"
    password.write_text("secret\r\n")
    password.chmod(0o600)
    assert files.load(key_password_file=password).node_id == 5
    password.write_text("wrong\n")
    assert files.fault(key_password_file=password) == f"{password}: is not the password of {files.key}"
    password.chmod(0o644)
    assert files.fault(key_password_file=password).startswith(f"{password}: is open to everybody")
    password.unlink()
    assert files.fault(key_password_file=password) == f"{password}: No such file or directory"


def test_a_fleet_has_few_authorities(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.ca.write_bytes(b"".join(Authority.create("shop").certificate_pem for _ in range(9)))
    assert files.fault() == f"{files.ca}: holds 9 authorities, 8 at most"
