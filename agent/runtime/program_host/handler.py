"""Carries out what programs want of their agent, as far as they may."""

from __future__ import annotations

from agent.programs import calls
from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.runtime.ingest.mapped import MappedPipeline
from agent.runtime.ingest.self_paced import SelfPacedMappedPipeline, SelfPacedPipeline
from agent.runtime.job.deployment import Deployments
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import MULTICASTS_PER_S, Program, Programs
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.programs import JobResponse, Line, LogLines, ProgramFailed, ProgramMulticast
from agent.runtime.messages.sender import MessageSender
from agent.runtime.program_host.rpc import JobRpc
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from agent.runtime.requests.notices import CoreEvent, Shown
from overlay import Requested

LETTERS_MAX = 64
"""Messages of other jobs that a program has not answered yet; further ones are refused."""
TOO_MANY_MULTICASTS = f"multicast: more than {MULTICASTS_PER_S:.0f} a second; some are dropped"
NOT_DRIVEN = "cbt.flush, cbt.empty and send_to are for jobs that say drives = True"


class ProgramHost:
    """Of all programs of one agent."""

    def __init__(
        self,
        name: str,
        post: MessageSender,
        programs: Programs,
        parts: LocalJobs,
        installations: Deployments,
        offices: JobMasters,
        letters: JobRpc,
        notices: list[CoreEvent],
        subscriptions: ProgramSubscriptions,
    ) -> None:
        self.refused = 0
        self._name = name
        self._post = post
        self._programs = programs
        self._parts = parts
        self._installations = installations
        self._offices = offices
        self._letters = letters
        self._notices = notices
        self._subscriptions = subscriptions
        self._delivered: dict[tuple[int, int], Requested] = {}
        self._tickets = 0

    # What programs say.

    def said(self, key: int, data: bytes, now: float, wall_ms: int) -> None:
        """One frame of a program."""
        program = self._programs.get(key)
        if program is None:
            return
        try:
            act = calls.read_act(data)
        except ValueError as error:
            self._break(program, f"its process said what it cannot say: {error}", "", now)
            return
        part = self._parts.get(program.app_id)
        if part is not None:
            self._carry_out(program, part, act, now, wall_ms)

    def ended(self, key: int, reason: str, stderr: str, now: float) -> None:
        """A program's process is gone; `stderr` is what it printed last."""
        if (program := self._programs.get(key)) is not None:
            self._break(program, f"its process {reason}", stderr[-TEXT_CHARACTERS_MAX:], now)

    def _carry_out(self, program: Program, part: LocalJob, act: calls.FromProgram, now: float, wall_ms: int) -> None:
        match act:
            case calls.Loaded(about=about):
                self._programs.loaded(program, about, now)
                self._installations.code_loaded(part, now, wall_ms)
            case calls.Failed(reason=reason, text=text):
                self._break(program, reason, text, now)
            case calls.Said(text=text):
                self.log(program, part, text, now)
            case calls.Route():
                self._letters.send(program, act, now)
            case calls.Ask():
                self._letters.ask(program, act, now)
            case calls.Reply():
                self._reply(program, act, now)
            case calls.Show(json=json):
                if program.shown.take(now):
                    self._notices.append(Shown(program.app, json))
            case calls.Read(ticket=ticket, token=token):
                rows = part.paos.rows(token)
                refusal = "these PAOs are not held any more" if rows is None else None
                self._programs.answer(program.key, calls.Answered(ticket, refusal, rows=rows or []))
            case calls.Multicast() | calls.Subscribe() | calls.Change():
                self._as_master(program, part, act, now, wall_ms)
            case _:
                self._with_events(program, part, act, now, wall_ms)

    def _as_master(
        self,
        program: Program,
        part: LocalJob,
        act: calls.Multicast | calls.Subscribe | calls.Change,
        now: float,
        wall_ms: int,
    ) -> None:
        """What only the master may; one that has just been replaced does not know it yet."""
        if part.root is None or part.epoch is None:
            return
        match act:
            case calls.Multicast(message=message):
                if program.multicasts.take(now):
                    self._post.multicast(part.app_id, ProgramMulticast(part.app_id, part.epoch, message), now)
                    program.multicasts.refused = 0
                elif program.multicasts.refused == 1:
                    self.log(program, part, TOO_MANY_MULTICASTS, now)
            case calls.Subscribe(app=app):
                refusal = self._subscriptions.subscribe(program, app, now)
                if refusal is not None:
                    self.log(program, part, refusal, now)
            case calls.Change(query=query, reset=reset):
                refusal = self._offices.change(part.app_id, query, now, wall_ms, reset=reset)
                if refusal is not None:
                    self.log(program, part, refusal, now)

    def _with_events(self, program: Program, part: LocalJob, act: calls.FromProgram, now: float, wall_ms: int) -> None:
        """What concerns the events and PAOs of this agent; one without the job's stream has none."""
        pipeline = part.pipeline
        if pipeline is None:
            return
        wrong: str | None = None
        match act:
            case calls.Insert(columns=columns):
                if len(set(map(len, columns.values()))) == 1:
                    pipeline.put(columns, wall_ms)
            case calls.Mapped() if isinstance(pipeline, MappedPipeline | SelfPacedMappedPipeline):
                fault = pipeline.mapped(program.digest, act.batch, act.origins, act.columns)
                if fault is not None:
                    self._break(program, f"its process {fault}", "", now)
            case calls.Flush(token=token) if isinstance(pipeline, SelfPacedPipeline):
                pipeline.flush(token)
            case calls.Empty() if isinstance(pipeline, SelfPacedPipeline):
                pipeline.empty()
            case calls.Returned() if isinstance(pipeline, SelfPacedPipeline):
                pipeline.gather_waiting()
            case calls.SendTo(token=token, pane=pane) if isinstance(pipeline, SelfPacedPipeline):
                wrong = pipeline.send(token, pane, wall_ms)
                self._parts.advance(part, now)
            case _:
                wrong = NOT_DRIVEN
        if wrong is not None:
            self.log(program, part, wrong, now)

    def _break(self, program: Program, reason: str, text: str, now: float) -> None:
        """The job's code has failed here: that ends the job, or this agent's part in it where it has not begun."""
        was_ready = program.is_ready
        self._programs.fail(program, reason)
        part = self._parts.get(program.app_id)
        if part is None or part.epoch is None or part.master_peer is None:
            return
        if not was_ready and self._installations.code_refused(part, program, now):
            return
        broken = ProgramFailed(part.app_id, part.epoch, self._name, reason, text)
        self._post.send(part.master_peer, broken, now)

    def log(self, program: Program, part: LocalJob, text: str, now: float) -> None:
        """A line for the job's log, which its master keeps; of too many, some are left out."""
        if part.epoch is None or part.master_peer is None or not program.lines.take(now):
            return
        lines = [Line(self._programs.wall_ms, self._name, text)]
        if refused := program.lines.take_refused():
            lines.insert(0, Line(self._programs.wall_ms, self._name, f"({refused} lines more than may be said)"))
        self._post.send(part.master_peer, LogLines(part.app_id, part.epoch, lines), now)

    # What other jobs ask of a program.

    def deliver(
        self, program: Program | None, requested: Requested, sender: str, message: calls.Typed, now: float
    ) -> None:
        """A message of another job; its answer goes back as soon as there is one."""
        self._forget_the_dead()
        about = program.about if program is not None else None
        refusal = None
        if program is None or about is None or not program.is_ready:
            refusal = "is not ready yet"
        elif not about.delivers:
            refusal = "takes no messages: its code has no deliver"
        elif len(self._delivered) >= LETTERS_MAX:
            refusal = f"has {LETTERS_MAX} messages to answer already"
        if refusal is not None or program is None:
            self._post.respond(requested, JobResponse(requested.key, None, refusal), now)
            return
        self._tickets += 1
        self._delivered[program.key, self._tickets] = requested
        self._programs.call(program, calls.Delivered(self._programs.place(program), self._tickets, sender, message))

    def _reply(self, program: Program, reply: calls.Reply, now: float) -> None:
        requested = self._delivered.pop((program.key, reply.ticket), None)
        if requested is not None:
            self._post.respond(requested, JobResponse(requested.key, reply.message, reply.refusal), now)

    def _forget_the_dead(self) -> None:
        """Messages to programs that are over have no answer."""
        for key, ticket in [which for which in self._delivered if self._programs.get(which[0]) is None]:
            del self._delivered[key, ticket]
