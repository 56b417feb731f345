"""Who is no longer admitted: the authority's signed lists of revoked certificates (X.509 CRLs), read and kept.

A list is whole, not a change to the one before, and has a number that only grows: of two the one with the higher
number counts, whoever brings it. So agents can pass lists on to each other without trusting each other. A list never
runs out: its date for the next one is not looked at, since both other choices are worse, to admit again who was
shut out, or to shut out everybody because the authority's owner is on holiday.

A serial number is random (159 bits), so it means one certificate whichever of the fleet's authorities signed it.

The library that knows CRLs is loaded when there is one to be read: agents of a fleet without any do without it.
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
"""Room for some 25,000 certificates that are revoked and have not expired."""
NUMBER_MAX = (1 << 63) - 1
_PEM = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


class RevocationError(Exception):
    """A list that is not taken; one line that says why. `reason` is one of a few words to count it under."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class OutdatedError(RevocationError):
    """There is a list with the same number, or a higher one."""


@dataclass(frozen=True, slots=True)
class VerifiedRevocationList:
    """A list whose signature was checked."""

    authority: bytes
    """The fingerprint of who signed it."""
    number: int
    serials: frozenset[int]
    der: bytes


def fingerprint(certificate: bytes) -> bytes:
    """Return what stands for an authority: SHA-256 of its certificate (DER), as `openssl x509 -fingerprint` says it."""
    return hashlib.sha256(certificate).digest()


def revocation_lists_of(content: bytes) -> list[bytes]:
    """Return the lists in a file, one of DER or several of PEM, each as it is; none when there is none in it."""
    if content.startswith(b"\x30"):
        return [content]
    return _PEM.findall(content)


def read_list(data: bytes, authorities: Iterable[bytes]) -> VerifiedRevocationList:
    """Check a list (PEM or DER) against the certificates (DER) of the authorities that count; RevocationError."""
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

    `keep` is given all of them, as one file of PEM, whenever there is another.
    """

    def __init__(self, authorities: Sequence[bytes], keep: Callable[[bytes], None] = lambda _content: None) -> None:
        self._authorities: dict[bytes, bytes] = {}
        self._lists: dict[bytes, VerifiedRevocationList] = {}
        self._serials: frozenset[int] = frozenset()
        self._keep = keep
        self.trust(authorities)

    def trust(self, authorities: Sequence[bytes]) -> None:
        """Take lists of these authorities (certificates, DER) from now on, and forget those of others."""
        self._authorities = {fingerprint(certificate): certificate for certificate in authorities}
        self._lists = {name: found for name, found in self._lists.items() if name in self._authorities}
        self._count()

    def take(self, data: bytes) -> bool:
        """Take a list if it is newer than the one there is; False when it is that one. RevocationError otherwise."""
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
        """Say whether a list has the certificate of this serial number."""
        return serial in self._serials

    def revoked_since(self, serial: int) -> datetime | None:
        """Return since when a list has that certificate; None when none has it. O(length of the list) if one has."""
        for found in self._lists.values():
            if serial in found.serials:
                from cryptography import x509

                entry = x509.load_der_x509_crl(found.der).get_revoked_certificate_by_serial_number(serial)
                return None if entry is None else entry.revocation_date_utc
        return None

    @property
    def numbers(self) -> Mapping[bytes, int]:
        """The number of the list of each authority that counts; 0 where there is none."""
        lists = self._lists
        return {name: lists[name].number if name in lists else 0 for name in self._authorities}

    @property
    def lists(self) -> Sequence[VerifiedRevocationList]:
        """The lists there are."""
        return tuple(self._lists.values())

    def _count(self) -> None:
        self._serials = frozenset().union(*(found.serials for found in self._lists.values()))


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"
