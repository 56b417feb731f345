"""An agent's identity: its certificate and key, and the authorities by which it verifies peers.

Everything here works with the system's TLS alone.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from overlay.transport.identity.claims import AGENT_ROLE, Claims, fleet_uri, read_claims, uris
from overlay.transport.identity.secrets_on_disk import SecretFileError, read_password, read_secret
from overlay.wire.ids import Id

CERTIFICATE_BYTES_MAX = 1 << 20
AUTHORITIES_MAX = 8
"""Most authorities of one fleet at a time: two while one replaces another."""
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not name."""
_INVALID_PURPOSE = 26
"""OpenSSL's X509_V_ERR_INVALID_PURPOSE."""

Part = Literal["ca", "certificate", "key", "key_password_file"]
"""Role of a file in an identity; one file may have several."""


class IdentityError(Exception):
    """An identity is unusable; one line that names the file and the fault. `part` is the file's role."""

    def __init__(self, part: Part, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.part = part


@dataclass(frozen=True, slots=True)
class Identity:
    """An agent's proof of identity, checked the way its peers will check it.

    The two contexts speak TLS 1.3 only, present this agent's certificate and demand one of the same authority.
    """

    claims: Claims
    """Claims of the agent's certificate."""
    authorities: tuple[bytes, ...] = field(repr=False)
    """Certificates (DER) of the trusted authorities."""
    server_context: ssl.SSLContext = field(repr=False, compare=False)
    client_context: ssl.SSLContext = field(repr=False, compare=False)

    @property
    def fleet(self) -> str:
        """The agent's fleet."""
        return self.claims.fleet

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.claims.name

    @property
    def node_id(self) -> Id:
        """The agent's place in the overlay."""
        return self.claims.node_id

    @property
    def expires(self) -> datetime:
        """Time at which peers begin to refuse the certificate."""
        return datetime.fromtimestamp(self.claims.expires_at, UTC)

    @classmethod
    def load(
        cls,
        ca: Path,
        certificate: Path,
        key: Path,
        *,
        key_password_file: Path | None = None,
        fleet: str | None = None,
    ) -> "Identity":
        """Load PEM files: the authority's certificate (or several, while it changes), the agent's, its key.

        IdentityError when a file is missing, unreadable or not of its kind, when the certificate is expired or not yet
        valid, when key or authority do not match it, when its fleet is not the authority's (or not `fleet`), when its
        role is not an agent's, or when everybody may read the key or the file with its password.
        """
        password = _read_password(key_password_file)
        authorities = _read_pem("ca", ca)
        contexts = [
            _new_context(protocol, ca, authorities) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        ]
        own = _read_pem("certificate", certificate)
        _load_as_authority(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "certificate", certificate, own)
        for context in contexts:
            _load_key(context, certificate, key, password, key_password_file)
        server, client = contexts
        presented = _present(server, client, ca, certificate)
        try:
            claims = read_claims(presented)
        except ValueError as error:
            raise IdentityError("certificate", certificate, f"not an agent's certificate: {error}") from error
        if claims.role != AGENT_ROLE:
            raise IdentityError("certificate", certificate, f"not an agent's certificate: it is for a {claims.role}")
        _check_times(certificate, presented)
        _check_fleet(claims, client, ca, certificate, fleet)
        return cls(claims, tuple(client.get_ca_certs(binary_form=True)), server, client)


def client_context(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context by which the holder of any certificate of the fleet asks its agents, over TLS 1.3.

    IdentityError when a file is missing, unreadable or not of its kind, or when everybody may read the key.
    """
    context = _new_context(ssl.PROTOCOL_TLS_CLIENT, ca, _read_pem("ca", ca))
    _load_as_authority(
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "certificate", certificate, _read_pem("certificate", certificate)
    )
    _load_key(context, certificate, key, None, None)
    return context


def _read_password(path: Path | None) -> bytes | None:
    try:
        return None if path is None else read_password(path)
    except SecretFileError as error:
        assert path is not None
        raise IdentityError("key_password_file", path, str(error)) from error


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
    context.check_hostname = False  # ids are checked instead: an agent is the same at any address
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # sessions are never resumed
    _load_as_authority(context, "ca", ca, authorities)
    count = len(context.get_ca_certs())
    if not count:
        raise IdentityError("ca", ca, "not the certificate of an authority")
    if count > AUTHORITIES_MAX:
        raise IdentityError("ca", ca, f"holds {count} authorities, {AUTHORITIES_MAX} at most")
    return context


def _load_key(
    context: ssl.SSLContext, certificate: Path, key: Path, password: bytes | None, password_file: Path | None
) -> None:
    asked: list[bool] = []

    def answer() -> bytes:
        asked.append(True)
        return password or b""

    try:
        with key.open("rb"):
            context.load_cert_chain(certificate, key, answer)
        read_secret(key)
    except SecretFileError as error:
        raise IdentityError("key", key, str(error)) from error
    except ssl.SSLError as error:
        if asked and password_file is None:
            what = "is protected by a password: name the file that has it in key_password_file"
            raise IdentityError("key", key, what) from error
        if asked and password_file is not None:
            raise IdentityError("key_password_file", password_file, f"is not the password of {key}") from error
        if error.reason == "KEY_VALUES_MISMATCH":
            raise IdentityError("key", key, f"does not belong to the certificate {certificate}") from error
        raise IdentityError("key", key, "not a private key (PEM)") from error
    except OSError as error:
        raise IdentityError("key", key, str(error.strerror)) from error


def _present(server: ssl.SSLContext, client: ssl.SSLContext, ca: Path, certificate: Path) -> dict[str, Any]:
    """Let the two contexts shake hands with each other; return the certificate's dictionary that the peer sees.

    Dates are not checked, so that a fault in them can be reported with the date.
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
        seen, own = (end.getpeercert() or {} for end in reversed(ends))
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
    if seen != own:
        raise IdentityError("certificate", certificate, "was replaced while it was read")
    return seen


def _check_times(certificate: Path, presented: Mapping[str, Any]) -> None:
    """Raise IdentityError when now is not between the dates of the certificate."""
    start, end = (
        datetime.fromtimestamp(ssl.cert_time_to_seconds(presented[name]), UTC) for name in ("notBefore", "notAfter")
    )
    now = datetime.now(UTC)
    if now > end:
        raise IdentityError("certificate", certificate, f"expired at {end:%Y-%m-%d %H:%M} UTC")
    if now < start:
        raise IdentityError(
            "certificate",
            certificate,
            f"not valid before {start:%Y-%m-%d %H:%M} UTC, and the clock of this machine says {now:%Y-%m-%d %H:%M}: set"
            " it (timedatectl set-ntp true), or wait",
        )


def _check_fleet(claims: Claims, context: ssl.SSLContext, ca: Path, certificate: Path, fleet: str | None) -> None:
    own = f"of fleet {claims.fleet!r}"
    if fleet is not None and claims.fleet != fleet:
        raise IdentityError("certificate", certificate, f"{own}, not {fleet!r}")
    fleets = {uri for authority in context.get_ca_certs() for uri in uris(authority)}
    if fleets and fleet_uri(claims.fleet) not in fleets:
        what = f"{own}, but the authority {ca} says {min(fleets)!r}"
        raise IdentityError("certificate", certificate, what)
