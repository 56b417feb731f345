"""Holds the requests of clients against the rules of access and the owners of the fleet's jobs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from agent import log
from agent.access.decision import Access, Need
from agent.access.rules import AccessRole, JobTarget, Principal
from agent.control import messages as control
from agent.control.needs import needs_of
from agent.control.server import MissingRightError
from agent.control.status_report import described_job
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import spellings
from agent.runtime.messages.jobs import Announce, Submit
from overlay import Id, format_id
from overlay import app_id as id_of_app

SUBMITTED_MAX = 1024
"""Upper bound on jobs submitted here whose owners are remembered until they are announced."""


class ClientRights:
    """The rights of the clients of one agent."""

    def __init__(self, access: Access, directory: JobDirectory) -> None:
        self.access = access
        self._directory = directory
        self._submitted: dict[Id, JobTarget] = {}

    def check_request(self, who: Principal, request: control.Request) -> None:
        """Raises MissingRightError unless the client may make the request; AmbiguousNameError for a job's name."""
        self.check(who, needs_of(request, self.job))

    def check(self, who: Principal, needs: Iterable[Need]) -> None:
        """Raises MissingRightError unless the client has the rights that are needed."""
        if (refusal := self.access.refusal(who, needs)) is not None:
            raise MissingRightError(refusal)

    def acting_owner(self, who: Principal, app_id: Id, order: str) -> str:
        """The owner whose jobs alone a client may change; "" if it may change this one whoever owns it.

        Logs its `order` about a query of somebody else.
        """
        job = self.job(app_id)
        if not self.access.operates(who, job):
            return who.owner
        if job.owner and not who.owns(job):
            log.info("order about a job of somebody else", order=order, job=job.name, owner=job.owner, by=who.owner)
        return ""

    def described(self, who: Principal) -> control.Rights:
        """The rights of a client, for it."""
        roles = [
            control.GrantedRole(rule.role.word, list(rule.streams), list(rule.apps))
            for rule in self.access.rules_of(who)
        ]
        return control.Rights(who.name, who.owner, roles)

    def described_jobs(self, who: Principal) -> list[control.JobEntry]:
        """The fleet's jobs, without the queries of those that the client may not read."""
        entries = []
        for announce in self._directory.all():
            need = Need(AccessRole.READ, "", jobs=(_job(announce),))
            entry, is_hidden = described_job(announce), self.access.refusal(who, (need,)) is not None
            entries.append(msgspec.structs.replace(entry, query="") if is_hidden else entry)
        return entries

    def may_read(self, who: Principal, app_id: Id) -> bool:
        """Whether the client may read this job."""
        return self.access.refusal(who, (Need(AccessRole.READ, "", jobs=(self.job(app_id),)),)) is None

    def submitted(self, job: Submit) -> None:
        """Remembers a job that was submitted here and accepted, until it is announced."""
        self._submitted.pop(job.app_id, None)
        creator = "" if job.bundle is None else "its creator"
        self._submitted[job.app_id] = JobTarget(job.app_id, job.name, job.owner, creator)
        if len(self._submitted) > SUBMITTED_MAX:
            del self._submitted[next(iter(self._submitted))]

    def job(self, named: str | Id) -> JobTarget:
        """A job by its name or id; one that is not known belongs to nobody. Raises AmbiguousNameError."""
        app_id = self._directory.app_of(named) if isinstance(named, str) else named
        announced = self._directory.get(app_id) or next(
            (one for one in self._directory.past() if one.app_id == app_id), None
        )
        if announced is not None:
            self._submitted.pop(app_id, None)
            return _job(announced)
        name = named if isinstance(named, str) else format_id(named)
        return self._submitted.get(app_id) or JobTarget(app_id, name, is_known=False)

    def jobs_named(self, name: str) -> tuple[JobTarget, ...]:
        """Every job that a query may mean by a name: which it reads is decided where it runs."""
        found = tuple(_job(one) for one in self._directory.all() if name in spellings(one))
        return found or (JobTarget(id_of_app(name, b""), name, is_known=False),)


def _job(announce: Announce) -> JobTarget:
    return JobTarget(announce.app_id, announce.name, announce.owner, announce.creator)
