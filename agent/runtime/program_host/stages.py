"""Stages: jobs that belong to another one of the same creator, whose master follows them and which they end with."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named, stage_app
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from overlay import Id

LOOK_S = 1.0
MISSING_S = 10.0
"""A stage of which nobody has spoken for so long since it was looked for: the job's log says so."""
ALONE_S = 30.0
"""The same of a stage's job: the stage stops."""


@dataclass(slots=True)
class _Bond:
    """Between a job whose master is here and a stage of it, or the other way round.

    `known_at`: when the other one was known last; `other`: its id and its master's epoch then; `trouble`: what the log
    has been told.
    """

    known_at: float
    other: tuple[Id, JobEpoch] | None = None
    trouble: str = ""


_Bonds = dict[tuple[Id, JobEpoch, str], _Bond]


class Stages:
    """Of the masters on one agent."""

    def __init__(self, offices: JobMasters, announcements: JobDirectory, subscriptions: ProgramSubscriptions) -> None:
        self._offices = offices
        self._announcements = announcements
        self._subscriptions = subscriptions
        self._bonds: _Bonds = {}
        self._look_at = 0.0

    def tick(self, now: float) -> None:
        """Looks after those that belong together."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        before, self._bonds = self._bonds, {}
        for office in self._offices.held.values():
            if office.ended is None:
                self._follow_stages(office, before, now)
                self._end_with_job(office, before, now)

    def _bond(self, office: JobMaster, name: str, before: _Bonds, now: float) -> tuple[_Bond, Id | None]:
        """That with another job of the same creator, and this one's id, if it is known to run."""
        key = (office.master.job.app_id, office.master.epoch, name)
        bond = self._bonds[key] = before.get(key) or _Bond(now)
        other = app_named(f"{name}@{office.master.creator}", self._announcements.all())
        if other is not None and (announced := self._announcements.get(other)) is not None:
            bond.known_at, bond.other = now, (other, announced.epoch)
        return bond, other

    def _follow_stages(self, office: JobMaster, before: _Bonds, now: float) -> None:
        program = office.local.program
        if program is None:
            return
        for stage in program.stages:
            bond, stage_id = self._bond(office, stage_app(office.master.job.name, stage), before, now)
            trouble = bond.trouble
            if stage_id is not None:
                trouble = self._subscriptions.follow_stage(program, stage, stage_id, now) or ""
            elif now - bond.known_at > MISSING_S:
                trouble = "does not run: there are no windows of it"
            if trouble != bond.trouble:
                office.note(f"stage {stage}: {trouble or 'runs again'}")
            bond.trouble = trouble

    def _end_with_job(self, office: JobMaster, before: _Bonds, now: float) -> None:
        """It is over when its job is, and also where nobody can tell any more."""
        if not office.master.part_of:
            return
        bond, job = self._bond(office, office.master.part_of, before, now)
        if job is None and (now - bond.known_at > ALONE_S or self._is_over(bond)):
            office.stop(now)

    def _is_over(self, bond: _Bond) -> bool:
        return bond.other is not None and self._announcements.is_over(*bond.other)
