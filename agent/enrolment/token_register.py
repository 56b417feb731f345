"""The register of an authority's tokens, in its folder: `tokens.json`. It holds no secrets, only their digests."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import msgspec

from agent.enrolment.token import EnrolmentToken
from overlay import AuthorityDirectory, AuthorityError, replace_file

REGISTER_FILE = "tokens.json"
TOKENS_MAX = 10_000
REMEMBERED = timedelta(days=30)
"""Time after its end for which a token is told from an unknown one."""


class RegisteredToken(msgspec.Struct, frozen=True):
    """A token by the digest of its secret. `name`: the only agent that may use it; `used_by` has used it `used_at`,
    with a key of this digest."""

    digest: str
    expires: datetime
    name: str | None = None
    used_by: str | None = None
    used_at: datetime | None = None
    key: str = ""


class TokenRefusedError(Exception):
    """A token admits nobody; one line that says why."""


_REGISTER: msgspec.json.Decoder[list[RegisteredToken]] = msgspec.json.Decoder(list[RegisteredToken])


class TokenRegister:
    """The tokens of one authority. AuthorityError where the file cannot be read or written."""

    def __init__(self, directory: AuthorityDirectory) -> None:
        self._directory = directory
        self._path = directory.path / REGISTER_FILE

    def new(self, certificate: bytes, minutes: float, name: str | None, now: datetime) -> EnrolmentToken:
        """Makes and registers a token for one agent."""
        expires = now + timedelta(minutes=minutes)
        token = EnrolmentToken.new(certificate, int(expires.timestamp()))
        with self._directory.locked():
            kept = [one for one in self._read() if one.expires > now - REMEMBERED]
            if len(kept) >= TOKENS_MAX:
                raise AuthorityError(f"{self._path}: has {len(kept):,} tokens: wait until some are over")
            self._write([*kept, RegisteredToken(digest_of(token.secret), expires, name)])
        return token

    def use(self, secret: bytes, name: str, key: bytes, now: datetime) -> None:
        """Uses a token up for an agent and its public key: the same key may come again, if the answer was lost.
        TokenRefusedError unless it admits that agent now."""
        digest, key_digest = digest_of(secret), hashlib.sha256(key).hexdigest()
        with self._directory.locked():
            tokens = self._read()
            token = next((one for one in tokens if one.digest == digest), None)
            if token is None:
                raise TokenRefusedError("the authority does not know this token: make one with elf ca token")
            if token.used_by is not None and token.key == key_digest and token.used_by == name:
                return
            if token.used_by is not None:
                at = f"{token.used_at:%Y-%m-%d %H:%M} UTC" if token.used_at is not None else "before"
                raise TokenRefusedError(
                    f"this token was used already, by {token.used_by}, {at}: each admits one agent; make another one"
                )
            if token.expires < now:
                raise TokenRefusedError(
                    f"this token expired at {token.expires:%Y-%m-%d %H:%M} UTC: make another one with elf ca token"
                )
            if token.name is not None and token.name != name:
                raise TokenRefusedError(f"this token is for {token.name}, not for {name}")
            used = msgspec.structs.replace(token, used_by=name, used_at=now, key=key_digest)
            self._write([used if one is token else one for one in tokens])

    def _read(self) -> list[RegisteredToken]:
        try:
            return _REGISTER.decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            raise AuthorityError(f"{self._path}: cannot be read: {error}") from error

    def _write(self, tokens: list[RegisteredToken]) -> None:
        replace_file(self._path, msgspec.json.encode(tokens), 0o600)


def digest_of(secret: bytes) -> str:
    """The digest by which a token is registered."""
    return hashlib.sha256(secret).hexdigest()
