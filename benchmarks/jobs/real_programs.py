"""What real program processes take on this machine: their start with the loading of code, and the way of a word."""

import statistics
import sys
from dataclasses import dataclass

import trio

from agent.programs import calls
from agent.programs.commands import EndProgram, ProgramEnded, ProgramLimits, ProgramSaid, StartProgram, TellProgram
from agent.programs.program_supervisor import ProgramSupervisor
from benchmarks.race import BenchmarkError

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Times:
    """`start_s`: of each, from the order to start a program until its code is loaded. `wire_s`: of a word, one way."""

    start_s: tuple[float, ...]
    wire_s: float


def measure(code: bytes, starts: int = 20, words: int = 100) -> Times:
    """Starts programs of this job, one after the other, and calls the last one's timer, which has to answer."""
    return trio.run(_measure, code, starts, words)


async def _measure(code: bytes, starts: int, words: int) -> Times:
    told, heard = trio.open_memory_channel[ProgramSaid | ProgramEnded](100)
    programs = ProgramSupervisor([sys.executable, "-P", "-m", "elf.program"], ProgramLimits(), told.send_nowait)
    place = calls.ProgramPosition(is_root=True, parent="0" * 32, children=[], now_ms=0, version=1)
    load = calls.encode(calls.LoadCode(place, "bench", "agent", "0" * 32, code))
    start_s, wire_s = [], []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(programs.run)
        for key in range(starts):
            began = trio.current_time()
            programs.order(StartProgram(key, "bench"))
            programs.order(TellProgram(key, load))
            await _said(heard)
            start_s.append(trio.current_time() - began)
            if key < starts - 1:
                programs.order(EndProgram(key))
        for _ in range(words):
            began = trio.current_time()
            programs.order(TellProgram(starts - 1, calls.encode(calls.TimerTick(place))))
            await _said(heard)
            wire_s.append((trio.current_time() - began) / 2)
        nursery.cancel_scope.cancel()
    return Times(tuple(start_s), statistics.median(wire_s))


async def _said(heard: "trio.MemoryReceiveChannel[ProgramSaid | ProgramEnded]") -> None:
    with trio.move_on_after(_TIMEOUT_S):
        match await heard.receive():
            case ProgramSaid():
                return
            case ProgramEnded(reason=reason, stderr=stderr):
                raise BenchmarkError(f"a program {reason} {stderr[-200:]}")
    raise BenchmarkError(f"a program says nothing for {_TIMEOUT_S:g} s")
