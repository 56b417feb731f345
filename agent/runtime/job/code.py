"""Loads and calls the code that the local jobs of an agent need.

Every agent that takes part in a job checks its code, which runs beside workers and at the job's master.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agent.programs.calls import ChildPaosReceived, FoldStates, MapEvents, MulticastArrived, ProgramPosition
from agent.runtime.fleet.authorization import STOP, Creators, NotAuthorizedError, creator_of
from agent.runtime.fleet.ended_mandates import EndedMandates
from agent.runtime.ingest.mapped import Send
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.job.state_folds import Call
from agent.runtime.messages.programs import ProgramMulticast
from agent.runtime.messages.versions import Version
from agent.runtime.model.bundle import Bundle, Signature
from overlay import Id, format_id

NOT_STOPPED = "the job is its creator's alone to stop: do it where their key is, see elf creator --help"


class CannotRunError(Exception):
    """Explains in one line why this agent cannot run a job's code."""


class CodeRegistry:
    """The code of all local jobs of one agent."""

    def __init__(self, programs: Programs, creators: Creators) -> None:
        self._programs = programs
        self.creators = creators
        self.ended = EndedMandates()

    def authorize(self, app_id: Id, name: str, bundles: Iterable[Bundle | None]) -> str:
        """The job's creator, "" for none. Raises NotAuthorizedError if a bundle lacks its creator's signature."""
        bundles = tuple(bundles)
        creators = {creator_of(self.creators, app_id, name, one, self._programs.wall_ms) for one in bundles}
        if bundles[-1] is not None:
            self.ended.check(app_id, bundles[-1].seal)
        return next(iter(creators))

    def stopped(self, job: LocalJob) -> None:
        """Notes that the creator of a job has stopped it: what is signed so far starts it no more."""
        bundle = job.versions.newest.version.bundle if job.versions is not None else None
        if bundle is not None:
            self.ended.note(job.app_id, bundle.seal, self._programs.wall_ms)

    def authorize_update(self, app_id: Id, name: str, before: Bundle | None, bundle: Bundle | None) -> None:
        """Raises NotAuthorizedError unless the job's creator has signed the bundle, as the next one or the same."""
        self.authorize(app_id, name, (bundle,))
        if bundle is not None and before is not None and not bundle.follows(before, app_id):
            raise NotAuthorizedError(
                "what is signed does not follow what the job runs: it has been updated since, try again"
            )

    def authorize_stop(self, app_id: Id, name: str, seal: Signature | None, *, owned: bool) -> None:
        """Raises NotAuthorizedError unless the job may be stopped: by its creator, or by anybody if it has none."""
        if not owned:
            return
        if seal is None:
            raise NotAuthorizedError(NOT_STOPPED)
        self.creators.check(app_id, name, seal, STOP, self._programs.wall_ms)

    def is_there(self, job: LocalJob, name: str, bundle: Bundle | None) -> bool:
        """Whether the code of this version is loaded; if not, has it loaded. Raises CannotRunError."""
        if bundle is None or not bundle.source or not (job.works or job.root is not None):
            return True
        digest = bundle.contents.digest()
        program = job.programs.get(digest)
        if program is None:
            is_keyed = any(function.plan.get("elements") is not None for function in bundle.contents.functions)
            program = self._programs.start(job.app_id, name, bundle.source, digest, is_keyed=is_keyed)
            job.programs[digest] = program
            program.is_root = job.root is not None
        if program.failure is not None:
            raise CannotRunError(program.failure)
        return program.is_ready

    def keep(self, job: LocalJob, versions: Iterable[Version], proposed: bytes | None = None) -> None:
        """Ends the programs of a job that neither these versions nor a proposed one need."""
        needed = {one.bundle.contents.digest() for one in versions if one.bundle is not None} | {proposed}
        for digest in [digest for digest in job.programs if digest not in needed]:
            self._programs.end(job.programs.pop(digest))
            if job.pipeline is not None:
                job.pipeline.code_ended(digest)
            job.folds.code_ended(digest)


def mapper(job: LocalJob, programs: Programs) -> Send:
    """A function that sends events to the code of a job's versions, to be mapped."""

    def send(code: bytes, number: int, times: list[int], columns: dict[str, list[Any]]) -> bool:
        program = job.programs.get(code)
        return program is not None and programs.call(
            program, MapEvents(programs.place(program), number, times, columns)
        )

    return send


def folder(job: LocalJob, programs: Programs) -> Call:
    """A function that has the code of a job's versions fold states of its own aggregates."""

    def call(code: bytes, made: Callable[[ProgramPosition], FoldStates]) -> bool:
        program = job.programs.get(code)
        return program is not None and program.is_ready and programs.call(program, made(programs.place(program)))

    return call


def deliver_multicast(job: LocalJob, message: ProgramMulticast, programs: Programs) -> None:
    """Delivers a multicast of the job's master to the job's code."""
    if (program := job.program) is not None:
        programs.call(program, MulticastArrived(programs.place(program), program.app, message.message))


def call_received(job: LocalJob, programs: Programs) -> None:
    """Calls the job's code with the PAOs that children have sent."""
    received = job.paos.received()
    if (program := job.program) is not None:
        for child, token in received:
            programs.call(program, ChildPaosReceived(programs.place(program), format_id(child), token))
