"""Asks the service of an authority for a certificate: once with a token, later with the certificate that is to end.

The key is made here and never sent. Calls block, so they run in a command or a thread.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from agent.enrolment.messages import (
    LINE_BYTES_MAX,
    VERSION,
    Admitted,
    EnrolRequest,
    Greeting,
    NotAdmitted,
    RenewRequest,
    ServiceAnswer,
    ServiceRequest,
)
from agent.enrolment.token import EnrolmentToken
from overlay import (
    ENROLMENT_ROLE,
    certificate_uris,
    key_pem,
    parse_address,
    read_password,
    read_uri,
    signing_request,
    uris,
)

PATIENCE_S = 15.0
SKEW_MS_MAX = 300_000
"""Difference of the clocks up to which an agent is admitted: certificates begin so much before they are made."""
_CENTURY_S = 100 * 365.25 * 86_400
ATTEMPTS = 3
"""Attempts with one key where the connection breaks before the answer came."""
_ANSWER: msgspec.json.Decoder[ServiceAnswer] = msgspec.json.Decoder(ServiceAnswer)


class EnrolmentError(Exception):
    """There is no certificate; one line that says why."""


class _BrokenOffError(EnrolmentError):
    """The connection ended before the answer came: the same request may be repeated."""


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """An agent's new certificate and key, and the certificate of its authority (PEM)."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    authority_pem: bytes
    fleet: str


def enrol(address: str, token: EnrolmentToken, name: str, key_password: bytes | None = None) -> NewIdentity:
    """Has the authority at an address admit this machine's agent. EnrolmentError says why it does not."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = EnrolRequest(token.secret.hex(), name, signing_request(key).decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the token says whom to trust

    def check(presented: bytes, greeting: Greeting) -> None:
        _check_authority(address, token, presented, greeting)
        _check_clock(address, greeting.time_ms)

    fleet, admitted = _repeated(address, context, request, check)
    return _fitting(admitted, key, fleet, key_password)


def renew(address: str, ca: Path, certificate: Path, key: Path, key_password_file: Path | None) -> NewIdentity:
    """Has the authority renew an agent's certificate, for a new key, which gets the password of the one before."""
    password = None if key_password_file is None else read_password(key_password_file)
    _check_end(certificate)
    new_key = ec.generate_private_key(ec.SECP256R1())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    try:
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key, password)
    except (OSError, ssl.SSLError) as error:
        raise EnrolmentError(f"{certificate}: cannot be presented: {error}") from error
    request = RenewRequest(signing_request(new_key).decode())
    fleet, admitted = _repeated(address, context, request, lambda _presented, _greeting: None)
    return _fitting(admitted, new_key, fleet, password)


def _check_end(certificate: Path) -> None:
    try:
        end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise EnrolmentError(f"{certificate}: cannot be read: {error}") from error
    if end < datetime.now(UTC):
        again = "it cannot renew itself any more: enrol this agent anew, by a token of elf ca token"
        raise EnrolmentError(f"{certificate}: expired at {end:%Y-%m-%d %H:%M} UTC: {again}")


Check = Callable[[bytes, Greeting], None]


def _repeated(address: str, context: ssl.SSLContext, request: ServiceRequest, check: Check) -> tuple[str, Admitted]:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _ask(address, context, request, check)
        except _BrokenOffError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _ask(address: str, context: ssl.SSLContext, request: ServiceRequest, check: Check) -> tuple[str, Admitted]:
    host, port = parse_address(address)
    try:
        plain = socket.create_connection((host, port), PATIENCE_S)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise EnrolmentError(f"{address}: {reason}: is elf ca serve running there?") from error
    with plain:
        try:
            with context.wrap_socket(plain, server_hostname=None) as stream, stream.makefile("rb") as reader:
                return _converse(address, stream, reader, request, check)
        except ssl.SSLCertVerificationError as error:
            raise EnrolmentError(
                f"{address}: is no service of this agent's authority: {error.verify_message}"
            ) from error
        except (OSError, EOFError) as error:  # an error of TLS is an OSError
            raise _BrokenOffError(f"{address}: the connection ended before the answer came: {_told(error)}") from error


def _converse(
    address: str, stream: ssl.SSLSocket, reader: BufferedReader, request: ServiceRequest, check: Check
) -> tuple[str, Admitted]:
    greeting = _decoded(address, reader.readline(LINE_BYTES_MAX))
    if not isinstance(greeting, Greeting):
        raise EnrolmentError(f"{address}: is no authority's service")
    if greeting.version > VERSION:
        raise EnrolmentError(
            f"{address}: speaks version {greeting.version} of enrolment, and this ELF {VERSION}: upgrade it, then again"
        )
    presented = stream.getpeercert(binary_form=True) or b""
    if described := stream.getpeercert():
        _check_role(address, uris(described))
    check(presented, greeting)
    stream.sendall(msgspec.json.encode(request) + b"\n")
    match _decoded(address, reader.readline(LINE_BYTES_MAX)):
        case Admitted() as admitted:
            return greeting.fleet, admitted
        case NotAdmitted(message=message):
            raise EnrolmentError(f"{address}: {message}")
        case _:
            raise EnrolmentError(f"{address}: is no authority's service")


def _decoded(address: str, line: bytes) -> ServiceAnswer:
    if not line.endswith(b"\n"):
        raise EOFError("nothing more was sent")
    try:
        return _ANSWER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EnrolmentError(f"{address}: is no authority's service of this version of ELF") from error


def _check_authority(address: str, token: EnrolmentToken, presented: bytes, greeting: Greeting) -> None:
    """Checks that the authority is that of the token, and the service its."""
    try:
        authority = x509.load_pem_x509_certificate(greeting.authority.encode())
        service = x509.load_der_x509_certificate(presented)
        found = authority.public_bytes(Encoding.DER)
        if not token.belongs_to(found):
            raise EnrolmentError(f"{address}: is the authority of fleet {greeting.fleet!r}, and another one than that "
                                 "which made this token: ask for a token where elf ca serve runs")  # fmt: skip
        service.verify_directly_issued_by(authority)
        _check_role(address, certificate_uris(service))
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
        raise EnrolmentError(f"{address}: is no authority's service: its certificate is not one") from error


def _check_role(address: str, names: list[str]) -> None:
    try:
        _, role, _ = read_uri(names)
    except ValueError as error:
        raise EnrolmentError(f"{address}: is no authority's service") from error
    if role != ENROLMENT_ROLE:
        raise EnrolmentError(f"{address}: is no authority's service: its certificate has the role {role}")


def _check_clock(address: str, time_ms: int) -> None:
    here = datetime.now(UTC)
    ahead_s = here.timestamp() - time_ms / 1000
    if abs(ahead_s) > SKEW_MS_MAX / 1000:
        way = "ahead of" if ahead_s > 0 else "behind"
        there = here - timedelta(seconds=max(min(ahead_s, _CENTURY_S), -_CENTURY_S))
        raise EnrolmentError(
            f"the clock of this machine ({here:%Y-%m-%d %H:%M} UTC) is {_duration(abs(ahead_s))} {way} that of"
            f" {address} ({there:%Y-%m-%d %H:%M}): set the wrong one (timedatectl set-ntp true), then enrol again; the"
            " token is not used up"
        )


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _fitting(admitted: Admitted, key: ec.EllipticCurvePrivateKey, fleet: str, password: bytes | None) -> NewIdentity:
    pem = admitted.certificate.encode()
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise EnrolmentError("the authority has sent no certificate") from error
    if certificate.public_key() != key.public_key():
        raise EnrolmentError("the authority has sent a certificate for another key")
    return NewIdentity(pem, key_pem(key, password), admitted.authority.encode(), fleet)


def _told(error: Exception) -> str:
    return (getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)).lower().replace("_", " ")
