"""Who an agent is, on the word of the fleet's authority: reading certificates, one's own and those of peers.

An agent's certificate says `elf://<fleet>/<node id>` (its only such alternative name) and has the agent's name as
common name. Everything here works with the system's TLS alone.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from overlay.ids import Id, parse_id

ID_SCHEME = "elf"
NAME_CHARACTERS_MAX = 64
"""What a certificate's common name can hold."""
CERTIFICATE_BYTES_MAX = 1 << 20
_FLEET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_AGENT_URI = re.compile(rf"{ID_SCHEME}://({_FLEET.pattern})/([0-9a-f]{{32}})")
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not name."""


_INVALID_PURPOSE = 26
"""OpenSSL's X509_V_ERR_INVALID_PURPOSE."""


Part = Literal["ca", "certificate", "key"]
"""Which of the three files of an identity: one file may be named as several of them."""


class IdentityError(Exception):
    """An identity that cannot be used; one line that names the file and what is wrong with it (as which `part`)."""

    def __init__(self, part: Part, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.part = part


def checked_fleet(fleet: str) -> str:
    """Return the name if a fleet can have it; ValueError otherwise.

    >>> checked_fleet("shop.eu-1")
    'shop.eu-1'
    """
    if not _FLEET.fullmatch(fleet):
        raise ValueError(
            f"a fleet's name is 1 to 63 of A-Z a-z 0-9 . _ - and starts with one of A-Z a-z 0-9: {fleet[:70]!r}"
        )
    return fleet


def checked_name(name: str) -> str:
    """Return the name if an agent can have it; ValueError otherwise."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise ValueError(f"an agent's name is 1 to {NAME_CHARACTERS_MAX} printable characters: {name[:70]!r}")
    return name


@dataclass(frozen=True, slots=True)
class Claims:
    """What a certificate says of its agent."""

    fleet: str
    name: str
    node_id: Id


def read_claims(certificate: Mapping[str, Any] | None) -> Claims:
    """Read the dictionary `ssl` makes of a certificate it has verified; ValueError when it is not an agent's."""
    if not certificate:
        raise ValueError("there is no certificate")
    uris = _uris(certificate)
    matches = [match for uri in uris if (match := _AGENT_URI.fullmatch(uri))]
    if len(uris) != 1 or len(matches) != 1:
        raise ValueError(f"it does not say {ID_SCHEME}://<fleet>/<node id>")
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if len(names) != 1:
        raise ValueError("it does not name one agent")
    return Claims(matches[0][1], checked_name(names[0]), parse_id(matches[0][2]))


def _uris(certificate: Mapping[str, Any]) -> list[str]:
    return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What an agent proves who it is with, checked the way its peers will check it.

    The two contexts speak TLS 1.3 only, show this agent's certificate and demand one of the same authority.
    """

    fleet: str
    name: str
    node_id: Id
    expires: datetime
    """When peers will begin to refuse the certificate."""
    server_context: ssl.SSLContext = field(repr=False, compare=False)
    client_context: ssl.SSLContext = field(repr=False, compare=False)

    @classmethod
    def load(cls, ca: Path, certificate: Path, key: Path, *, fleet: str | None = None) -> "Identity":
        """Read PEM files: the authority's certificate (or several, while it changes), the agent's, its key.

        IdentityError when one is missing or unreadable, is not what it should be, is expired or not yet valid, when
        key or authority do not fit the certificate, or it is of another fleet than the authority (or than `fleet`).
        """
        authorities = _read_pem("ca", ca)
        contexts = [
            _new_context(protocol, ca, authorities) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        ]
        own = _read_pem("certificate", certificate)
        _load_as_authority(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "certificate", certificate, own)
        for context in contexts:
            _load_key(context, certificate, key)
        server, client = contexts
        presented = _present(server, client, ca, certificate)
        try:
            claims = read_claims(presented)
        except ValueError as error:
            raise IdentityError("certificate", certificate, f"not an agent's certificate: {error}") from error
        expires = _check_times(certificate, presented)
        _check_fleet(claims, client, ca, certificate, fleet)
        return cls(claims.fleet, claims.name, claims.node_id, expires, server, client)


def _read_pem(part: Part, path: Path) -> str:
    """Read a file of certificates; IdentityError when that fails."""
    try:
        with path.open("rb") as file:
            return file.read(CERTIFICATE_BYTES_MAX).decode("ascii", errors="ignore")
    except OSError as error:
        raise IdentityError(part, path, str(error.strerror)) from error


def _load_as_authority(context: ssl.SSLContext, part: Part, path: Path, pem: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise IdentityError(part, path, "not a certificate (PEM)") from error


def _new_context(protocol: int, ca: Path, authorities: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # ids are checked instead: an agent is who it is at any address
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # sessions are never resumed
    _load_as_authority(context, "ca", ca, authorities)
    if not context.get_ca_certs():
        raise IdentityError("ca", ca, "not the certificate of an authority")
    return context


def _load_key(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    asked: list[bool] = []

    def no_password() -> str:
        asked.append(True)
        return ""

    try:
        with key.open("rb"):
            context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        if asked:
            raise IdentityError(
                "key", key, "is protected by a password, which nobody could type at an agent"
            ) from error
        if error.reason == "KEY_VALUES_MISMATCH":
            raise IdentityError("key", key, f"does not belong to the certificate {certificate}") from error
        raise IdentityError("key", key, "not a private key (PEM)") from error
    except OSError as error:
        raise IdentityError("key", key, str(error.strerror)) from error


def _present(server: ssl.SSLContext, client: ssl.SSLContext, ca: Path, certificate: Path) -> dict[str, Any]:
    """Let the two contexts shake hands, each as the other's peer; return what they see of the certificate.

    Dates are left alone, so that what is wrong with them can be said with the date.
    """
    flags = client.verify_flags
    server.verify_flags = client.verify_flags = flags | _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for end in ends * 3:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
        return ends[1].getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _INVALID_PURPOSE:
            raise IdentityError("certificate", certificate, "not an agent's certificate") from error
        raise IdentityError(
            "certificate", certificate, f"not signed by the authority {ca} ({error.verify_message})"
        ) from error
    except (ssl.SSLError, ValueError) as error:
        raise IdentityError("certificate", certificate, f"cannot be used for TLS 1.3: {error}") from error
    finally:
        server.verify_flags = client.verify_flags = flags


def _check_times(certificate: Path, presented: Mapping[str, Any]) -> datetime:
    """Return when the certificate expires; IdentityError when now is not between its dates."""
    start, end = (
        datetime.fromtimestamp(ssl.cert_time_to_seconds(presented[name]), UTC) for name in ("notBefore", "notAfter")
    )
    now = datetime.now(UTC)
    if now > end:
        raise IdentityError("certificate", certificate, f"expired at {end:%Y-%m-%d %H:%M} UTC")
    if now < start:
        raise IdentityError(
            "certificate", certificate, f"not valid before {start:%Y-%m-%d %H:%M} UTC; is the clock right?"
        )
    return end


def _check_fleet(claims: Claims, context: ssl.SSLContext, ca: Path, certificate: Path, fleet: str | None) -> None:
    own = f"of fleet {claims.fleet!r}"
    if fleet is not None and claims.fleet != fleet:
        raise IdentityError("certificate", certificate, f"{own}, not {fleet!r}")
    fleets = {uri for authority in context.get_ca_certs() for uri in _uris(authority)}
    if fleets and f"{ID_SCHEME}://{claims.fleet}" not in fleets:
        what = f"{own}, but the authority {ca} says {min(fleets)!r}"
        raise IdentityError("certificate", certificate, what)
