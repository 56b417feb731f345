"""The archiver as a process beside the agent, which starts it and with which it ends.

The archiver reads the agent's streams a second time, at low priority, and shares neither interpreter nor memory with
it. The agent holds the other end of its standard input: when that closes, the archiver writes what it holds and ends.
It reports its status on standard output and logs to standard error.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import signal
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from agent import log
from agent.archive.format.log import ArchiveError
from agent.archive.format.status import ArchiveStatus
from agent.archive.format.streams import archived_streams
from agent.archive.writer.archiver import Archiver
from agent.configuration.config import ArchiveConfig, Config, ConfigError, load_config
from agent.sources.file.finding import reason_of

NICE = 10
POLL_S = 0.25
REST_MAX_S = 1.0
"""Upper bound on the rest after each step, which lasts as long as the step: the archiver takes at most half a core."""
STATUS_S = 1.0
RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0
LAST_READING_S = 3.0
"""Upper bound on the last reading before the archiver ends; the rest waits for its next start."""
LOCK_FILE = "lock"
EXIT_USAGE = 2


def main(arguments: list[str]) -> int:
    """Runs the archiver; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m agent.archive agent.toml", file=sys.stderr)
        return EXIT_USAGE
    try:
        config = load_config(Path(arguments[0]))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    if config.archive is None:
        print(f"{config.path}: has no section [archive]", file=sys.stderr)
        return EXIT_USAGE
    log.start_logging(config.log_level)
    os.nice(NICE)
    ArchiveProcess(config, config.archive).run()
    return 0


class ArchiveProcess:
    """Archives until it is told to end, and starts over after the archive could not be used."""

    def __init__(self, config: Config, archive: ArchiveConfig) -> None:
        self._config, self._archive = config, archive
        self._is_ending = False
        self._next_status = 0.0
        self._poll = select.poll()
        if _is_tether(sys.stdin.fileno()):
            self._poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        pause_s, said = RETRY_MIN_S, ""
        while not self._is_ending:
            began = time.monotonic()
            try:
                self._archive_streams()
            except (ArchiveError, OSError) as error:
                fault = _words(error)
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
                log.failed("archiver failed", error)
            else:
                continue
            if fault != said:
                log.warn("archive waits", fault=fault, directory=str(self._archive.directory))
            said = fault
            if time.monotonic() - began > RETRY_MAX_S:
                pause_s = RETRY_MIN_S
            self._tell(ArchiveStatus(str(self._archive.directory), 0, fault, []))
            self._sleep(pause_s)
            pause_s = min(RETRY_MAX_S, 2 * pause_s)

    def _archive_streams(self) -> None:
        with _Lock(self._archive.directory):
            streams = archived_streams(self._config, self._archive)
            archiver = Archiver(self._archive, self._config.name, streams, lambda: secrets.randbits(63))
            log.info("archiving", directory=str(self._archive.directory), streams=sorted(streams))
            try:
                while not self._is_ending:
                    began = time.monotonic()
                    is_busy = archiver.step(began, _wall_ms())
                    if time.monotonic() >= self._next_status:
                        self._next_status = time.monotonic() + STATUS_S
                        self._tell(archiver.status())
                    self._sleep(min(time.monotonic() - began, REST_MAX_S) if is_busy else POLL_S)
                deadline = time.monotonic() + LAST_READING_S
                while archiver.step(time.monotonic(), _wall_ms()) and time.monotonic() < deadline:
                    pass
                archiver.end(time.monotonic(), _wall_ms())
                self._tell(archiver.status())
            finally:
                archiver.close()

    def _sleep(self, seconds: float) -> None:
        """Sleeps, unless the agent ends meanwhile."""
        deadline = time.monotonic() + seconds
        while not self._is_ending:
            left = deadline - time.monotonic()
            for descriptor, _ in self._poll.poll(min(max(0.0, left), POLL_S) * 1000):
                self._is_ending |= not os.read(descriptor, 4096)
            if left <= 0:
                return

    def _tell(self, status: ArchiveStatus) -> None:
        with suppress(OSError):  # nobody listens
            sys.stdout.buffer.write(_json(status) + b"\n")
            sys.stdout.buffer.flush()

    def _end(self, number: int, _frame: object) -> None:
        log.info("archiver ends", signal=signal.Signals(number).name)
        self._is_ending = True


class _Lock:
    """Lock that keeps other archivers from a store. The system releases it when the process ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = -1

    def __enter__(self) -> None:
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._descriptor = os.open(self._directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise ArchiveError(f"{self._directory}: another archiver is writing to it") from None

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _is_tether(descriptor: int) -> bool:
    """Whether the descriptor is a pipe or socket, whose other end an agent may hold."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _json(status: ArchiveStatus) -> bytes:
    """The status as JSON; faults may name files whose names are not Unicode."""
    streams = [msgspec.structs.replace(one, fault=log.printable(one.fault)) for one in status.streams]
    return msgspec.json.encode(msgspec.structs.replace(status, fault=log.printable(status.fault), streams=streams))


def _words(error: ArchiveError | OSError) -> str:
    if isinstance(error, ArchiveError):
        return str(error)
    return f"{error.filename}: {reason_of(error)}" if error.filename else reason_of(error)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
