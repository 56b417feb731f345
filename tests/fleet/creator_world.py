"""What tests of creators share: an agent's trust, creators' keys, and certificates no command would ever make."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from overlay import Authority, Identity, Revocation, Revocations
from overlay.transport.identity.claims import creator_id, member_uri
from overlay.transport.identity.trust import Trust

NOW = time.time() + 6 * 3600.0
"""Within the first hours of all certificates that a run of the tests issues, however long it takes."""
DAY_S = 86_400.0


def as_der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


@dataclass(frozen=True)
class Maker:
    """Somebody with a key, and a certificate (DER) for it."""

    key: Ed25519PrivateKey
    certificate: bytes

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    @property
    def serial(self) -> int:
        return x509.load_der_x509_certificate(self.certificate).serial_number


def maker(authority: Authority, name: str = "maria", **dates: Any) -> Maker:
    key = Ed25519PrivateKey.generate()
    return Maker(key, as_der(authority.trust(name, key.public_key().public_bytes_raw(), **dates)))


def trust_in(directory: Path, *authorities: Authority) -> Trust:
    """What an agent of the first authority's fleet knows."""
    return Trust(identity(directory, *authorities), Revocations([]), time.time)


def identity(directory: Path, *authorities: Authority) -> Identity:
    directory.mkdir(parents=True)
    ca, certificate, key = (directory / name for name in ("ca.pem", "agent.pem", "agent.key"))
    ca.write_bytes(b"".join(one.certificate_pem for one in authorities))
    authorities[0].issue("agent-5", node_id=5).save(certificate, key)
    return Identity.load(ca, certificate, key)


def revoke(trust: Trust, authority: Authority, number: int, *serials: int) -> None:
    trust.revocations.trust(trust.identity.authorities)
    trust.revocations.take(authority.revocation_list(number, [Revocation(one, datetime.now(UTC)) for one in serials]))


def crafted(
    authority: Authority,
    *,
    names: Sequence[str] = ("maria",),
    uris: Sequence[str] | None = None,
    key: Any = None,
    is_authority: bool = False,
    without: type[x509.ExtensionType] | None = None,
    signer: Any = None,
    issuer: x509.Name | None = None,
) -> bytes:
    """A certificate (DER) as it comes from `Authority.trust`, but for what is said otherwise."""
    own = key or Ed25519PrivateKey.generate().public_key()
    if uris is None:
        uris = [member_uri(authority.fleet, "creator", creator_id(own.public_bytes_raw()))]
    extensions: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=is_authority, path_length=None),
        x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris]),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names]))
        .issuer_name(issuer or authority.certificate.subject)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
    )
    for extension in extensions:
        if without is None or not isinstance(extension, without):
            builder = builder.add_extension(extension, critical=False)
    if signer is None:
        return builder.sign(authority._key, hashes.SHA256()).public_bytes(Encoding.DER)
    algorithm = None if isinstance(signer, Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signer, algorithm).public_bytes(Encoding.DER)
