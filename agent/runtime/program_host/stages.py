"""Watches stages: jobs that belong to another job of the same creator, which follows and ends them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named, stage_app
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from overlay import Id

LOOK_S = 1.0
MISSING_S = 10.0
"""Delay before the log of a job says that a stage has not been announced."""
ALONE_S = 30.0
"""Delay before a stage stops because its job is not announced."""


@dataclass(slots=True)
class _Bond:
    """Links a job whose master is here to a stage of it, or a stage to its job.

    `known_at`: the last time at which the other job was known; `other`: its id and its master's epoch at that time;
    `trouble`: the last line in the log about it.
    """

    known_at: float
    other: tuple[Id, JobEpoch] | None = None
    trouble: str = ""


_Bonds = dict[tuple[Id, JobEpoch, str], _Bond]


class Stages:
    """Watches the stages of jobs whose master is on this agent, and the stages whose own master is on it."""

    name = "stages"

    def __init__(
        self,
        masters: JobMasters,
        directory: JobDirectory,
        subscriptions: ProgramSubscriptions,
        containment: JobContainment,
    ) -> None:
        self._containment = containment
        self._masters = masters
        self._directory = directory
        self._subscriptions = subscriptions
        self._bonds: _Bonds = {}
        self._look_at = 0.0

    def tick(self, now: float) -> None:
        """Follows stages that have appeared, and stops those whose job is gone."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        before, self._bonds = self._bonds, {}
        for app_id, master in self._masters.held.items():
            if master.ended is None and master.state.creator:  # only a creator's jobs have stages
                with self._containment.around(app_id, now):
                    self._follow_stages(master, before, now)
                    self._end_with_job(master, before, now)

    def _bond(self, master: JobMaster, name: str, before: _Bonds, now: float) -> tuple[_Bond, Id | None]:
        """The bond with another job of the same creator, and the other job's id, if it is known to run."""
        key = (master.state.job.app_id, master.state.epoch, name)
        bond = self._bonds[key] = before.get(key) or _Bond(now)
        other = app_named(f"{name}@{master.state.creator}", self._directory.all())
        if other is not None and (announced := self._directory.get(other)) is not None:
            bond.known_at, bond.other = now, (other, announced.epoch)
        return bond, other

    def _follow_stages(self, master: JobMaster, before: _Bonds, now: float) -> None:
        program = master.local.program
        if program is None:
            return
        for stage in program.stages:
            bond, stage_id = self._bond(master, stage_app(master.state.job.name, stage), before, now)
            trouble = bond.trouble
            if stage_id is not None:
                trouble = self._subscriptions.follow_stage(program, stage, stage_id, now) or ""
            elif now - bond.known_at > MISSING_S:
                trouble = "does not run: there are no windows of it"
            if trouble != bond.trouble:
                master.note(f"stage {stage}: {trouble or 'runs again'}")
            bond.trouble = trouble

    def _end_with_job(self, master: JobMaster, before: _Bonds, now: float) -> None:
        """Stops a stage when its job is over, or has not been announced for too long."""
        if not master.state.part_of:
            return
        bond, job = self._bond(master, master.state.part_of, before, now)
        if job is None and (now - bond.known_at > ALONE_S or self._is_over(bond)):
            master.stop(now)

    def _is_over(self, bond: _Bond) -> bool:
        return bond.other is not None and self._directory.is_over(*bond.other)

    def statistics(self) -> Mapping[str, int]:
        return {"bonds": len(self._bonds)}
