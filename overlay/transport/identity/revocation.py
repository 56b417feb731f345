"""The authority's signed lists of revoked certificates (X.509 CRLs), verified and kept.

A list is complete, not a change to the previous one, and has a number that only grows: of two lists the one with the
higher number counts, whoever brings it. So agents can pass lists on without trusting each other. A list never expires:
its date for the next one is ignored, because both alternatives are worse: to admit revoked holders again, or to exclude
everybody because the authority's owner is on holiday.

A serial number is random (159 bits), so it identifies one certificate whichever of the fleet's authorities signed it.

The CRL library is loaded when there is a list to read: agents of a fleet without lists do without it.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

logger = logging.getLogger("elf.overlay")

LIST_BYTES_MAX = 1 << 20
"""Length of the longest list, enough for some 25,000 revoked certificates that have not expired."""
NUMBER_MAX = (1 << 63) - 1
_PEM = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


class RevocationError(Exception):
    """A list is refused; one line with the reason. `reason` is a few fixed words to count it under."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class OutdatedError(RevocationError):
    """A list with the same number, or a higher one, is known."""


@dataclass(frozen=True, slots=True)
class VerifiedRevocationList:
    """A list whose signature has been verified."""

    authority: bytes
    """Fingerprint of the signing authority."""
    number: int
    serials: frozenset[int]
    der: bytes


def fingerprint(certificate: bytes) -> bytes:
    """Return an authority's fingerprint: SHA-256 of its certificate (DER), as `openssl x509 -fingerprint` shows it."""
    return hashlib.sha256(certificate).digest()


def revocation_lists_of(content: bytes) -> list[bytes]:
    """Return the lists in a file, one of DER or several of PEM, unchanged; empty when it contains none."""
    if content.startswith(b"\x30"):
        return [content]
    return _PEM.findall(content)


def read_list(data: bytes, authorities: Iterable[bytes]) -> VerifiedRevocationList:
    """Verify a list (PEM or DER) against the certificates (DER) of the trusted authorities; RevocationError."""
    if len(data) > 2 * LIST_BYTES_MAX:
        raise RevocationError("the list is too long", f"{len(data):,} bytes")
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        is_pem = data.startswith(b"-----")
        found = x509.load_pem_x509_crl(data) if is_pem else x509.load_der_x509_crl(data)
        der = found.public_bytes(Encoding.DER)
        signers = [one for one in authorities if _has_signed(x509.load_der_x509_certificate(one), found)]
        if not signers:
            raise RevocationError("the list is of another authority", f"{found.issuer.rfc4514_string()[:100]!r}")
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        serials = frozenset(entry.serial_number for entry in found)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.ExtensionNotFound) as error:
        raise RevocationError("not a list of revoked certificates") from error
    if len(der) > LIST_BYTES_MAX:
        raise RevocationError("the list is too long", f"{len(der):,} bytes, over the limit of {LIST_BYTES_MAX:,}")
    if not 0 <= number <= NUMBER_MAX:
        raise RevocationError("not a list of revoked certificates", "its number is none")
    return VerifiedRevocationList(fingerprint(signers[0]), number, serials, der)


def _has_signed(authority: object, found: object) -> bool:
    from cryptography import x509

    assert isinstance(authority, x509.Certificate)
    assert isinstance(found, x509.CertificateRevocationList)
    return found.issuer == authority.subject and found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]


class Revocations:
    """The newest list of each authority of the fleet.

    `keep` is called with all lists, as one PEM file, whenever one is new.
    """

    def __init__(self, authorities: Sequence[bytes], keep: Callable[[bytes], None] = lambda _content: None) -> None:
        self._authorities: dict[bytes, bytes] = {}
        self._lists: dict[bytes, VerifiedRevocationList] = {}
        self._serials: frozenset[int] = frozenset()
        self._keep = keep
        self.trust(authorities)

    def trust(self, authorities: Sequence[bytes]) -> None:
        """Trust these authorities (certificates, DER) from now on, and forget the lists of others."""
        self._authorities = {fingerprint(certificate): certificate for certificate in authorities}
        self._lists = {name: found for name, found in self._lists.items() if name in self._authorities}
        self._count()

    def take(self, data: bytes) -> bool:
        """Take a list if it is newer than the known one; False when it is the known one. RevocationError otherwise."""
        if any(data == known.der for known in self._lists.values()):
            return False
        found = read_list(data, self._authorities.values())
        known = self._lists.get(found.authority)
        if known is not None and known.number >= found.number:
            if known.der == found.der:
                return False
            what = f"number {found.number}, and there is one with number {known.number}"
            raise OutdatedError("the list is not newer than the one there is", what)
        self._lists[found.authority] = found
        self._count()
        self._keep(b"".join(_pem(one.der) for one in self._lists.values()))
        logger.info("took a list of revoked certificates", extra={"event": "revocations taken", "fields": {
            "authority": found.authority.hex()[:16], "number": found.number, "revoked": len(found.serials)
        }})  # fmt: skip
        return True

    def is_revoked(self, serial: int) -> bool:
        """Say whether a list contains the certificate of this serial number."""
        return serial in self._serials

    def revoked_since(self, serial: int) -> datetime | None:
        """Return the time at which a certificate was revoked; None if it is not. O(length of the list) if it is."""
        for found in self._lists.values():
            if serial in found.serials:
                from cryptography import x509

                entry = x509.load_der_x509_crl(found.der).get_revoked_certificate_by_serial_number(serial)
                return None if entry is None else entry.revocation_date_utc
        return None

    @property
    def numbers(self) -> Mapping[bytes, int]:
        """Number of the list of each trusted authority; 0 when there is none."""
        lists = self._lists
        return {name: lists[name].number if name in lists else 0 for name in self._authorities}

    @property
    def lists(self) -> Sequence[VerifiedRevocationList]:
        """All known lists."""
        return tuple(self._lists.values())

    def _count(self) -> None:
        self._serials = frozenset().union(*(found.serials for found in self._lists.values()))


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"
