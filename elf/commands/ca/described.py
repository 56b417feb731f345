"""Describes certificates, revocation lists and authorities' folders for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from overlay import AuthorityDirectory, AuthorityError, Revocation, certificate_uris, fingerprint, revocation_lists_of

KIND = "kind"


class Certificate(msgspec.Struct, frozen=True, tag="certificate", tag_field=KIND):
    """A certificate of an agent, a creator or an authority."""

    name: str
    identity: str
    serial: str
    fingerprint: str
    not_before: datetime
    expires: datetime
    authority: bool


class RevokedCertificate(msgspec.Struct, frozen=True):
    """An entry of a revocation list; `name` is None where only the serial number is known."""

    serial: str
    since: datetime
    reason: str
    name: str | None = None


class DescribedRevocationList(msgspec.Struct, frozen=True, tag="revocation list", tag_field=KIND):
    """A revocation list as it is in a file; only a holder of the authority's certificate can check its signature."""

    number: int
    issuer: str
    made: datetime
    revoked: list[RevokedCertificate]


class IssuedCertificate(msgspec.Struct, frozen=True):
    """An entry of an authority's index. `state` is valid, expired or revoked."""

    name: str
    node_id: str
    role: str
    serial: str
    expires: datetime
    state: str


class AuthorityFolder(msgspec.Struct, frozen=True, tag="authority", tag_field=KIND):
    """An authority, with the certificates it has issued and revoked. `list_number` is 0 where there is no list yet."""

    fleet: str
    fingerprint: str
    expires: datetime
    encrypted: bool
    list_number: int
    issued: list[IssuedCertificate]
    revoked: list[RevokedCertificate]


Described = Certificate | DescribedRevocationList | AuthorityFolder


def described_file(path: Path, content: bytes) -> Sequence[Described]:
    """Descriptions of all certificates or revocation lists in a file. Raises AuthorityError where there are none."""
    try:
        lists = [_list(data) for data in revocation_lists_of(content)]
        return lists or [_certificate(one) for one in x509.load_pem_x509_certificates(content)]
    except (ValueError, x509.ExtensionNotFound) as error:
        raise AuthorityError(
            f"{path}: this is no certificate of an agent, a creator or an authority, and no list of revoked ones (PEM)"
        ) from error


def described_directory(directory: AuthorityDirectory) -> AuthorityFolder:
    number, revoked = directory.revoked()
    issued = directory.issued()
    gone = {one.serial for one in revoked}
    names = {one.number: one.name for one in issued}
    return AuthorityFolder(
        fleet=directory.fleet,
        fingerprint=_fingerprint(directory.certificate),
        expires=directory.certificate.not_valid_after_utc,
        encrypted=directory.needs_password,
        list_number=number,
        issued=[
            IssuedCertificate(
                name=one.name,
                node_id=one.node_id,
                role=one.role,
                serial=one.serial,
                expires=one.expires,
                state=_state(one.number in gone, one.expires),
            )
            for one in issued
        ],
        revoked=[_revoked(one, names.get(one.serial)) for one in revoked],
    )


def _certificate(certificate: x509.Certificate) -> Certificate:
    common = [str(name.value) for name in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return Certificate(
        name=", ".join(common),
        identity=", ".join(certificate_uris(certificate)),
        serial=f"{certificate.serial_number:x}",
        fingerprint=_fingerprint(certificate),
        not_before=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc,
        authority=_is_authority(certificate),
    )


def _list(data: bytes) -> DescribedRevocationList:
    found = x509.load_pem_x509_crl(data) if data.startswith(b"-----") else x509.load_der_x509_crl(data)
    return DescribedRevocationList(
        number=found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number,
        issuer=found.issuer.rfc4514_string(),
        made=found.last_update_utc,
        revoked=[_revoked(Revocation.read(entry), None) for entry in found],
    )


def _revoked(one: Revocation, name: str | None) -> RevokedCertificate:
    return RevokedCertificate(f"{one.serial:x}", one.since, one.reason.value, name)


def _state(is_revoked: bool, expires: datetime) -> str:
    if is_revoked:
        return "revoked"
    return "expired" if expires < datetime.now(UTC) else "valid"


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _fingerprint(certificate: x509.Certificate) -> str:
    return fingerprint(certificate.public_bytes(Encoding.DER)).hex()
