"""Messages between an agent and the service of its authority: one JSON object a line, after the TLS handshake.

The service greets, the agent asks once, the service answers and closes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

VERSION = 1
LINE_BYTES_MAX = 16 << 10
Text = Annotated[str, msgspec.Meta(max_length=8192)]


class Greeting(msgspec.Struct, frozen=True, tag="greeting"):
    """The authority: its certificate (PEM), its fleet, and the time on its clock (epoch ms). `version`: that of these
    messages; who does not say it speaks the first."""

    fleet: str
    authority: Text
    time_ms: int
    version: int = VERSION


class EnrolRequest(msgspec.Struct, frozen=True, tag="enrol", forbid_unknown_fields=True):
    """Admit the holder of a key (`request` is a signing request, PEM), which has a token with this secret (hex)."""

    secret: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    request: Text


class RenewRequest(msgspec.Struct, frozen=True, tag="renew", forbid_unknown_fields=True):
    """Give the agent whose certificate was presented in the handshake another one, for this key."""

    request: Text


class Admitted(msgspec.Struct, frozen=True, tag="admitted"):
    """The certificate, and the authority's (PEM)."""

    certificate: Text
    authority: Text


class NotAdmitted(msgspec.Struct, frozen=True, tag="refused"):
    """Nothing is issued; one line that says why."""

    message: Text


ServiceRequest = EnrolRequest | RenewRequest
ServiceAnswer = Greeting | Admitted | NotAdmitted
