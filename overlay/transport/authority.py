"""The fleet's certificate authority: it admits agents by drawing each an id and signing it into a certificate.

Keys are ECDSA P-256. A certificate names its agent (common name) and says `elf://<fleet>/<node id>` (subject
alternative name); the authority's own says `elf://<fleet>`. Only `elf ca`, the demo and tests load this module: an
agent reads certificates with `overlay.transport.identity`, which needs no more than the system's TLS.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.ids import ID_BITS, Id, checked_id, format_id
from overlay.transport.identity import ID_SCHEME, checked_fleet, checked_name

AUTHORITY_DAYS = 3650.0
CLOCK_SKEW = timedelta(minutes=5)
"""Certificates are valid from this long before they were made: clocks of a fleet differ."""
CERTIFICATE_FILE = "ca.pem"
KEY_FILE = "ca.key"


class AuthorityError(Exception):
    """The authority cannot be loaded, saved or do what was asked; one line that names the file and the fault."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one agent gets from the authority: its certificate and private key as PEM, and the id they speak of."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    node_id: Id

    def save(self, certificate: Path, key: Path) -> None:
        """Write both files, the key readable by its owner alone; AuthorityError when one is there or fails."""
        _write_new(key, self.key_pem, 0o600)
        _write_new(certificate, self.certificate_pem, 0o644)


class Authority:
    """Signs the certificates of one fleet. Its key is the right to admit agents: keep it off the agents.

    >>> authority = Authority.create("shop")
    >>> credentials = authority.issue("agent-5", node_id=5)
    >>> authority.fleet, credentials.node_id, credentials.certificate_pem[:27]
    ('shop', 5, b'-----BEGIN CERTIFICATE-----')
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, fleet: str) -> None:
        self._certificate = certificate
        self._key = key
        self.fleet = fleet

    @classmethod
    def create(cls, fleet: str, *, days: float = AUTHORITY_DAYS) -> "Authority":
        """Make a new authority, valid from now for so many days; ValueError for a name no fleet can have."""
        checked_fleet(fleet)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{fleet[:48]} authority")
        certificate = (
            _builder(name, name, key, _now() - CLOCK_SKEW, _now() + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(_alternative_name(f"{ID_SCHEME}://{fleet}"), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key, fleet)

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        """Read what `save` wrote; AuthorityError when it is not there or not an authority."""
        certificate_file, key_file = directory / CERTIFICATE_FILE, directory / KEY_FILE
        try:
            certificate = x509.load_pem_x509_certificate(_read(certificate_file))
            fleet = _fleet_of(certificate)
        except (ValueError, x509.ExtensionNotFound) as error:
            raise AuthorityError(f"{certificate_file}: not the certificate of a fleet's authority") from error
        try:
            key = serialization.load_pem_private_key(_read(key_file), password=None)
        except (ValueError, TypeError) as error:
            raise AuthorityError(f"{key_file}: not a private key without a password") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise AuthorityError(f"{key_file}: does not belong to {certificate_file}")
        return cls(certificate, key, fleet)

    @property
    def certificate_pem(self) -> bytes:
        """What every agent of the fleet needs to know its peers by."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def save(self, directory: Path) -> None:
        """Write `ca.pem` and `ca.key` (readable by its owner alone) into the directory, which is made if needed.

        AuthorityError when one of them is there: an authority is never written over.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AuthorityError(f"{directory}: {error.strerror}") from error
        _write_new(directory / KEY_FILE, _key_pem(self._key), 0o600)
        _write_new(directory / CERTIFICATE_FILE, self.certificate_pem, 0o644)

    def issue(
        self, name: str, *, node_id: int | None = None, days: float = 365, not_before: datetime | None = None
    ) -> Credentials:
        """Admit an agent: draw it an id (unless one is given, to renew a certificate) and sign its certificate.

        The certificate is valid for `days` from `not_before` (aware; five minutes ago if not given), at most as long
        as the authority's own. ValueError for a name or id no agent can have, or when nothing would be left of it.
        """
        checked_name(name)
        identifier = checked_id(secrets.randbits(ID_BITS) if node_id is None else node_id)
        start = not_before or _now() - CLOCK_SKEW
        end = min(start + timedelta(days=days), self._certificate.not_valid_after_utc)
        if end <= start:
            raise ValueError(f"the certificate of {name} would end ({end:%Y-%m-%d}) before it starts")
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key_id = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        certificate = (
            _builder(_name(name), self._certificate.subject, key, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key_id), critical=False
            )
            .add_extension(
                _alternative_name(f"{ID_SCHEME}://{self.fleet}/{format_id(identifier)}"),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return Credentials(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key), identifier)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(uri: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _fleet_of(certificate: x509.Certificate) -> str:
    """Return the fleet an authority's certificate names; ValueError when it names none."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris: Sequence[str] = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1 or not uris[0].startswith(f"{ID_SCHEME}://"):
        raise ValueError("an authority names one fleet")
    return checked_fleet(uris[0].removeprefix(f"{ID_SCHEME}://"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror}") from error


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not be there yet, with its final permissions from the first moment."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise AuthorityError(f"{path}: is already there and is not written over") from error
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror}") from error
