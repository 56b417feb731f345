"""What the code of a job is told where an agent has a part in it: events to map, the master's word, children's PAOs."""

from __future__ import annotations

from typing import Any

from agent.programs.calls import ChildPaosReceived, MapEvents, MulticastArrived
from agent.runtime.ingest.mapped import Send
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.messages.programs import ProgramMulticast
from overlay import format_id


def mapper(part: LocalJob, programs: Programs) -> Send:
    """Has the code of a part's versions map events."""

    def send(code: bytes, number: int, times: list[int], columns: dict[str, list[Any]]) -> bool:
        program = part.programs.get(code)
        return program is not None and programs.call(
            program, MapEvents(programs.place(program), number, times, columns)
        )

    return send


def hear(part: LocalJob, message: ProgramMulticast, programs: Programs) -> None:
    """The master says something to the job's code."""
    if (program := part.program) is not None:
        programs.call(program, MulticastArrived(programs.place(program), program.app, message.message))


def show_received(part: LocalJob, programs: Programs) -> None:
    """Tells the job's code of what children have sent."""
    received = part.paos.received()
    if (program := part.program) is not None:
        for child, token in received:
            programs.call(program, ChildPaosReceived(programs.place(program), format_id(child), token))
