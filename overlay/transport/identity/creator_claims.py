"""Claims of a creator's certificate, and the error for creators that are not trusted."""

from dataclasses import dataclass


class UntrustedCreatorError(Exception):
    """A certificate or signature is not trusted; one line with the reason. `reason` is a few fixed words to count it
    under.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CreatorClaims:
    """Claims of a creator's certificate. Times are seconds since the epoch."""

    fleet: str
    name: str
    public_key: bytes
    """Ed25519, 32 bytes: identifies the owner of a job, whatever the name is."""
    serial: int
    starts_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class Verified:
    """A certificate's claims, and the certificate (DER) of the authority that signed them."""

    claims: CreatorClaims
    authority: bytes
