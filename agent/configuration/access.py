"""The sections of `agent.toml` about clients: `[[access]]`, who may do what, and `[clients]`, where others may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from agent.access.rules import AccessRole, AccessRule
from agent.configuration.faults import Fault
from agent.configuration.rules import check_address, check_choice
from agent.sources.options import RULE
from overlay import format_address, parse_address

RULES_MAX = 256
NAMES_MAX = 256
CONNECTIONS = 64
CONNECTIONS_MAX = 1024
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_choice})]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=NAMES_MAX)]


class AccessSection(msgspec.Struct, forbid_unknown_fields=True):
    """`[[access]]` as it is written."""

    role: Annotated[
        Literal["read", "query", "operate"],
        msgspec.Meta(description="what the rule gives: `read`, `query` or `operate`"),
    ]
    users: Annotated[
        _Names, msgspec.Meta(description="to whom: names or numbers of this machine's users, `*` for all")
    ] = []
    groups: Annotated[_Names, msgspec.Meta(description="names or numbers of groups")] = []
    creators: Annotated[_Names, msgspec.Meta(description="names or key ids of creators")] = []
    streams: Annotated[_Names, msgspec.Meta(description="over which streams: names, or patterns with `*` and `?`")] = (
        msgspec.field(default_factory=lambda: ["*"])
    )
    apps: Annotated[
        _Names,
        msgspec.Meta(
            description="over whose jobs beside one's own, by their names: names, or patterns with `*` and `?`"
        ),
    ] = msgspec.field(default_factory=lambda: ["*"])


class ClientsSection(msgspec.Struct, forbid_unknown_fields=True):
    """`[clients]` as it is written."""

    listen: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_address}),
        msgspec.Meta(
            description="where clients with a creator's certificate may ask; without a section `[clients]` nowhere"
        ),
    ]
    connections: Annotated[
        int,
        msgspec.Meta(ge=1, le=CONNECTIONS_MAX),
        msgspec.Meta(description="how many of their connections are served at once, at most 1,024"),
    ] = CONNECTIONS


AccessSections = Annotated[list[AccessSection], msgspec.Meta(max_length=RULES_MAX)]


@dataclass(frozen=True, slots=True)
class ClientsConfig:
    """The address where clients with a creator's certificate may ask, and the bound on their connections."""

    listen: str
    connections: int


def resolved_access(sections: Sequence[AccessSection]) -> tuple[AccessRule, ...]:
    return tuple(
        AccessRule(
            AccessRole[one.role.upper()],
            tuple(one.users),
            tuple(one.groups),
            tuple(one.creators),
            tuple(one.streams),
            tuple(one.apps),
        )
        for one in sections
    )


def resolved_clients(section: ClientsSection | None) -> ClientsConfig | None:
    if section is None:
        return None
    return ClientsConfig(format_address(*parse_address(section.listen)), section.connections)


def access_faults(document: Mapping[str, Any]) -> list[Fault]:
    """Faults of rules that give a role to nobody."""
    sections = document.get("access")
    return [
        Fault(("access", number), "names nobody: give it users, groups or creators")
        for number, section in enumerate(sections if isinstance(sections, list) else ())
        if isinstance(section, dict) and not any(section.get(key) for key in ("users", "groups", "creators"))
    ]


def clients_faults(listen: str, clients: ClientsConfig | None) -> list[Fault]:
    """The fault of clients and agents at one address."""
    if clients is None or clients.listen != listen:
        return []
    return [Fault(("clients", "listen"), "is where other agents connect (listen): choose another port")]
