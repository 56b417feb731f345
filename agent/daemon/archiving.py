"""The archiver beside the agent: started, listened to, started anew when it dies, ended with the agent."""

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
"""So long it may take to write what it holds; what it has not written it will read again."""
ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:200,muzzy_decay_ms:200",
}
"""It has no haste, and the other cores are the web server's; so is the memory that it needs only for a moment."""


class ArchiveSupervisor:
    """Keeps one archiver running. `status`: what it said last; None where there is no archive, or it said nothing."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.status: ArchiveStatus | None = None

    async def run(self) -> None:
        """Until it is cancelled; then the archiver has written what it held."""
        if self._config.archive is None:
            return
        pause_s = PAUSE_MIN_S
        while True:
            began = trio.current_time()
            reason = await self._run_once()
            if trio.current_time() - began > PAUSE_MAX_S:
                pause_s = PAUSE_MIN_S
            log.warn("archiver ended, starting it anew", reason=reason, after_s=pause_s)
            await trio.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)

    async def _run_once(self) -> str:
        """How it ended."""
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
    """Lets it finish, and reaps it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()
    with trio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        log.warn("archiver is killed before it has written everything", after_s=END_S)
        process.kill()
        await process.wait()
