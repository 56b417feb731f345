"""Reads creators' certificates and checks signatures, with the cryptography library: `creators` loads this on
demand.
"""

import warnings
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.utils import CryptographyDeprecationWarning

from overlay.transport.identity.authority import certificate_uris
from overlay.transport.identity.claims import CREATOR_ROLE, checked_name, creator_id, read_uri
from overlay.transport.identity.creator_claims import CreatorClaims, UntrustedCreatorError, Verified

_FAULTS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions of the library for certificates it cannot parse."""


def verified(certificate: bytes, authorities: Sequence[bytes]) -> Verified:
    """Read a creator's certificate (DER) signed directly by one of the authorities (DER); UntrustedCreatorError."""
    try:
        with (
            warnings.catch_warnings()
        ):  # of deprecated forms, accepted by the library for now, that no authority issues
            warnings.simplefilter("error", CryptographyDeprecationWarning)
            found = x509.load_der_x509_certificate(certificate)
    except (*_FAULTS, CryptographyDeprecationWarning) as error:
        raise UntrustedCreatorError("creator's certificate malformed") from error
    signer = next((one for one in authorities if _has_issued(one, found)), None)
    if signer is None:
        raise UntrustedCreatorError("creator's certificate of another authority")
    return Verified(read_creator(found), signer)


def read_creator(certificate: x509.Certificate) -> CreatorClaims:
    """Return the claims of a certificate, whoever signed it; UntrustedCreatorError when it is not a creator's."""
    try:
        fleet, role, identifier = read_uri(certificate_uris(certificate))
        (attribute,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        name = checked_name(str(attribute.value), "a creator")
        key = certificate.public_key()
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _FAULTS as error:
        raise UntrustedCreatorError("not a creator's certificate", "it does not say whose it is") from error
    if role != CREATOR_ROLE:
        raise UntrustedCreatorError("not a creator's certificate", f"{name}: its role is {role}")
    if is_authority or not isinstance(key, Ed25519PublicKey) or creator_id(key.public_bytes_raw()) != identifier:
        raise UntrustedCreatorError("not a creator's certificate", f"{name}: its key is not the one it speaks of")
    return CreatorClaims(
        fleet=fleet,
        name=name,
        public_key=key.public_bytes_raw(),
        serial=certificate.serial_number,
        starts_at=certificate.not_valid_before_utc.timestamp(),
        expires_at=certificate.not_valid_after_utc.timestamp(),
    )


def has_signed(public_key: bytes, payload: bytes, signature: bytes) -> bool:
    """Say whether a signature (64 bytes) of the payload was made with an Ed25519 key (32 bytes)."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, payload)
    except (ValueError, InvalidSignature):
        return False
    return True


def _has_issued(authority: bytes, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except (*_FAULTS, InvalidSignature):
        return False
    return True
