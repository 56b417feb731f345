"""Tokens that admit one agent: a secret, the fingerprint of the authority, and when they end, as text to be copied.

The text is base32 with a checksum, so that a token that was misread is told from one that is not known.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
import struct
import zlib
from dataclasses import dataclass, field

PREFIX = "elf1-"
"""The version of tokens is in it."""
_LATER = re.compile(r"elf[0-9]+-")
SECRET_BYTES = 16
FINGERPRINT_BYTES = 16
_BODY = struct.Struct(f">{SECRET_BYTES}s{FINGERPRINT_BYTES}sI")
_CHECKSUM = struct.Struct(">I")


class TokenError(ValueError):
    """A text is no token; one line that says why."""


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """A token. `fingerprint` begins the SHA-256 of the authority's certificate; `expires_at`: epoch seconds."""

    secret: bytes = field(repr=False)
    fingerprint: bytes
    expires_at: int

    @classmethod
    def new(cls, authority: bytes, expires_at: int) -> EnrolmentToken:
        """A new token of an authority, of which this is the certificate (DER)."""
        return cls(secrets.token_bytes(SECRET_BYTES), fingerprint_of(authority), expires_at)

    @property
    def text(self) -> str:
        """The token as people copy it."""
        body = _BODY.pack(self.secret, self.fingerprint, self.expires_at)
        encoded = base64.b32encode(body + _CHECKSUM.pack(zlib.crc32(body))).decode().rstrip("=")
        return PREFIX + encoded.lower()

    def belongs_to(self, authority: bytes) -> bool:
        """Whether the authority with this certificate (DER) has made it."""
        return secrets.compare_digest(self.fingerprint, fingerprint_of(authority))


def read_token(text: str) -> EnrolmentToken:
    """The token in a text. TokenError if it is none, or was misread.

    >>> token = EnrolmentToken.new(b"certificate", 1_700_000_000)
    >>> read_token(token.text.upper()) == token
    True
    """
    text = text.strip().lower()
    if not text.startswith(PREFIX):
        if _LATER.match(text):
            raise TokenError(f"is a token of a later ELF: this one reads those that begin with {PREFIX}; upgrade it")
        raise TokenError(f"is no token: one begins with {PREFIX}")
    encoded = text.removeprefix(PREFIX).upper()
    try:
        data = base64.b32decode(encoded + "=" * (-len(encoded) % 8))
    except binascii.Error:
        raise TokenError("is misread: a token has the letters a to z and the digits 2 to 7; copy it again") from None
    if len(data) != _BODY.size + _CHECKSUM.size:
        length = len(EnrolmentToken(bytes(SECRET_BYTES), bytes(FINGERPRINT_BYTES), 0).text)
        raise TokenError(f"is misread: it has {len(text)} characters of {length}; copy it again")
    if _CHECKSUM.unpack(data[_BODY.size :]) != (zlib.crc32(data[: _BODY.size]),):
        raise TokenError("is misread: its checksum is wrong; copy it again")
    return EnrolmentToken(*_BODY.unpack(data[: _BODY.size]))


def fingerprint_of(certificate: bytes) -> bytes:
    """The fingerprint of a certificate (DER) in tokens."""
    return hashlib.sha256(certificate).digest()[:FINGERPRINT_BYTES]
