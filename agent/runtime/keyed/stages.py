"""Finds the stages that read events of a job's elements: jobs of the same creator that are part of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named
from agent.runtime.job.local_job import LocalJob
from overlay import Id

if TYPE_CHECKING:
    from agent.runtime.keyed.graph import CheckedGraph


class ElementStages:
    """The stages on one agent that read types of events, by the job whose elements emit these."""

    def __init__(self, directory: JobDirectory) -> None:
        self._directory = directory
        self._of: dict[Id, list[LocalJob]] = {}
        self._jobs: dict[Id, Id] = {}

    def look(self, jobs: Iterable[LocalJob]) -> None:
        """Looks at the agent's jobs, of which some may have come or gone."""
        self._of, self._jobs = {}, {}
        for local in jobs:
            if (job := self._job_of(local)) is not None:
                self._of.setdefault(job, []).append(local)
                self._jobs[local.app_id] = job

    def of(self, app_id: Id) -> list[LocalJob]:
        """The stages of a job."""
        return self._of.get(app_id, [])

    def job_of(self, stage: Id) -> Id | None:
        """The job that a stage reads; None: it is no such stage."""
        return self._jobs.get(stage)

    def all(self) -> Iterable[tuple[Id, list[LocalJob]]]:
        """Each job that is read, with its stages."""
        return self._of.items()

    def _job_of(self, local: LocalJob) -> Id | None:
        announced = self._directory.get(local.app_id)
        if local.pipeline is None or local.versions is None or announced is None:
            return None
        newest = local.versions.newest
        bundle = newest.version.bundle
        if newest.function.plan.types is None or bundle is None:
            return None
        return app_named(f"{bundle.contents.part_of}@{announced.creator}", self._directory.all())


def misread(stage: LocalJob, graph: CheckedGraph) -> str | None:
    """The reason why a stage cannot read the types that its creator has signed; None: these are what elements emit."""
    types = stage.versions.newest.function.plan.types if stage.versions is not None else None
    for name, fields in (types or {}).items():
        if name not in graph.types:
            return f"it reads {name}, which elements of its job do not emit: submit the job anew"
        if [tuple(field) for field in fields] != [tuple(field) for field in graph.types[name].fields]:
            return f"it reads {name} with other fields than elements of its job emit: submit the job anew"
    return None
