"""Encodes mandates, by which a creator vouches for what a job runs: the bytes to sign, and their digest.

The mandates of a job form a chain: each has the digest of the one before, so that nobody can move one to another place
or replay an old one. The signed bytes begin with words that nothing else begins with, and name the fleet: no other
signature of the same key can pass for a mandate, nor a mandate for one of another fleet.
"""

from __future__ import annotations

import hashlib

import msgspec

from overlay import ID_SPACE, Id

DIGEST_BYTES = 32
INT64_MAX = (1 << 63) - 1
_SIGNED = b"ELF mandate of a creator, 1\n"
_DIGESTED = b"ELF digest of a mandate, 1\n"


class Mandate(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Allows version `counter` (from 1) of a job to run the function with this digest, until it expires.

    Raises ValueError for values that no mandate can have.
    """

    app_id: Id
    counter: int
    predecessor: bytes
    """The digest of the mandate before; empty in the first."""
    expires_ms: int
    """Milliseconds since the epoch."""
    function: bytes
    """The SHA-256 of the contents that the job runs."""

    def __post_init__(self) -> None:
        if not 0 <= self.app_id < ID_SPACE:
            raise ValueError("a mandate's app_id is 0 <= app_id < 2**128")
        if not 1 <= self.counter <= INT64_MAX or not 0 <= self.expires_ms <= INT64_MAX:
            raise ValueError("a mandate's counter is from 1 and its expiry from 0, both below 2**63")
        if len(self.predecessor) not in (0, DIGEST_BYTES) or len(self.function) != DIGEST_BYTES:
            raise ValueError(f"a mandate has digests of {DIGEST_BYTES} bytes")


def signed_bytes(mandate: Mandate, fleet: str) -> bytes:
    """Return the bytes that a creator signs for the mandate to hold in a fleet."""
    return _SIGNED + msgspec.msgpack.encode((fleet, *_fields(mandate)))


def mandate_digest(mandate: Mandate) -> bytes:
    """Return the digest by which the next mandate names this one: 32 bytes."""
    return hashlib.sha256(_DIGESTED + msgspec.msgpack.encode(_fields(mandate))).digest()


def _fields(mandate: Mandate) -> tuple[bytes, int, bytes, int, bytes]:
    app_id = mandate.app_id.to_bytes(16, "big")
    return app_id, mandate.counter, mandate.predecessor, mandate.expires_ms, mandate.function
