"""Reasons of refused connections: a few fixed texts to count under, and a rate-limited log.

The detail (an address, a library's words) only goes to the log.
"""

import errno
import logging
import ssl
from collections import Counter

logger = logging.getLogger("elf.overlay")

LOG_PERIOD_S = 60.0
REASONS_MAX = 64
OTHER = "other"

_VERIFY_REASONS = {
    7: "certificate of another authority",  # the authority's name matches and the signature does not
    9: "certificate not yet valid",
    10: "certificate expired",
    18: "certificate self-signed",
    19: "certificate of another authority",
    20: "certificate of another authority",
    21: "certificate of another authority",
    26: "not an agent's certificate",  # its purpose is not links: a creator's, say
}
"""By OpenSSL's X509_V_ERR number."""

_TLS_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "HTTP_REQUEST": "not TLS",
    "HTTPS_PROXY_REQUEST": "not TLS",
    "WRONG_VERSION_NUMBER": "not TLS",
    "PACKET_LENGTH_TOO_LONG": "not TLS",
    "UNEXPECTED_MESSAGE": "not TLS",
    "UNSUPPORTED_PROTOCOL": "older TLS",
    "TLSV1_ALERT_PROTOCOL_VERSION": "older TLS",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says our certificate is expired or not yet valid",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refused our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refused our certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it refused our certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it says our certificate is of another authority",
    "TLSV1_ALERT_DECRYPT_ERROR": "it refused our certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it refused our certificate",
}
"""By OpenSSL's name; alerts come from the other side."""

_SYSTEM_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ETIMEDOUT: "timed out",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the host",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
    errno.EADDRNOTAVAIL: "no such address",
}


class ConnectError(Exception):
    """An address is unreachable, or no agent of the fleet is there; one line with address and reason."""


class UnknownHostError(ConnectError):
    """The address has a host name that the system cannot resolve."""


class LinkError(Exception):
    """A connection could not be established or broke. `reason` is a few fixed words to count it under."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason


class ViolationError(LinkError):
    """An admitted peer sent what no agent sends, or may not stay."""


def explained(error: Exception) -> LinkError:
    """Return the LinkError for an error of sockets or TLS."""
    if isinstance(error, LinkError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkError(_VERIFY_REASONS.get(error.verify_code, "certificate unfit"), error.verify_message)
    if isinstance(error, ssl.SSLError):
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return LinkError("closed by the peer")
        name = getattr(error, "reason", None) or "?"  # not every error has it
        return LinkError(_TLS_REASONS.get(name, "TLS failed"), name.lower().replace("_", " "))
    if isinstance(error, OSError) and error.errno is not None:
        return LinkError(_SYSTEM_REASONS.get(error.errno, error.strerror or OTHER))
    return LinkError(OTHER, str(error) or type(error).__name__)


class Refusals:
    """Counts refusals by reason; logs at most one line per reason and minute, with the number suppressed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, tuple[float, int]] = {}
        """For each reason, time of its last log line, and count since then."""

    def count(self, reason: str) -> None:
        """Count one refusal."""
        self._counts[reason if reason in self._counts or len(self._counts) < REASONS_MAX else OTHER] += 1

    def log(self, reason: str, detail: str, now: float) -> None:
        """Log a line unless one with this reason was logged within the last minute (`now` in seconds)."""
        reason = reason if reason in self._logged or len(self._logged) < REASONS_MAX else OTHER
        logged_at, count = self._logged.get(reason, (-LOG_PERIOD_S, 0))
        self._logged[reason] = (logged_at, count + 1)
        if now - logged_at < LOG_PERIOD_S:
            return
        self._logged[reason] = (now, 0)
        more = f" ({count} more like it since the last such line)" if count else ""
        logger.warning("%s%s", detail, more, extra={"event": "connection", "fields": {"reason": reason}})

    def snapshot(self) -> dict[str, int]:
        """Return the counts by reason."""
        return dict(self._counts)
