"""Runs the process of one program: starts it, exchanges frames with it, ends it."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import trio

from agent import log
from agent.programs import kernel
from agent.programs.commands import ProgramEnded, ProgramLimits, ProgramSaid, StartProgram, TellProgram
from agent.programs.exit_reason import how_it_ended
from agent.programs.frames import Frames, FrameTooLargeError, framed, terms
from agent.programs.watchdog import Watchdog, size

READ_BYTES = 1 << 16
PIPE_BYTES = 1 << 18
"""Size of the pipes of a program: a call or an answer of elements fits, and neither side waits for the other."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FRAME_COST = 64
"""Approximate memory of a waiting frame besides its bytes."""
LAST_WORDS_S = 0.5
"""Time a program that exceeded a time limit has to print its traceback before it is killed."""
CLOSED_S = 0.5
"""Time a program that closed its pipe has to end by itself."""
DRAIN_S = 1.0
REAP_S, REAP_POLL_S = 5.0, 0.005
PRINTED_PAUSE_S = 0.05
"""Pause between two readings of a program's output, `READ_BYTES` each at most; a constant printer waits."""
ENVIRONMENT = {"HOME": "/", "OMP_NUM_THREADS": "1", "TZ": "UTC"}
"""Environment of programs: no home, no threads of numpy, which are refused, the same time zone everywhere."""
KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH",)
"""Variables a program inherits: Python may need them to find its own library."""


class ProgramProcess:
    """One program. Only `run` blocks or raises; its tasks call `told` with the program's frames."""

    def __init__(self, order: StartProgram, limits: ProgramLimits, told: Callable[[ProgramSaid], None]) -> None:
        self.name = order.name
        self.key = order.key
        self._limits = limits
        self._told = told
        self._watchdog = Watchdog(limits, trio.current_time())
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent: list[bytes] = []
        self._held: list[bytes] = []
        """Calls of a program that is held to its processors, until they may be sent."""
        self._unsent_bytes = 0
        self._has_unsent = trio.Event()
        self._printed = bytearray()
        self._is_dismissed = False
        self._breach: str | None = None
        self._wants_last_words = False
        self._condemned = trio.Event()
        self._closed = trio.Event()
        self._is_over = trio.Event()

    def tell(self, order: TellProgram) -> None:
        """Queues a message; ends the program if too much is queued already."""
        if self._condemned.is_set():
            return
        if len(order.data) > self._limits.frame_bytes:
            self.condemn(f"was to be told {len(order.data):,} bytes at once: at most {self._limits.frame_bytes:,} are")
            return
        frame = framed(order.data)
        self._unsent_bytes += len(frame) + FRAME_COST
        if self._unsent_bytes > self._limits.unsent_bytes:
            self.condemn(f"does not keep up: more than {size(self._limits.unsent_bytes)} wait for it")
            return
        if not order.is_call:
            self._unsent.append(frame)  # before calls that wait: one that is under way awaits it
        elif self._watchdog.pace is None:
            self._watchdog.note_call(trio.current_time())
            self._unsent.append(frame)
        else:
            self._watchdog.note_waiting(trio.current_time())
            self._held.append(frame)
        self._has_unsent.set()

    def dismiss(self) -> None:
        """Ends the program without a report."""
        self._is_dismissed = True
        self._condemned.set()

    def condemn(self, breach: str, *, wants_last_words: bool = False) -> None:
        """Ends the program for a breach; the first breach counts."""
        if not self._condemned.is_set():
            self._breach, self._wants_last_words = breach, wants_last_words
            self._condemned.set()

    def next_check(self) -> float:
        """The time, on trio's clock, at which to call `check`."""
        return math.inf if self._condemned.is_set() else self._watchdog.next_check()

    def memory_bytes(self) -> int:
        """The memory it uses, without what it shares with others; 0 if it does not run."""
        process = self._process
        if process is None or process.returncode is not None or self._condemned.is_set():
            return 0
        try:
            _, resident, shared, *_ = _statm(process.pid)
        except (OSError, ValueError):
            return 0
        return (resident - shared) * PAGE_BYTES

    def check(self) -> None:
        """Checks elapsed and CPU time against the limits."""
        breach = self._watchdog.check_time(trio.current_time(), self._cpu_seconds())
        if breach is not None:
            self.condemn(breach, wants_last_words=True)

    def _cpu_seconds(self) -> float:
        process = self._process
        return 0.0 if process is None or process.returncode is not None else _cpu_seconds(process.pid)

    async def run(self, command: Sequence[str]) -> ProgramEnded | None:
        """Runs the program; returns how it ended, unless it was dismissed. When cancelled, kills and reaps it."""
        if self._condemned.is_set():
            return self._ended(self._breach or "")
        try:
            self._process = process = _spawn(command)
            _widen(process.stdin, process.stdout)
        except OSError as error:
            return self._ended(f"cannot be started: {error.strerror}")
        log.debug("program started", program=self.name, pid=process.pid)
        try:
            await self._live(process)
        except OSError as error:  # the agent has no descriptors left
            self.condemn(f"cannot be started: {error.strerror}")
        finally:
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                pipe.close()
            process.kill()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + REAP_S):
                while process.poll() is None:
                    await trio.sleep(REAP_POLL_S)
        printed = self._printed.decode(errors="backslashreplace")
        return self._ended(self._breach or how_it_ended(process.returncode, printed, self._limits), printed)

    def _ended(self, reason: str, printed: str = "") -> ProgramEnded | None:
        if self._is_dismissed:
            return None
        log.warn("program ended", program=self.name, reason=reason)
        return ProgramEnded(self.key, reason, printed)

    # Its tasks.

    async def _live(self, process: subprocess.Popen[bytes]) -> None:
        async with (
            _Pidfd(process.pid) as ended,
            _stream(process.stdin) as stdin,
            _stream(process.stdout) as stdout,
            _stream(process.stderr) as stderr,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._feed, stdin)
            nursery.start_soon(self._execute, process)
            nursery.start_soon(self._mind_closed_wire)
            async with trio.open_nursery() as listening:
                listening.start_soon(self._listen, stdout)
                listening.start_soon(self._keep_printed, stderr)
                await ended.wait()
                self._is_over.set()
                listening.cancel_scope.deadline = trio.current_time() + DRAIN_S
            nursery.cancel_scope.cancel()

    async def _feed(self, stdin: trio.lowlevel.FdStream) -> None:
        try:
            await stdin.send_all(framed(terms(os.getpid(), self._limits)))
            while True:
                with trio.move_on_after(self._pause_s() if self._held else math.inf):
                    await self._has_unsent.wait()
                self._has_unsent = trio.Event()
                self._release()
                frames, self._unsent = self._unsent, []
                await stdin.send_all(b"".join(frames))
                self._unsent_bytes -= sum(map(len, frames)) + FRAME_COST * len(frames)
        except trio.BrokenResourceError:
            self._closed.set()

    def _pause_s(self) -> float:
        """The time until calls that are held may be sent."""
        assert self._watchdog.pace is not None
        return self._watchdog.pace.pause_s(trio.current_time(), self._cpu_seconds())

    def _release(self) -> None:
        """Lets calls be sent that were held, if there are processors for them."""
        if not self._held or self._pause_s() > 0:
            return
        for frame in self._held:
            self._watchdog.note_call(trio.current_time())
            self._unsent.append(frame)
        self._held.clear()

    async def _listen(self, stdout: trio.lowlevel.FdStream) -> None:
        frames = Frames(self._limits.frame_bytes)
        while piece := await stdout.receive_some(PIPE_BYTES):
            try:
                found = frames.add(piece)
            except FrameTooLargeError as error:
                self.condemn(str(error))
                return
            for frame in found:
                if self._condemned.is_set():
                    return
                breach = self._watchdog.note_frame(frame, trio.current_time())
                if breach is not None:
                    self.condemn(breach)
                elif frame:
                    self._told(ProgramSaid(self.key, frame))
        self._closed.set()

    async def _keep_printed(self, stderr: trio.lowlevel.FdStream) -> None:
        while piece := await stderr.receive_some(READ_BYTES):
            self._printed += piece
            del self._printed[: -self._limits.stderr_bytes]
            with trio.move_on_after(PRINTED_PAUSE_S):
                await self._is_over.wait()

    async def _mind_closed_wire(self) -> None:
        await self._closed.wait()
        await trio.sleep(CLOSED_S)
        self.condemn("closed its connection to the agent")

    async def _execute(self, process: subprocess.Popen[bytes]) -> None:
        await self._condemned.wait()
        if self._wants_last_words:
            process.send_signal(signal.SIGABRT)  # faulthandler prints the traceback, wherever it is
            await trio.sleep(LAST_WORDS_S)
        process.kill()


def _spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts the process, in about 0.3 ms, in this thread, since the process dies with the thread that started it."""
    environment = ENVIRONMENT | {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        env=environment, cwd="/", start_new_session=True,
    )  # fmt: skip


def _widen(*pipes: IO[bytes] | None) -> None:
    """Enlarges pipes, as far as the system lets this user."""
    for pipe in pipes:
        assert pipe is not None
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _stream(pipe: IO[bytes] | None) -> trio.lowlevel.FdStream:
    """Turns a pipe into a stream of trio; closes the pipe."""
    assert pipe is not None
    stream = trio.lowlevel.FdStream(os.dup(pipe.fileno()))
    pipe.close()
    return stream


def _statm(pid: int) -> list[int]:
    return [int(pages) for pages in Path(f"/proc/{pid}/statm").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process that is not reaped yet."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # as `clock_getcpuclockid` has it
    except OSError:
        return 0.0


class _Pidfd:
    """Waits for the end of a process."""

    def __init__(self, pid: int) -> None:
        self._descriptor = kernel.open_pidfd(pid)

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._descriptor)

    async def __aenter__(self) -> _Pidfd:
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self._descriptor)
