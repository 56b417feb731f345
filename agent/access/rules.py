"""Rules of access: who has which role over which streams and apps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from agent.access.owners import is_same_owner
from overlay import Id, is_app_id
from query import covers

ALL = ("*",)


class AccessRole(IntEnum):
    """Degree of rights; each role includes those before it."""

    READ = 1
    """Read the results and logs of jobs, and describe streams."""
    QUERY = 2
    """Run queries and signed jobs, and change and stop its own."""
    OPERATE = 3
    """Change and stop anybody's queries; over all streams and apps, also operate the agent itself."""

    @property
    def word(self) -> str:
        """The role as `agent.toml` spells it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class JobTarget:
    """A job that a request is about. `creator`: the name of the creator whose signature it has, "" for none.

    `is_known`: it has been announced to this agent.
    """

    app_id: Id
    name: str
    owner: str = ""
    creator: str = ""
    is_known: bool = True

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}@{self.creator}") if self.creator else (self.name,)


@dataclass(frozen=True, slots=True)
class Principal:
    """A client, as the system or its certificate vouches for it.

    `owner`: the owner of what it submits. `users`, `groups`: its names and numbers on this machine. `creators`: the
    name and the key id of its certificate; `key`: the public key.
    """

    name: str
    owner: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    creators: frozenset[str] = frozenset()
    key: bytes = field(default=b"", repr=False)

    def owns(self, job: JobTarget) -> bool:
        """Whether it has submitted the job, or holds the key that the job belongs to."""
        return is_same_owner(self.owner, job.owner) or bool(self.key and is_app_id(job.app_id, job.name, self.key))


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Gives a role to users, groups and creators (by name, number or key id; `*` for everybody of that kind).

    `streams`, `apps`: the names and patterns of those it extends to; its own jobs are always among them.
    """

    role: AccessRole
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    creators: tuple[str, ...] = ()
    streams: tuple[str, ...] = ALL
    apps: tuple[str, ...] = ALL

    def applies_to(self, who: Principal) -> bool:
        pairs = ((self.users, who.users), (self.groups, who.groups), (self.creators, who.creators))
        return any(names and ("*" in given or not names.isdisjoint(given)) for given, names in pairs)

    def has_stream(self, stream: str) -> bool:
        """Whether it extends to a stream, or to every stream that a pattern selects."""
        return any(covers(pattern, stream) for pattern in self.streams)

    def has_job(self, job: JobTarget) -> bool:
        return any(covers(pattern, name) for pattern in self.apps for name in job.spellings)

    @property
    def has_everything(self) -> bool:
        return "*" in self.streams and "*" in self.apps


def standing_rules(agent_uid: int, agent_group: int, written: Iterable[AccessRule]) -> tuple[AccessRule, ...]:
    """All rules of an agent that runs as this user: root and that user operate it, whatever is written.

    Where nothing is written, the group `elf`, the agent's own group and the fleet's creators may query, and see and
    change what they have begun themselves; the group `elf-admin` operates.
    """
    always = AccessRule(AccessRole.OPERATE, users=("0", str(agent_uid)))
    return (always, *(tuple(written) or _unwritten(agent_group)))


def _unwritten(agent_group: int) -> tuple[AccessRule, ...]:
    return (
        AccessRule(AccessRole.QUERY, groups=("elf", str(agent_group)), creators=ALL, apps=()),
        AccessRule(AccessRole.OPERATE, groups=("elf-admin",)),
    )
