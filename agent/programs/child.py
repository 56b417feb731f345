"""Runs a program: contains the process, then answers calls until the agent is gone.

The descriptors 0, 1 and 2 belong to job code: it reads nothing from 0, and its output goes where its traceback goes.
The pipe to the agent uses other descriptors.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from agent.programs import kernel
from agent.programs.agent_pipe import AgentPipe
from agent.programs.confinement import ConfinementError, confine
from agent.programs.frames import EXIT_EXCEPTION, EXIT_MEMORY, EXIT_UNCONTAINED, TERMS_BYTES_MAX, read_terms

TIME_ZONES = "/usr/share/zoneinfo"
OOM_SCORE = "1000"
"""The kernel's highest score of processes to end."""
Runner = Callable[[bytes], None]


def serve(make_runner: Callable[[AgentPipe], Runner], readable: Iterable[str] = ()) -> NoReturn:
    """Makes this process a program; the last call of its main module.

    Once contained, the process calls `make_runner`, then the runner with each call of the agent. A runner may write to
    the pipe any number of times, and read from it the answers it asked for. An exception ends the program; a runner has
    to let MemoryError through. `readable`: paths it reads, besides those Python imports from.
    """
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    wire = _take_wire()
    agent_pid, limits = read_terms(wire.read())
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent_pid:
        os._exit(0)
    os.nice(limits.nice)
    _go_first()
    wire.frame_bytes_max = limits.frame_bytes
    try:
        confine(limits, [*_import_paths(), TIME_ZONES, *readable])
    except ConfinementError as error:
        _leave(EXIT_UNCONTAINED, str(error))
    _leave(_work(wire, make_runner))


def _go_first() -> None:
    """Has the kernel end this process, before any agent, where the machine has no memory left."""
    with suppress(OSError):  # no /proc
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _work(wire: AgentPipe, make_runner: Callable[[AgentPipe], Runner]) -> int:
    """Answers calls until the agent is gone; returns the exit code."""
    try:
        runner = make_runner(wire)
        while True:
            wire.done()
            try:
                call = wire.read()
            except EOFError:
                return 0
            runner(call)
    except SystemExit:
        raise
    except BaseException as error:
        if isinstance(error, MemoryError):
            _forget_frames(error)
        sys.__excepthook__(type(error), error, error.__traceback__)
        return EXIT_MEMORY if isinstance(error, MemoryError) else EXIT_EXCEPTION


def _forget_frames(error: BaseException) -> None:
    """Clears the variables of the failed frames, so that there is memory to print the traceback."""
    trace = error.__traceback__
    while trace is not None:
        with suppress(RuntimeError):  # this one is running
            trace.tb_frame.clear()
        trace = trace.tb_next


def _leave(code: int, last_words: str = "") -> NoReturn:
    """Ends the process without running the exit handlers of job code."""
    if last_words:
        print(last_words, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # job code may have closed it, or put something else in its place
            stream.flush()
    os._exit(code)


def _take_wire() -> AgentPipe:
    wire = AgentPipe(os.dup(0), os.dup(1), TERMS_BYTES_MAX)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


def _import_paths() -> Iterable[str]:
    """The folders Python imports from: its library, site-packages, loaded packages, and its C libraries."""
    homes = tuple(f"{prefix}{os.sep}" for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix})
    yield from (path for path in sys.path if path.startswith(homes))
    for name, module in list(sys.modules.items()):
        if "." not in name:
            yield from getattr(module, "__path__", ())
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        mapped = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "/" in line}
    libraries = {os.path.dirname(path) for path in mapped if ".so" in os.path.basename(path)}  # noqa: PTH119, PTH120
    yield from libraries
    yield from (f"/usr{path}" for path in libraries if path.startswith("/lib"))
