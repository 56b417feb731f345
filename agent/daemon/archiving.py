"""Supervises the archiver process: starts it, reads its status, restarts it when it dies, ends it with the agent."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import trio

from agent import log
from agent.archive.format.status import ArchiveStatus
from agent.configuration.config import Config

STATUS_BYTES_MAX = 1 << 20
PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 60.0
END_S = 10.0
"""Time the archiver has to write the rows it holds; unwritten rows are read again at its next start."""
ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:200,muzzy_decay_ms:200",
}
"""Environment that keeps the archiver to one core and returns memory early: the rest is the web server's."""


class ArchiveSupervisor:
    """Keeps one archiver running. `status` is its last report; None without an archive or a report."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._has_changed = trio.Event()
        self.status: ArchiveStatus | None = None
        self.restarts = 0

    def statistics(self) -> dict[str, int]:
        """Totals over all streams, as the archiver last reported them."""
        streams = [] if self.status is None else self.status.streams
        names = ("rows", "segments", "bytes", "lag_bytes", "dropped_rows", "dropped_bytes", "gaps")
        return {name: sum(getattr(stream, name) for stream in streams) for name in names}

    async def run(self) -> None:
        """Runs until it is cancelled; by its end the archiver has written the rows it held."""
        while True:
            self._has_changed = changed = trio.Event()
            async with trio.open_nursery() as nursery:
                if self._config.archive is not None:
                    nursery.start_soon(self._keep_running)
                await changed.wait()
                nursery.cancel_scope.cancel()
            self.status = None

    def change(self, config: Config) -> None:
        """Archives as another configuration says, which the archiver reads itself: from its files."""
        self._config = config
        self._has_changed.set()

    async def _keep_running(self) -> None:
        pause_s = PAUSE_MIN_S
        while True:
            began = trio.current_time()
            reason = await self._run_once()
            if trio.current_time() - began > PAUSE_MAX_S:
                pause_s = PAUSE_MIN_S
            log.warn("archiver ended, starting it anew", reason=reason, after_s=pause_s)
            await trio.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)
            self.restarts += 1

    async def _run_once(self) -> str:
        """Runs the archiver once; returns how it ended."""
        command = [sys.executable, "-P", "-m", "agent.archive", str(self._config.path)]
        try:
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | ENVIRONMENT
            )
        except OSError as error:
            return f"cannot be started: {error.strerror}"
        log.info("archiver started", pid=process.pid)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, process)
                code = await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        line = b""
        async for piece in process.stdout:
            *whole, line = (line + piece).split(b"\n")
            if whole:
                self._note(whole[-1])
            line = line[:STATUS_BYTES_MAX]

    def _note(self, line: bytes) -> None:
        try:
            self.status = msgspec.json.decode(line, type=ArchiveStatus)
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.debug("archiver says what it should not", text=line[:200].decode(errors="replace"))


async def _end(process: trio.Process) -> None:
    """Waits for the archiver to finish, and reaps it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()
    with trio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        log.warn("archiver is killed before it has written everything", after_s=END_S)
        process.kill()
        await process.wait()
