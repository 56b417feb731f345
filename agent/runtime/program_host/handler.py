"""Carries out the calls that programs of jobs make to their agent, within their rights."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping

import polars as pl

from agent.programs import calls
from agent.programs.calls import TEXT_CHARACTERS_MAX
from agent.programs.commands import ProgramEnded, ProgramSaid
from agent.runtime.ingest.mapped import MappedPipeline
from agent.runtime.ingest.self_paced import SelfPacedMappedPipeline, SelfPacedPipeline
from agent.runtime.job.deployment import Deployments
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import MULTICASTS_PER_S, Program, Programs
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import NoJob
from agent.runtime.messages.programs import JobRequest, JobResponse, Line, LogLines, ProgramFailed, ProgramMulticast
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.work_budget import OverBudgetError
from agent.runtime.program_host.rpc import JobRpc
from agent.runtime.program_host.subscriptions import ProgramSubscriptions
from agent.runtime.requests.events import Shown
from overlay import Id, Requested

UNANSWERED_MAX = 64
"""Upper bound on messages of other jobs that programs of this agent have not answered; further ones are refused."""
TOO_MANY_MULTICASTS = f"multicast: more than {MULTICASTS_PER_S:.0f} a second; some are dropped"
NOT_DRIVEN = "cbt.flush, cbt.empty and send_to are for jobs that say drives = True"


class ProgramHost:
    """The host of all programs of the agent `agent_name`; `show` gets the JSON that they show. `observe` compares both
    clocks and returns the wall clock's time without a step that is doubted.
    """

    name = "program_host"

    def __init__(
        self,
        agent_name: str,
        sender: MessageSender,
        programs: Programs,
        jobs: LocalJobs,
        deployments: Deployments,
        masters: JobMasters,
        rpc: JobRpc,
        subscriptions: ProgramSubscriptions,
        show: Callable[[Shown], None],
        observe: Callable[[float, int], int],
    ) -> None:
        self._observe = observe
        self._agent_name = agent_name
        self._sender = sender
        self._programs = programs
        self._jobs = jobs
        self._deployments = deployments
        self._masters = masters
        self._rpc = rpc
        self._subscriptions = subscriptions
        self._show = show
        self.element_act: Callable[[Id, calls.ElementsProcessed | calls.StatesTaken, float], bool] = (
            lambda _app_id, _act, _now: False
        )
        """Takes an answer of the elements of a job; returns whether it was asked for."""
        self._delivered: dict[tuple[int, int], Requested] = {}
        self._tickets = 0

    def handlers(self) -> Handlers:
        return {JobRequest: Handler(Via.REQUEST, self._deliver)}

    def statistics(self) -> Mapping[str, int]:
        return {"unanswered": len(self._delivered)}

    # Frames of programs.

    def receive(self, event: ProgramSaid | ProgramEnded, now: float, wall_ms: int) -> None:
        """Takes one frame of a program, or the end of its process."""
        self._programs.wall_ms = wall_ms = self._observe(now, wall_ms)
        if isinstance(event, ProgramSaid):
            self._frame_received(event.key, event.data, now, wall_ms)
        else:
            self._ended(event.key, event.reason, event.stderr, now)

    def _frame_received(self, key: int, data: bytes, now: float, wall_ms: int) -> None:
        program = self._programs.get(key)
        if program is None:
            return
        try:
            call = calls.read_act(data)
        except ValueError as error:
            self._break(program, f"its process said what it cannot say: {error}", "", now)
            return
        job = self._jobs.get(program.app_id)
        if job is None:
            return
        try:
            self._carry_out(program, job, call, now, wall_ms)
        except calls.AnswerError as error:
            self._break(program, f"its process {error}", "", now)
        except OverBudgetError as error:
            self._break(program, str(error), "", now)
        except (Exception, pl.exceptions.PanicException) as error:  # whatever it is, other jobs go on
            reason = f"its call {type(call).__name__} could not be carried out: {type(error).__name__}: {error}"
            self._break(program, reason[:TEXT_CHARACTERS_MAX], traceback.format_exc()[-TEXT_CHARACTERS_MAX:], now)

    def _ended(self, key: int, reason: str, stderr: str, now: float) -> None:
        """A program's process is gone; `stderr` is what it printed last."""
        if (program := self._programs.get(key)) is not None:
            self._break(program, f"its process {reason}", stderr[-TEXT_CHARACTERS_MAX:], now)

    def _carry_out(self, program: Program, job: LocalJob, call: calls.FromProgram, now: float, wall_ms: int) -> None:
        match call:
            case calls.CodeLoaded(about=about):
                self._programs.loaded(program, about, now)
                self._deployments.code_loaded(job, now, wall_ms)
            case calls.CallbackFailed(reason=reason, text=text):
                self._break(program, reason, text, now)
            case calls.WriteLog(text=text):
                self._log(program, job, text, now)
            case calls.RouteCall():
                self._rpc.send(program, call, now)
            case calls.AskCall():
                self._rpc.ask(program, call, now)
            case calls.ReplyCall():
                self._reply(program, call, now)
            case calls.ShowCall(json=json):
                if program.shown.take(now):
                    self._show(Shown(program.app, json))
            case calls.ReadCall(ticket=ticket, token=token):
                rows = job.paos.rows(token)
                refusal = "these PAOs are not held any more" if rows is None else None
                self._programs.answer(program.key, calls.AnswerArrived(ticket, refusal, rows=rows or []))
            case calls.StatesFolded():
                if (fault := job.folds.answered(call)) is not None:
                    self._break(program, f"its process {fault}", "", now)
                self._jobs.advance(job, now)
            case calls.ElementsProcessed() | calls.StatesTaken():
                if not self.element_act(job.app_id, call, now):
                    self._break(program, "its process answered for elements that it was not asked about", "", now)
            case calls.MulticastCall() | calls.SubscribeCall() | calls.UpdateCall():
                self._as_master(program, job, call, now, wall_ms)
            case _:
                self._with_events(program, job, call, now, wall_ms)

    def _as_master(
        self,
        program: Program,
        job: LocalJob,
        call: calls.MulticastCall | calls.SubscribeCall | calls.UpdateCall,
        now: float,
        wall_ms: int,
    ) -> None:
        """Carries out calls that only code at the root may make; code may not know yet that its root was replaced."""
        if job.root is None or job.epoch is None:
            return
        match call:
            case calls.MulticastCall(message=message):
                if program.multicasts.take(now):
                    self._sender.multicast(job.app_id, ProgramMulticast(job.app_id, job.epoch, message), now)
                    program.multicasts.refused = 0
                elif program.multicasts.refused == 1:
                    self._log(program, job, TOO_MANY_MULTICASTS, now)
            case calls.SubscribeCall(app=app):
                refusal = self._subscriptions.subscribe(program, app, now)
                if refusal is not None:
                    self._log(program, job, refusal, now)
            case calls.UpdateCall(query=query, reset=reset):
                refusal = self._masters.switch_function(job.app_id, query, now, wall_ms, reset=reset)
                if refusal is not None:
                    self._log(program, job, refusal, now)

    def _with_events(self, program: Program, job: LocalJob, call: calls.FromProgram, now: float, wall_ms: int) -> None:
        """Carries out calls on events and PAOs; an agent without the job's stream has none of either."""
        pipeline = job.pipeline
        if pipeline is None:
            return
        wrong: str | None = None
        match call:
            case calls.InsertCall(columns=columns):
                if len(set(map(len, columns.values()))) == 1:
                    pipeline.put(columns, wall_ms)
            case calls.EventsMapped() if isinstance(pipeline, MappedPipeline | SelfPacedMappedPipeline):
                fault = pipeline.mapped(program.digest, call.batch, call.origins, call.columns)
                if fault is not None:
                    self._break(program, f"its process {fault}", "", now)
            case calls.FlushCall(token=token) if isinstance(pipeline, SelfPacedPipeline):
                pipeline.flush(token)
            case calls.EmptyCall() if isinstance(pipeline, SelfPacedPipeline):
                pipeline.empty()
            case calls.CallbackReturned() if isinstance(pipeline, SelfPacedPipeline):
                pipeline.gather_waiting()
            case calls.SendCall(token=token, pane=pane) if isinstance(pipeline, SelfPacedPipeline):
                wrong = pipeline.send(token, pane, wall_ms)
                self._jobs.advance(job, now)
            case _:
                wrong = NOT_DRIVEN
        if wrong is not None:
            self._log(program, job, wrong, now)

    def _break(self, program: Program, reason: str, text: str, now: float) -> None:
        """Reports failed code: this ends the job, or only this agent's work on it if the code did not load."""
        was_ready = program.is_ready
        self._programs.fail(program, reason)
        job = self._jobs.get(program.app_id)
        if job is None or job.epoch is None or job.master_peer is None:
            return
        if not was_ready and self._deployments.code_refused(job, program, now):
            return
        broken = ProgramFailed(job.app_id, job.epoch, self._agent_name, reason, text)
        self._sender.send(job.master_peer, broken, now)

    def _log(self, program: Program, job: LocalJob, text: str, now: float) -> None:
        """Sends a line for the job's log to its master; lines past the rate limit are left out, and counted."""
        if job.epoch is None or job.master_peer is None or not program.lines.take(now):
            return
        lines = [Line(self._programs.wall_ms, self._agent_name, text)]
        if refused := program.lines.take_refused():
            lines.insert(0, Line(self._programs.wall_ms, self._agent_name, f"({refused} lines more than may be said)"))
        self._sender.send(job.master_peer, LogLines(job.app_id, job.epoch, lines), now)

    # Messages of other jobs.

    def _deliver(self, request: JobRequest, requested: Requested, now: float) -> None:
        """Delivers a message of another job to the code at the root; the code's answer goes back when it comes."""
        job = self._jobs.get(request.app_id)
        if job is None or job.root is None:
            self._sender.respond(requested, NoJob(request.app_id), now)
            return
        program = job.program
        self._forget_ended()
        about = program.about if program is not None else None
        refusal = None
        if program is None or about is None or not program.is_ready:
            refusal = "is not ready yet"
        elif not about.delivers:
            refusal = "takes no messages: its code has no deliver"
        elif len(self._delivered) >= UNANSWERED_MAX:
            refusal = f"has {UNANSWERED_MAX} messages to answer already"
        if refusal is not None or program is None:
            self._sender.respond(requested, JobResponse(requested.key, None, refusal), now)
            return
        self._tickets += 1
        self._delivered[program.key, self._tickets] = requested
        place = self._programs.place(program)
        self._programs.call(program, calls.RequestDelivered(place, self._tickets, request.sender, request.message))

    def _reply(self, program: Program, reply: calls.ReplyCall, now: float) -> None:
        requested = self._delivered.pop((program.key, reply.ticket), None)
        if requested is not None:
            self._sender.respond(requested, JobResponse(requested.key, reply.message, reply.refusal), now)

    def _forget_ended(self) -> None:
        """Drops messages to programs that have ended and will not answer."""
        for key, ticket in [which for which in self._delivered if self._programs.get(which[0]) is None]:
            del self._delivered[key, ticket]
