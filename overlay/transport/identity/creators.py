"""Verifies creators of jobs: an agent trusts a creator that has a certificate of the fleet's authority.

A creator's certificate travels with the signed data, and each agent judges it with what it has anyway: the currently
trusted authorities (two while one replaces the other) and the lists of revoked certificates. So trust in creators needs
no distribution of its own.

The certificate library is loaded with the first certificate to be judged: an agent that gets no signed jobs does
without it.
"""

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime

from overlay.transport.identity.creator_claims import CreatorClaims, UntrustedCreatorError, Verified
from overlay.transport.identity.trust import Trust

CERTIFICATE_BYTES_MAX = 4096
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
VERIFIED_MAX = 256
"""Most certificates remembered as verified; the least recently used are forgotten."""


class CreatorTrust:
    """Judges creators' certificates and signatures by an agent's current `trust`.

    Every method raises UntrustedCreatorError and nothing else, whatever bytes it is given.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._verified: OrderedDict[bytes, Verified] = OrderedDict()

    def claims(self, certificate: bytes, now: float) -> CreatorClaims:
        """Return the claims of a certificate (DER) if it is valid now (seconds since the epoch).

        The authority's signature is verified once and remembered; everything else is checked each time.
        """
        claims = self._known(certificate).claims
        if claims.fleet != self._trust.identity.fleet:
            raise UntrustedCreatorError("creator of another fleet", f"{claims.name} of {claims.fleet}")
        since = self._trust.revocations.revoked_since(claims.serial)
        if since is not None:
            raise UntrustedCreatorError(
                "creator's certificate revoked",
                f"{claims.name}, serial number {claims.serial:x}, since {_moment(since)}",
            )
        check_times(claims, now)
        return claims

    def verify(self, public_key: bytes, payload: bytes, signature: bytes) -> None:
        """Check that the holder of the private key signed the payload."""
        from overlay.transport.identity.creator_certificates import has_signed

        if len(signature) != SIGNATURE_BYTES or not has_signed(public_key, payload, signature):
            raise UntrustedCreatorError("not the creator's signature")

    def check(self, certificate: bytes, payload: bytes, signature: bytes, now: float) -> CreatorClaims:
        """Check that a currently trusted creator signed the payload; return its claims."""
        claims = self.claims(certificate, now)
        self.verify(claims.public_key, payload, signature)
        return claims

    def _known(self, certificate: bytes) -> Verified:
        if len(certificate) > CERTIFICATE_BYTES_MAX:
            what = f"{len(certificate):,} bytes, over the limit of {CERTIFICATE_BYTES_MAX:,}"
            raise UntrustedCreatorError("creator's certificate too large", what)
        digest, authorities = hashlib.sha256(certificate).digest(), self._trust.identity.authorities
        known = self._verified.get(digest)
        if known is None or known.authority not in authorities:
            from overlay.transport.identity.creator_certificates import verified

            self._verified.pop(digest, None)
            known = verified(certificate, authorities)
            self._verified[digest] = known
            if len(self._verified) > VERIFIED_MAX:
                self._verified.popitem(last=False)
        self._verified.move_to_end(digest)
        return known


def check_times(claims: CreatorClaims, now: float) -> None:
    """Check that now (seconds since the epoch) is between the dates of a certificate; UntrustedCreatorError."""
    if now > claims.expires_at:
        raise UntrustedCreatorError("creator's certificate expired", f"{claims.name}, at {_time(claims.expires_at)}")
    if now < claims.starts_at:
        raise UntrustedCreatorError(
            "creator's certificate not yet valid",
            f"{claims.name}, before {_time(claims.starts_at)}; is the clock right?",
        )


def _time(seconds: float) -> str:
    return _moment(datetime.fromtimestamp(seconds, UTC))


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
