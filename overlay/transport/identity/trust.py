"""Checks peers' certificates when a link is made and for as long as it lasts.

TLS has checked signatures and dates once by the time a certificate comes here. Conditions that change during a link's
life are checked repeatedly: the certificate expires or is revoked, or this agent changes its identity.
"""

from collections.abc import Callable
from typing import NamedTuple

from overlay.transport.identity.claims import AGENT_ROLE, Claims
from overlay.transport.identity.identity import Identity
from overlay.transport.identity.revocation import Revocations


class Refusal(NamedTuple):
    """Reason to have no link with a peer: a few fixed words to count it under, and a detail for the log."""

    reason: str
    detail: str


class Trust:
    """An agent's current identity and revocations. `wall_s` returns seconds since the epoch."""

    def __init__(self, identity: Identity, revocations: Revocations, wall_s: Callable[[], float]) -> None:
        self.identity = identity
        self.revocations = revocations
        self._wall_s = wall_s

    def use(self, identity: Identity) -> None:
        """Use another certificate, or trust other authorities, from now on.

        ValueError when the certificate is another agent's: an id is a place in the overlay, which an agent does not
        change.
        """
        own = self.identity.claims
        if (identity.fleet, identity.name, identity.node_id) != (own.fleet, own.name, own.node_id):
            raise ValueError(f"the new certificate is that of another agent ({identity.name} of {identity.fleet})")
        self.identity = identity
        self.revocations.trust(identity.authorities)

    def refusal(self, claims: Claims) -> Refusal | None:
        """Return the reason for having no link with a certificate's holder; None when it is admitted."""
        if claims.fleet != self.identity.fleet:
            return Refusal("another fleet", claims.fleet)
        if claims.role != AGENT_ROLE:
            return Refusal("not an agent's certificate", f"{claims.name}: it is for a {claims.role}")
        if self.revocations.is_revoked(claims.serial):
            return Refusal("certificate revoked", f"{claims.name}, serial number {claims.serial:x}")
        if self._wall_s() > claims.expires_at:
            return Refusal("certificate expired", claims.name)
        return None
