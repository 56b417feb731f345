"""Decides whether a client may do what its request needs; a refusal names the missing right and who grants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.access.owners import shown_owner
from agent.access.rules import AccessRole, AccessRule, JobTarget, Principal


@dataclass(frozen=True, slots=True)
class Need:
    """The rights that a request needs: a role over every one of `streams` (names and patterns) and `jobs`.

    `act` completes "alice may not ...". `own_role` suffices for a job of the client's own. `everything`: the role must
    extend to all streams and apps, as the request is about the agent itself.
    """

    role: AccessRole
    act: str
    streams: tuple[str, ...] = ()
    jobs: tuple[JobTarget, ...] = ()
    own_role: AccessRole | None = None
    everything: bool = False


class Access:
    """The rights at one agent. `rules` may be replaced while it runs."""

    def __init__(self, agent: str, rules: Iterable[AccessRule]) -> None:
        self.rules = tuple(rules)
        self._agent = agent

    def refusal(self, who: Principal, needs: Iterable[Need]) -> str | None:
        """The reason to refuse, one line for people; None if the client has every right it needs."""
        rules = self.rules_of(who)
        for need in needs:
            missing = _missing(rules, who, need)
            if missing is not None:
                return f"{who.name} may not {need.act}: {missing}; {self._who_grants()}"
        return None

    def rules_of(self, who: Principal) -> tuple[AccessRule, ...]:
        """The rules that apply to a client."""
        return tuple(rule for rule in self.rules if rule.applies_to(who))

    def operates(self, who: Principal, job: JobTarget) -> bool:
        """Whether a client may change and stop a job even if it is somebody else's."""
        return any(rule.role >= AccessRole.OPERATE and rule.has_job(job) for rule in self.rules_of(who))

    def _who_grants(self) -> str:
        return (
            f"[[access]] in agent.toml of agent {self._agent} grants it (ask root there, or the group elf-admin; "
            "docs/rights.md)"
        )


def _missing(rules: Sequence[AccessRule], who: Principal, need: Need) -> str | None:
    """The first right that is missing, in words; about jobs they tell nothing to clients without any rights."""
    others = tuple(job for job in need.jobs if not who.owns(job))
    role = need.role if others or not need.jobs else need.own_role or need.role
    enough = [rule for rule in rules if rule.role >= role]
    if not rules or not (enough or need.streams or others or need.everything):
        return f"it needs the right {role.word}"
    if need.everything and not any(rule.has_everything for rule in enough):
        return f"it needs the right {role.word} over all streams and apps"
    for stream in need.streams:
        if not any(rule.has_stream(stream) for rule in enough):
            return f"it needs the right {role.word} over stream {stream}"
    for job in others:
        if not any(rule.has_job(job) for rule in enough):
            return f"{_whose(job)} needs the right {role.word} over app {job.name}"
    return None


def _whose(job: JobTarget) -> str:
    if not job.is_known:
        return "this agent knows no job of that name, and a job of somebody else"
    owner = job.creator or shown_owner(job.owner)
    return f"it is {owner}'s, which"
