"""Which code the parts of an agent need, and whether it is there.

Code is looked at by everyone who takes part in a job, and runs where the job works: beside workers, and at its master.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.runtime.fleet.authorization import STOP, Creators, NotAuthorizedError, creator_of
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.messages.versions import Version
from agent.runtime.model.bundle import Bundle, Signature
from overlay import Id

NOT_STOPPED = "the job is its creator's alone to stop: do it where their key is, see elf creator --help"


class CannotRunError(Exception):
    """This agent cannot run a job's code, and why, in one line."""


class CodeRegistry:
    """Of all parts of one agent."""

    def __init__(self, programs: Programs, creators: Creators) -> None:
        self._programs = programs
        self.creators = creators

    def vet(self, app_id: Id, name: str, bundles: Iterable[Bundle | None]) -> str:
        """The job's creator, "" for nobody. Raises NotTheirsError where a bundle is not signed as it has to be."""
        creators = {creator_of(self.creators, app_id, name, one, self._programs.wall_ms) for one in bundles}
        return next(iter(creators))

    def vet_next(self, app_id: Id, name: str, before: Bundle | None, bundle: Bundle | None) -> None:
        """Raises NotTheirsError unless a bundle is the next that the job's creator has signed, or the same."""
        self.vet(app_id, name, (bundle,))
        if bundle is not None and before is not None and not bundle.follows(before, app_id):
            raise NotAuthorizedError(
                "what is signed does not follow what the job runs: it has been updated since, try again"
            )

    def vet_stop(self, app_id: Id, name: str, seal: Signature | None, *, owned: bool) -> None:
        """Raises NotTheirsError unless who wants to stop a job may: its creator, or anybody if it has none."""
        if not owned:
            return
        if seal is None:
            raise NotAuthorizedError(NOT_STOPPED)
        self.creators.check(app_id, name, seal, STOP, self._programs.wall_ms)

    def is_there(self, part: LocalJob, name: str, bundle: Bundle | None) -> bool:
        """Whether nothing more is needed to run this version; else its code is being loaded. Raises NotAbleError."""
        if bundle is None or not bundle.source or not (part.works or part.root is not None):
            return True
        digest = bundle.contents.digest()
        program = part.programs.get(digest)
        if program is None:
            program = part.programs[digest] = self._programs.start(part.app_id, name, bundle.source, digest)
            program.is_root = part.root is not None
        if program.failure is not None:
            raise CannotRunError(program.failure)
        return program.is_ready

    def keep(self, part: LocalJob, versions: Iterable[Version], proposed: bytes | None = None) -> None:
        """Ends the programs of a part that neither these versions nor a proposed one need."""
        needed = {one.bundle.contents.digest() for one in versions if one.bundle is not None} | {proposed}
        for digest in [digest for digest in part.programs if digest not in needed]:
            self._programs.end(part.programs.pop(digest))
