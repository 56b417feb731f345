"""The fleet's certificate authority: admits agents by signing an id into their certificate, trusts creators of jobs by
signing their keys, and excludes both by signing a list of revoked certificates.

Keys are ECDSA P-256, those of creators Ed25519. The contents of certificates are described in `claims`, the meaning of
lists in `revocation`. Only `elf ca`, `elf creator`, the demo and tests load this module: an agent reads certificates
with `identity`, which needs no more than the system's TLS.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.transport.identity.authority_files import AuthorityError, check_free, read_bytes, write_new
from overlay.transport.identity.claims import (
    AGENT_ROLE,
    CREATOR_ROLE,
    ENROLMENT_ROLE,
    SCHEME,
    checked_fleet,
    checked_name,
    creator_id,
    fleet_uri,
    member_uri,
)
from overlay.transport.identity.secrets_on_disk import SecretFileError, read_secret
from overlay.wire.ids import ID_BITS, Id, checked_id

AUTHORITY_DAYS = 3650.0
_CREATOR_USAGES = (ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.CLIENT_AUTH)
SERVICE_DAYS = 365.0
CLOCK_SKEW = timedelta(minutes=5)
"""Certificates are valid from this long before their creation, because the clocks of a fleet differ."""
CERTIFICATE_FILE = "ca.pem"
KEY_FILE = "ca.key"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An agent's credentials from the authority: certificate and private key as PEM, and the id they name."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    node_id: Id

    def save(self, certificate: Path, key: Path) -> None:
        """Write both files, the key readable by its owner alone; AuthorityError when one exists or writing fails."""
        write_new(key, self.key_pem, 0o600)
        write_new(certificate, self.certificate_pem, 0o644)


@dataclass(frozen=True, slots=True)
class Revocation:
    """A revoked certificate: its serial number, time and reason."""

    serial: int
    since: datetime
    reason: x509.ReasonFlags = x509.ReasonFlags.unspecified

    @classmethod
    def read(cls, entry: x509.RevokedCertificate) -> "Revocation":
        """Read an entry of a list."""
        reasons = [one.value.reason for one in entry.extensions if isinstance(one.value, x509.CRLReason)]
        return cls(entry.serial_number, entry.revocation_date_utc, *reasons[:1])


class Authority:
    """Signs the certificates of one fleet. Its key is the right to admit agents: keep it off the agents.

    >>> authority = Authority.create("shop")
    >>> credentials = authority.issue("agent-5", node_id=5)
    >>> authority.fleet, credentials.node_id, credentials.certificate_pem[:27]
    ('shop', 5, b'-----BEGIN CERTIFICATE-----')
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, fleet: str) -> None:
        self.certificate = certificate
        self._key = key
        self.fleet = fleet

    @classmethod
    def create(cls, fleet: str, *, days: float = AUTHORITY_DAYS) -> "Authority":
        """Create an authority, valid from now for this many days; ValueError for an invalid fleet name."""
        checked_fleet(fleet)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{fleet[:48]} authority")
        certificate = (
            _builder(name, name, key.public_key(), _now() - CLOCK_SKEW, _now() + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(_alternative_name(fleet_uri(fleet)), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key, fleet)

    @classmethod
    def load(cls, directory: Path, password: bytes | None = None) -> "Authority":
        """Load a saved authority; AuthorityError when it is missing or invalid, or the password is wrong."""
        certificate_file, key_file = directory / CERTIFICATE_FILE, directory / KEY_FILE
        certificate, fleet = load_authority_certificate(certificate_file)
        key = load_key(key_file, password)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise AuthorityError(f"{key_file}: does not belong to {certificate_file}")
        return cls(certificate, key, fleet)

    @staticmethod
    def check_free(directory: Path) -> None:
        """Check that no authority exists already; AuthorityError when one does."""
        check_free(directory / KEY_FILE, directory / CERTIFICATE_FILE)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate by which every agent of the fleet verifies its peers."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def save(self, directory: Path, password: bytes | None = None) -> None:
        """Write `ca.pem` and `ca.key` (readable by its owner alone) into the directory, which is created if needed.

        With a password the key is encrypted. AuthorityError when one of the files exists: an authority is never
        overwritten.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AuthorityError(f"{directory}: {error.strerror}") from error
        write_new(directory / KEY_FILE, key_pem(self._key, password), 0o600)
        write_new(directory / CERTIFICATE_FILE, self.certificate_pem, 0o644)

    def issue(
        self,
        name: str,
        *,
        node_id: int | None = None,
        role: str = AGENT_ROLE,
        days: float = 365,
        not_before: datetime | None = None,
        key_password: bytes | None = None,
    ) -> Credentials:
        """Admit an agent: draw its id (unless one is given, to renew a certificate) and sign its certificate.

        The certificate is valid for `days` from `not_before` (aware; five minutes ago by default), at most as long as
        the authority's own. ValueError for an invalid name, or when no validity would be left.
        """
        checked_name(name)
        identifier = checked_id(secrets.randbits(ID_BITS) if node_id is None else node_id)
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        uri = member_uri(self.fleet, role, identifier)
        pem = self._signed(name, key.public_key(), uri, usages, not_before, days)
        return Credentials(pem, key_pem(key, key_password), identifier)

    def admit(self, name: str, request: bytes, *, node_id: int | None = None, days: float = 365) -> tuple[bytes, Id]:
        """Admit an agent that has made its key itself: sign the certificate (PEM) for the key of its signing request.

        Nothing else of the request counts. Id and dates are as for `issue`. ValueError for an invalid name or request.
        """
        checked_name(name)
        identifier = checked_id(secrets.randbits(ID_BITS) if node_id is None else node_id)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        uri = member_uri(self.fleet, AGENT_ROLE, identifier)
        return self._signed(name, requested_key(request), uri, usages, None, days), identifier

    def service_credentials(self) -> Credentials:
        """Make a certificate by which agents know the service that admits them, for a key of its own."""
        identifier, key = checked_id(secrets.randbits(ID_BITS)), ec.generate_private_key(ec.SECP256R1())
        uri, usages = member_uri(self.fleet, ENROLMENT_ROLE, identifier), [ExtendedKeyUsageOID.SERVER_AUTH]
        pem = self._signed("enrolment", key.public_key(), uri, usages, None, SERVICE_DAYS)
        return Credentials(pem, key_pem(key, None), identifier)

    def trust(self, name: str, public_key: bytes, *, days: float = 365, not_before: datetime | None = None) -> bytes:
        """Trust a creator of jobs: sign the certificate (PEM) of its Ed25519 public key (32 bytes).

        It is for signatures, and for asking agents as a client: links between agents refuse its role. Dates are as for
        `issue`. ValueError for an invalid name, or when no
        validity would be left.
        """
        checked_name(name, "a creator")
        key = ed25519.Ed25519PublicKey.from_public_bytes(public_key)
        uri = member_uri(self.fleet, CREATOR_ROLE, creator_id(public_key))
        return self._signed(name, key, uri, _CREATOR_USAGES, not_before, days)

    def revocation_list(self, number: int, revoked: Iterable[Revocation]) -> bytes:
        """Sign the list (PEM) of all revoked certificates; its number is higher than the previous list's."""
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(_now() - CLOCK_SKEW)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(self._key_identifier(), critical=False)
        )
        for one in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.serial).revocation_date(one.since)
            if one.reason is not x509.ReasonFlags.unspecified:  # which is expressed by its absence
                entry = entry.add_extension(x509.CRLReason(one.reason), critical=False)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
        uri: str,
        usages: Iterable[x509.ObjectIdentifier],
        not_before: datetime | None,
        days: float,
    ) -> bytes:
        """Return a member's certificate (PEM)."""
        start = not_before or _now() - CLOCK_SKEW
        end = min(start + timedelta(days=days), self.certificate.not_valid_after_utc)
        if end <= start:
            raise ValueError(f"the certificate of {name} would end ({end:%Y-%m-%d}) before it starts")
        certificate = (
            _builder(_name(name), self.certificate.subject, key, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(self._key_identifier(), critical=False)
            .add_extension(_alternative_name(uri), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def load_authority_certificate(path: Path) -> tuple[x509.Certificate, str]:
    """Read an authority's certificate and the fleet it names; AuthorityError when it is not an authority's."""
    try:
        certificate = x509.load_pem_x509_certificate(read_bytes(path))
        return certificate, _fleet_of(certificate)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise AuthorityError(f"{path}: not the certificate of a fleet's authority") from error


def needs_password(key_file: Path) -> bool:
    """Say whether a key is encrypted; AuthorityError when it cannot be read."""
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in _read_key(key_file)


def load_key(path: Path, password: bytes | None) -> object:
    """Read a private key; AuthorityError when it is invalid, or the password is missing or wrong."""
    content, is_encrypted = _read_key(path), needs_password(path)
    try:
        return serialization.load_pem_private_key(content, password if is_encrypted else None)
    except TypeError as error:
        raise AuthorityError(f"{path}: is protected by a password, which is needed") from error
    except ValueError as error:
        what = "that is not its password" if is_encrypted else "not a private key (PEM)"
        raise AuthorityError(f"{path}: {what}") from error


def _read_key(path: Path) -> bytes:
    try:
        return read_secret(path)
    except SecretFileError as error:
        raise AuthorityError(f"{path}: {error}") from error


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
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


def signing_request(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the request (PEM) to sign the certificate of a key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name("agent"))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def requested_key(request: bytes) -> ec.EllipticCurvePublicKey:
    """Return the key of a signing request (PEM); ValueError unless it is a P-256 key whose holder has signed it."""
    try:
        found = x509.load_pem_x509_csr(request)
        key = found.public_key()
        is_signed = found.is_signature_valid
    except Exception as error:  # whatever the library raises for bytes of a stranger
        raise ValueError("the signing request cannot be read (PEM)") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the key of the signing request is no P-256 key")
    if not is_signed:
        raise ValueError("the signing request is not signed by its key")
    return key


def key_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, password: bytes | None) -> bytes:
    """Return a private key as PKCS8 (PEM), encrypted if there is a password."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _fleet_of(certificate: x509.Certificate) -> str:
    """Return the fleet an authority's certificate names; ValueError when it names none."""
    names = certificate_uris(certificate)
    if len(names) != 1 or not names[0].startswith(f"{SCHEME}://"):
        raise ValueError("an authority names one fleet")
    return checked_fleet(names[0].removeprefix(f"{SCHEME}://"))


def certificate_uris(certificate: x509.Certificate) -> list[str]:
    """Return the URIs a certificate names; ExtensionNotFound when it has no alternative names."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return list(names.get_values_for_type(x509.UniformResourceIdentifier))
