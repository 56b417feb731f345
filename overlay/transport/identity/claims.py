"""Claims of a certificate about its holder, signed by the fleet's authority.

The only alternative name of an agent's certificate is `elf://<fleet>/<role>/<node id>`, that of the authority's own
`elf://<fleet>`; the common name is the agent's. Only a holder of the role `agent` may have links to agents: a
certificate issued for another purpose (a creator's, say) admits nobody, however valid it is.
"""

import hashlib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overlay.wire.ids import ID_BYTES, Id, format_id, id_from_bytes, parse_id

SCHEME = "elf"
AGENT_ROLE = "agent"
CREATOR_ROLE = "creator"
ENROLMENT_ROLE = "enrolment"
"""The service by which an authority admits agents."""
NAME_CHARACTERS_MAX = 64
"""Length of the longest common name a certificate can hold."""
_FLEET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ROLE = re.compile(r"[a-z]{1,16}")
_URI = re.compile(rf"{SCHEME}://({_FLEET.pattern})/({_ROLE.pattern})/([0-9a-f]{{32}})")


def checked_fleet(fleet: str) -> str:
    """Return the name if it is valid for a fleet; ValueError otherwise.

    >>> checked_fleet("shop.eu-1")
    'shop.eu-1'
    """
    if not _FLEET.fullmatch(fleet):
        raise ValueError(
            f"a fleet's name is 1 to 63 of A-Z a-z 0-9 . _ - and starts with one of A-Z a-z 0-9: {fleet[:70]!r}"
        )
    return fleet


def checked_name(name: str, whose: str = "an agent") -> str:
    """Return the name if it is valid for an agent (or the given kind of holder); ValueError otherwise."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise ValueError(f"{whose}'s name is 1 to {NAME_CHARACTERS_MAX} printable characters: {name[:70]!r}")
    return name


def creator_id(public_key: bytes) -> Id:
    """Return the id of a creator's key (32 bytes) in its certificate: the first 16 bytes of the key's SHA-256."""
    return id_from_bytes(hashlib.sha256(public_key).digest()[:ID_BYTES])


def fleet_uri(fleet: str) -> str:
    """Return the URI of an authority's certificate; ValueError for an invalid fleet name."""
    return f"{SCHEME}://{checked_fleet(fleet)}"


def member_uri(fleet: str, role: str, node_id: int) -> str:
    """Return the URI of a member's certificate; ValueError for invalid fleet, role or id.

    >>> member_uri("shop", "agent", 255)
    'elf://shop/agent/000000000000000000000000000000ff'
    """
    if not _ROLE.fullmatch(role):
        raise ValueError(f"a role is 1 to 16 small letters: {role[:20]!r}")
    return f"{fleet_uri(fleet)}/{role}/{format_id(node_id)}"


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of a member's certificate."""

    fleet: str
    role: str
    name: str
    node_id: Id
    serial: int
    expires_at: float
    """Seconds since the epoch."""
    starts_at: float
    """Seconds since the epoch."""


def read_claims(certificate: Mapping[str, Any] | None) -> Claims:
    """Read the dictionary `ssl` returns for a verified certificate; ValueError when it is not a member's."""
    if not certificate:
        raise ValueError("there is no certificate")
    (fleet, role, node_id), name = read_uri(uris(certificate)), _name(certificate)
    expires_at = ssl.cert_time_to_seconds(certificate["notAfter"])
    starts_at = ssl.cert_time_to_seconds(certificate["notBefore"])
    return Claims(fleet, role, name, node_id, int(certificate["serialNumber"], 16), expires_at, starts_at)


def read_uri(names: list[str]) -> tuple[str, str, Id]:
    """Return fleet, role and id from a certificate's URIs; ValueError unless there is exactly one, a member's."""
    match = _URI.fullmatch(names[0]) if len(names) == 1 else None
    if match is None:
        raise ValueError(f"it does not say {SCHEME}://<fleet>/<role>/<node id>, once")
    return match[1], match[2], parse_id(match[3])


def uris(certificate: Mapping[str, Any]) -> list[str]:
    """Return a certificate's URIs from `ssl`'s dictionary."""
    return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]


def _name(certificate: Mapping[str, Any]) -> str:
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if len(names) != 1:
        raise ValueError("it does not name one agent")
    return checked_name(names[0])
